"""A RabbitMQ in a container, for tests: fresh, on loopback only, impatient where RabbitMQ would wait minutes.

Needs the `testing` extra and a Docker engine on this machine:
`with RabbitMQContainer() as rabbitmq: ...` gives `rabbitmq.url` and `rabbitmq.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import HttpWaitStrategy
except ImportError as error:
    message = "amqpkit.testing.container needs testcontainers: pip install 'amqpkit[testing]'"
    raise ImportError(message) from error

if TYPE_CHECKING:
    from collections.abc import Mapping

AMQP: Final = 5672
MANAGEMENT: Final = 15672

# Settings of RabbitMQ's applications, given on its command line: this works in every image, with nothing mounted.
IMPATIENT: Final[Mapping[str, str]] = {
    # How soon an unconfirmed dead-letter publish is repeated (180 s by default).
    "rabbit dead_letter_worker_publisher_confirm_timeout": "2000",
    # How often a channel looks at its consumers' timeouts (60 s by default).
    "rabbit channel_tick_interval": "1000",
    # How old the management API's counts and lists may be (5 s by default): both its source and its samples decide.
    "rabbit collect_statistics_interval": "1000",
    "rabbitmq_management_agent sample_retention_policies": (
        "[{global,[{605,1},{3660,60},{29400,600},{86400,1800}]},{basic,[{605,1},{3600,60}]},{detailed,[{605,1}]}]"
    ),
}


class RabbitMQContainer(DockerContainer):
    """RabbitMQ with its management API, started by `with` or `start()` and ready when that returns.

    Ports are bound to 127.0.0.1. They are free ones chosen by the engine unless `ports` fixes them as
    (AMQP, management), which a test that restarts the container needs. Raises TimeoutError when RabbitMQ
    is not up within `startup_timeout` seconds.
    """

    def __init__(  # noqa: PLR0913 - each has a default, and all but the first are named
        self,
        image: str = "rabbitmq:4-management",
        *,
        username: str = "amqpkit",
        password: str = "amqpkit",  # noqa: S107 - a throw-away broker on loopback
        ports: tuple[int, int] | None = None,
        labels: Mapping[str, str] | None = None,
        startup_timeout: int = 90,
    ) -> None:
        super().__init__(image, labels=dict(labels or {}), hostname="localhost")
        self.username = username
        self.password = password
        settings = " ".join(f"-{key} {value}" for key, value in IMPATIENT.items())
        self.with_env("RABBITMQ_DEFAULT_USER", username)
        self.with_env("RABBITMQ_DEFAULT_PASS", password)
        self.with_env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", settings)
        for inside, outside in zip((AMQP, MANAGEMENT), ports or (0, 0), strict=True):
            # An (address, port) pair is what the Docker API takes; testcontainers' annotation knows numbers only.
            self.ports[f"{inside}/tcp"] = ("127.0.0.1", outside) if outside else ("127.0.0.1",)  # type: ignore[assignment]
        # The management listener starts last: when it says that AMQP is open, everything is.
        health = HttpWaitStrategy(MANAGEMENT, f"/api/health/checks/port-listener/{AMQP}")
        self.waiting_for(
            health.with_basic_credentials(username, password)
            .with_startup_timeout(startup_timeout)
            .with_poll_interval(0.25)
        )

    @property
    def url(self) -> str:
        """The AMQP URL of the default vhost."""
        return f"amqp://{self._authority(AMQP)}/"

    @property
    def api(self) -> str:
        """The URL of the management API, credentials included, without a trailing slash."""
        return f"http://{self._authority(MANAGEMENT)}"

    def get_container_host_ip(self) -> str:
        """Return the address that the ports are bound to; in a container, testcontainers would guess at a gateway."""
        return "127.0.0.1"

    def start(self) -> Self:
        """Start RabbitMQ and wait until it is ready; a container that does not get there is removed."""
        try:
            return super().start()
        except BaseException:
            self.stop()
            raise

    def _authority(self, port: int) -> str:
        credentials = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}"
        return f"{credentials}@{self.get_container_host_ip()}:{self.get_exposed_port(port)}"
