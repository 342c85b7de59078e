"""What `amqpkit run` needs to be watched: how it logs, and its /metrics and /healthz."""

import logging
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.cli.connect import Place, same_cluster, trust
from amqpkit.cli.dlq.wording import harmless
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.spans import Tracing
from amqpkit.errors import AmqpkitError
from amqpkit.model import Topology
from amqpkit.operate.logs import JsonFormatter
from amqpkit.ports import BrokerInfo, ListedConsumer, QueueFigures

if TYPE_CHECKING:
    from amqpkit.deliver.worker import Worker
    from amqpkit.operate.metrics.listener import Metrics

log = logging.getLogger("amqpkit.run")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How a worker can be watched.

    Parameters
    ----------
    metrics_port
        Serve /metrics (Prometheus) and /healthz on this port; needs the management API and the extra prometheus.
    metrics_host
        The address to serve them at; 0.0.0.0 for all.
    log_format
        text for people, json for one object a line with message id, attempt and trace id.
    trace
        Make a span of each call of a handler, with OpenTelemetry's global tracer; needs the extra otel, and a provider
        (as opentelemetry-instrument sets one).
    """

    metrics_port: Annotated[int | None, Parameter(env_var="AMQPKIT_METRICS_PORT", show_default=False)] = None
    metrics_host: str = "127.0.0.1"
    log_format: Literal["text", "json"] = "text"
    trace: Annotated[bool, Parameter(negative=())] = False


class TextFormatter(logging.Formatter):
    """A line for each record, whatever it quotes: a stranger's message id begins none and moves no cursor.

    An exception stands below it, indented, so that none of its lines looks like a record.
    """

    def __init__(self) -> None:
        """Time, level, message."""
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        """Format the line."""
        return harmless(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the base class's name
        """Format the exception."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"    {harmless(line)}" for line in lines)


def set_up_logging(*, verbose: bool, json: bool) -> None:
    """Log to stderr: lines for people, or one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if json else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("amqpkit").setLevel(logging.DEBUG if verbose else logging.INFO)
    if json:
        # what the worker says of a message in words is said by its event, field by field
        logging.getLogger("amqpkit.worker").setLevel(logging.ERROR)


def make_metrics(topology: Topology, consumers: Iterable[Consumer[Any]]) -> "Metrics":
    """Make the listener; raises AmqpkitError when the extra is missing."""
    try:
        from amqpkit.operate.metrics.listener import Metrics
    except ImportError as error:
        msg = f"--metrics-port needs the extra prometheus: pip install 'amqpkit[prometheus]' ({error})"
        raise AmqpkitError(msg) from error
    return Metrics(topology, consumers)


def make_tracing() -> Tracing:
    """Make spans with the global tracer; raises AmqpkitError when the extra is missing."""
    from amqpkit.operate import tracing

    try:
        return tracing.Tracing()
    except ImportError as error:
        msg = f"--trace: {error}"
        raise AmqpkitError(msg) from error


class SameCluster:
    """The statistics of a management API, once it has been found to be of the broker that we consume from."""

    def __init__(self, admin: ManagementAdmin, place: Place, broker: BrokerInfo) -> None:
        """Ask nothing yet: a management API that is away must not keep a worker from starting."""
        self._admin, self._place, self._broker = admin, place, broker
        self._checked = False

    async def _check(self) -> None:
        if not self._checked:
            same_cluster(self._place, self._broker, await self._admin.identify())
            self._checked = True

    async def figures(self) -> Mapping[str, QueueFigures]:
        """See `ports.Statistics`."""
        await self._check()
        return await self._admin.figures()

    async def consumers(self) -> Sequence[ListedConsumer]:
        """See `ports.Statistics`."""
        await self._check()
        return await self._admin.consumers()


@asynccontextmanager
async def watched_worker(
    worker: "Worker", metrics: "Metrics", topology: Topology, place: Place, options: WatchOptions
) -> AsyncIterator[None]:
    """Serve /metrics and /healthz; raises AmqpkitError when the port cannot be had."""
    from amqpkit.operate.metrics.monitor import watched
    from amqpkit.operate.observe import Observer

    host, port = options.metrics_host, options.metrics_port or 0
    async with AsyncExitStack() as stack:
        # its own connections: a look at a queue is a consumer that comes and goes, and none of the worker's events
        transport = AioTransport(place.url, name="amqpkit metrics")
        await transport.open()
        stack.push_async_callback(transport.close)
        admin = await stack.enter_async_context(ManagementAdmin(place.api, vhost=place.vhost, tls=trust(place)))
        statistics = SameCluster(admin, place, transport.broker)
        observer = Observer(topology, transport, statistics)
        try:
            served = watched(worker, metrics, observer, statistics, host=host, port=port)
            bound = await stack.enter_async_context(served)
        except OSError as error:
            msg = f"--metrics-port {port}: cannot listen on {host} ({error.strerror or error})"
            raise AmqpkitError(msg) from error
        log.info("metrics at http://%s:%d/metrics, health at /healthz", host, bound)
        yield
