"""The brokers of a test run: found or started once by the process that leads it, used by all of its workers."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import docker.errors

import docker
from amqpkit.testing.container import RabbitMQContainer
from tests.containers import engine, image, run
from tests.containers.engine import Say

ADVICE = """\
No RabbitMQ to test on: {reason}.
Do one of these:
  - AMQPKIT_TEST_URL=amqp://user:password@host:5672/ make test: a broker of yours (make up gives one),
    whose management API is at port 15672 or at AMQPKIT_TEST_API_URL
  - start a Docker engine that this user may use: the tests start RabbitMQ in it, pulled or built
  - run as root on Debian, without AMQPKIT_BOOTSTRAP=0: the tests install and start Debian's docker.io themselves
  - make test-fast: only what needs no broker"""

# A management API that is silent for this long is not slow but stuck.
SILENT_FOR = 30.0


class NoBrokerError(Exception):
    """There is no broker; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A RabbitMQ: in a test, its `url` leads to a virtual host of the test's own.

    What stops the whole broker is only for one from `own_broker`: nobody else's test runs there.
    """

    id: str
    version: str
    url: str
    api: str
    image: str | None = None
    container: str | None = None
    own: bool = False

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version, to compare: `broker.release >= (4, 3)`."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def vhost(self) -> str:
        """The virtual host that `url` leads to."""
        path = urlsplit(self.url).path
        return unquote(path[1:]) if len(path) > 1 else "/"

    def http(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask the management API, `path` being what follows /api; return status and decoded answer (None if empty)."""
        parts = urlsplit(self.api)
        credentials = b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()).decode()
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(
            f"{parts.scheme}://{host}{parts.path.rstrip('/')}/api/{path.lstrip('/')}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {credentials}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SILENT_FOR) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        return status, json.loads(text) if text else None

    def close_connections(self, *, at_least: int = 1, within: float = 15.0) -> int:
        """Close every connection of this vhost, as an operator would; return how many were closed.

        The list of connections lags behind by up to a statistics interval: waits until at least so many were seen.
        Raises TimeoutError when fewer come.
        """
        closed: set[str] = set()
        deadline = time.monotonic() + within
        while True:
            for connection in self.http("GET", f"vhosts/{quote(self.vhost, safe='')}/connections")[1] or ():
                status, _ = self.http("DELETE", f"connections/{quote(connection['name'], safe='')}")
                if status == 204:
                    closed.add(connection["name"])
            if len(closed) >= at_least:
                return len(closed)
            if time.monotonic() > deadline:
                message = (
                    f"{len(closed)} connections seen in vhost {self.vhost} within {within:g} s, expected {at_least}"
                )
                raise TimeoutError(message)
            time.sleep(0.2)

    def exec(self, *command: str) -> str:
        """Run a command in the container, such as rabbitmqctl; return its output. Raises RuntimeError when it fails."""
        with self._wrapped() as container:
            status, output = container.exec_run(list(command))
        text = bytes(output).decode(errors="replace")
        if status != 0:
            message = f"{' '.join(command)}: exit {status}: {text}"
            raise RuntimeError(message)
        return text

    def stop_app(self) -> None:
        """Stop RabbitMQ but not its container: ports stay, connections are refused. Durable things survive."""
        self._demand_own("stop_app")
        self.exec("rabbitmqctl", "stop_app")

    def start_app(self) -> None:
        """Start RabbitMQ again, and wait until it takes connections."""
        self._demand_own("start_app")
        self.exec("rabbitmqctl", "start_app")
        self.wait_until_up()

    def restart_app(self) -> None:
        """Stop RabbitMQ and start it again."""
        self.stop_app()
        self.start_app()

    def pause(self) -> None:
        """Freeze the broker: its sockets stay open and silent, as with a machine that hangs."""
        self._demand_own("pause")
        with self._wrapped() as container:
            container.pause()

    def unpause(self) -> None:
        """Let a frozen broker go on."""
        with self._wrapped() as container:
            container.unpause()

    def kill(self) -> None:
        """Kill the broker without a chance to say anything."""
        self._demand_own("kill")
        with self._wrapped() as container:
            container.kill()
            container.wait()

    def start(self) -> None:
        """Start a killed broker again, on the same ports, and wait until it takes connections."""
        with self._wrapped() as container:
            container.start()
        self.wait_until_up()

    def block_publishers(self) -> None:
        """Raise a memory alarm: RabbitMQ stops reading from every connection that publishes."""
        self._demand_own("block_publishers")
        self.exec("rabbitmqctl", "set_vm_memory_high_watermark", "0.000001")

    def unblock_publishers(self) -> None:
        """Clear the memory alarm."""
        self.exec("rabbitmqctl", "set_vm_memory_high_watermark", "0.6")

    def wait_until_up(self, within: float = 60.0) -> None:
        """Wait until the AMQP port takes connections and says so in the management API. Raises TimeoutError."""
        deadline = time.monotonic() + within
        while True:
            with suppress(OSError, ValueError):
                if self.http("GET", "health/checks/port-listener/5672")[0] == 200:
                    return
            if time.monotonic() > deadline:
                message = f"RabbitMQ is not up again within {within:g} s"
                raise TimeoutError(message)
            time.sleep(0.2)

    def _demand_own(self, verb: str) -> None:
        if not self.own:
            message = f"{verb}() would disturb the tests that share this broker; take the own_broker fixture"
            raise RuntimeError(message)

    @contextmanager
    def _wrapped(self) -> Iterator[Any]:
        if self.container is None:
            message = "this broker was given by AMQPKIT_TEST_URL; it has no container"
            raise RuntimeError(message)
        client = docker.from_env()
        try:
            yield client.containers.get(self.container)
        finally:
            client.close()


@contextmanager
def fresh_vhost(broker: Broker) -> Iterator[Broker]:
    """Lend a virtual host that did not exist before and does not afterwards."""
    name = f"test-{secrets.token_hex(6)}"
    status, answer = broker.http("PUT", f"vhosts/{name}", {})
    if status not in {201, 204}:
        message = f"cannot create a virtual host: {status} {answer}"
        raise NoBrokerError(message)
    parts = urlsplit(broker.url)
    try:
        yield replace(broker, url=urlunsplit(parts._replace(path=f"/{name}")))
    finally:
        # A broker that a test has killed or frozen has nothing to tidy up.
        with suppress(OSError):
            broker.http("DELETE", f"vhosts/{name}")


def given(environ: dict[str, str]) -> Broker:
    """Return the broker of AMQPKIT_TEST_URL. Raises NoBrokerError when its management API does not answer."""
    url = environ["AMQPKIT_TEST_URL"]
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0] or "guest:guest"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    api = environ.get("AMQPKIT_TEST_API_URL") or f"http://{host}:15672"
    if "@" not in api:
        scheme, _, rest = api.partition("://")
        api = f"{scheme}://{credentials}@{rest}"
    return versioned(
        Broker("url", "", url, api.rstrip("/")),
        f"the broker of AMQPKIT_TEST_URL (management API at port {urlsplit(api).port})",
    )


def versioned(broker: Broker, what: str) -> Broker:
    """Fill in the version that a broker says it has."""
    try:
        status, overview = broker.http("GET", "overview")
    except (OSError, ValueError) as error:
        message = f"{what} does not answer: {error}"
        raise NoBrokerError(message) from error
    if status != 200:
        message = f"{what} answers {status}: {overview}"
        raise NoBrokerError(message)
    return replace(broker, version=overview["rabbitmq_version"])


def launch(name: str, key: str, owner: str, *, own: bool = False) -> Broker:
    """Start a broker in a container that is known to belong to this run."""
    # A broker that is killed and started again must find its ports fixed: else the engine chooses new ones.
    ports = (free_port(), free_port()) if own else None
    started = RabbitMQContainer(name, labels={run.LABEL: owner}, ports=ports).start()
    broker = Broker(key, "", started.url, started.api, name, started.get_container_id(), own)
    started.get_docker_client().client.close()
    return versioned(broker, name)


def discard(broker: Broker) -> None:
    """Remove a broker's container, whatever state a test has left it in."""
    client = docker.from_env()
    try:
        with suppress(docker.errors.NotFound):
            client.containers.get(broker.container).remove(force=True, v=True)
    finally:
        client.close()


def free_port() -> int:
    """Return a port of the loopback address on which nothing listens just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ids(environ: dict[str, str]) -> list[str]:
    """Name the brokers of this run, before any is started."""
    return ["url"] if environ.get("AMQPKIT_TEST_URL") else [wanted.id for wanted in image.wanted(environ)]


class Fleet:
    """The brokers that the leading process has started, and the file through which its workers learn of them."""

    def __init__(self, path: Path, say: Say) -> None:
        self.path = path
        self.reason: str | None = None
        self._say = say
        self._engine: engine.Engine | None = None
        self._ready = False

    def ensure(self) -> None:
        """Find or start the brokers, once. What keeps them away is written down for every test that needs one."""
        if self._ready:
            return
        self._ready = True
        try:
            brokers = self._find()
        except (
            NoBrokerError,
            engine.NoEngineError,
            image.NoImageError,
            docker.errors.DockerException,
            OSError,
            TimeoutError,
        ) as error:
            self.reason = ADVICE.format(reason=str(error).rstrip("."))
            self.path.write_text(json.dumps({"reason": str(error)}), encoding="utf-8")
            return
        for broker in brokers:
            self._say(f"RabbitMQ {broker.version} is ready")
        self.path.write_text(
            json.dumps({"owner": run.mark(), "brokers": [asdict(broker) for broker in brokers]}), encoding="utf-8"
        )

    def _find(self) -> list[Broker]:
        if os.environ.get("AMQPKIT_TEST_URL"):
            return [given(dict(os.environ))]
        self._engine = engine.acquire(self._say)
        sweep(self._engine.client, lambda owner: not run.lives(owner))
        names = image.obtain(image.wanted(dict(os.environ)), self._engine.client, self._say)
        self._say(f"starting {' and '.join(names.values())}")
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda item: launch(item[1], item[0], run.mark()), names.items()))

    def close(self) -> None:
        """Remove what this run has started."""
        if self._engine is not None:
            sweep(self._engine.client, lambda owner: owner == run.mark())
            self._engine.close(self._say)
            self._engine = None


def sweep(client: docker.DockerClient, unwanted: Any) -> None:
    """Remove the containers of runs that are unwanted, by the mark of their owner."""
    for container in client.containers.list(all=True, filters={"label": run.LABEL}, ignore_removed=True):
        if unwanted(container.labels[run.LABEL]):
            # Another run may be sweeping at the same moment.
            with suppress(docker.errors.APIError):
                container.remove(force=True, v=True)


def read(path: Path) -> tuple[dict[str, Broker], str]:
    """Return the brokers of this run and its mark. Raises NoBrokerError when there are none."""
    if not path.exists():
        message = "this run's brokers were never started"
        raise NoBrokerError(message)
    written = json.loads(path.read_text(encoding="utf-8"))
    if "reason" in written:
        raise NoBrokerError(written["reason"])
    return {fields["id"]: Broker(**fields) for fields in written["brokers"]}, written["owner"]
