"""A RabbitMQ in a container, for tests: fresh, reachable from this machine only, impatient where RabbitMQ would wait minutes.

Needs the `testing` extra and a Docker engine. `with RabbitMQContainer() as rabbitmq: ...` gives `rabbitmq.url` and `rabbitmq.api`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

# Both are read when testcontainers is imported, hence before it. Its reaper is one more image, pulled from a registry
# that may not answer; and inside a container it would look for brokers at the gateway, where loopback ports are not.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
os.environ.setdefault("TESTCONTAINERS_CONNECTION_MODE", "docker_host")

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

# Application settings of RabbitMQ's own, given on its command line: this works in every image, with nothing mounted.
IMPATIENT: Final[Mapping[str, int]] = {
    "dead_letter_worker_publisher_confirm_timeout": 2000,
    "channel_tick_interval": 1000,
    "collect_statistics_interval": 1000,
}


class RabbitMQContainer(DockerContainer):
    """RabbitMQ with its management API, started by `with` or `start()` and ready when that returns.

    Ports are bound to 127.0.0.1. They are free ones chosen by the engine unless `ports` fixes them as (AMQP, management),
    which a test that restarts the container needs. Raises TimeoutError when RabbitMQ is not up within `startup_timeout` seconds.
    """

    def __init__(
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
        settings = " ".join(f"-rabbit {key} {value}" for key, value in IMPATIENT.items())
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

    def start(self) -> Self:
        """Start RabbitMQ and wait until it is ready; a container that does not get there is removed."""
        try:
            return super().start()
        except BaseException:
            self.stop()
            raise

    def _authority(self, port: int) -> str:
        host = self.get_container_host_ip()
        # "localhost" may resolve to ::1 first, where nothing listens.
        host = "127.0.0.1" if host == "localhost" else host
        return f"{quote(self.username, safe='')}:{quote(self.password, safe='')}@{host}:{self.get_exposed_port(port)}"
