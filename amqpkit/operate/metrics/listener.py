"""Events as Prometheus metrics; needs the extra `prometheus`."""

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from amqpkit.deliver.consumer import Consumer
from amqpkit.events import (
    Begun,
    ClaimLost,
    Connected,
    ConnectionLost,
    ConsumerLost,
    CopyHeld,
    DuplicateWindow,
    Event,
    Outcome,
    Published,
    Settled,
    StoreDown,
)
from amqpkit.model import Topology
from amqpkit.operate.alerts import CLOSE
from amqpkit.operate.look import FATES
from amqpkit.operate.metrics.labels import NONE, Few, Labels

HANDLING_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1440, 1800)
"""Seconds; the last is RabbitMQ's consumer timeout where nobody sets another, the one before 80 % of it."""
AGE_BUCKETS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800)
ATTEMPT_BUCKETS: Final = (1, 2, 3, 4, 5, 7, 10, 15, 20)
TIMEOUTS_MAX: Final = 10
"""Different timeouts whose bounds get buckets of their own: the longest, since above the last bound nothing is told."""
_LAST: Final = {Outcome.HANDLED, Outcome.DEAD, Outcome.DISCARDED, Outcome.REFUSED}


class Pressed(Protocol):
    """A publisher that knows its pressure."""

    @property
    def pressure(self) -> float:
        """How close it is to holding its callers back."""


class Metrics:
    """Counts events into a registry of its own, or one given; call it with each event.

    Labels are bounded: queues and types of the topology and the consumers, everything else is `other`.
    """

    def __init__(
        self, topology: Topology, consumers: Iterable[Consumer[Any]] = (), *, registry: CollectorRegistry | None = None
    ) -> None:
        """Register the metrics; raises ValueError when the registry has them already."""
        consumers = tuple(consumers)
        self.registry = registry or CollectorRegistry()
        self._labels, self._windows, self._fates = Labels.of(topology, consumers), Few(), Few()
        self._rows: dict[tuple[str, str], _Row] = {}
        self._losses: Tally[str] = Tally()
        self._handled(topology)
        self._trouble()
        self._publishing()
        for consumer in consumers:
            self._begin(consumer)

    def _begin(self, consumer: Consumer[Any]) -> None:
        """Show what this consumer may have counted, at nought: `rate()` does not see how high a series begins."""
        for payload in consumer.payloads:
            self._row(consumer.queue, payload.payload_type)
            queue, type_ = self._labels.queue(consumer.queue), self._labels.type(payload.payload_type)
            for outcome in Outcome:
                self._deliveries.labels(queue, type_, outcome.value)
            for fate in sorted(FATES):
                self._dead.labels(queue, type_, self._fates(fate))
        for counted in (self._leases, self._held, self._stores, self._consumers):
            counted.labels(self._labels.queue(consumer.queue))

    def _handled(self, topology: Topology) -> None:
        by, registry = ("queue", "type"), self.registry
        self._deliveries = Counter(
            "amqpkit_deliveries_total", "Deliveries by how they ended.", (*by, "outcome"), registry=registry
        )
        self._dead = Counter(
            "amqpkit_dead_lettered_total", "Messages dead-lettered, by fate.", (*by, "fate"), registry=registry
        )
        self._handling = Histogram(
            "amqpkit_handling_seconds",
            "Time in the handler.",
            by,
            buckets=handling_buckets(topology),
            registry=registry,
        )
        self._attempts = Histogram(
            "amqpkit_attempts",
            "Attempts that a message took to its last end.",
            by,
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._age = Histogram(
            "amqpkit_age_at_handling_seconds",
            "Age when handling begins, since the publish; retries and their delays included.",
            by,
            buckets=AGE_BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge("amqpkit_in_flight", "Handlers at work.", ("queue",), registry=registry)

    def _trouble(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"amqpkit_{name}_total", text, labels, registry=self.registry)

        self._duplicates = counter("duplicate_windows", "Moments that may have made a second copy.", "queue", "window")
        self._leases = counter("leases_lost", "Claims that ran out under their handler.", "queue")
        self._held = counter("copies_held", "Tries to place a copy that were not confirmed.", "queue")
        self._stores = counter("store_down", "Tries to ask the idempotency store that failed.", "queue")
        self._reconnects = counter("reconnects", "Connections that came back after a loss.", "purpose")
        self._lost = counter("connections_lost", "Connections or channels lost.", "purpose")
        self._consumers = counter("consumers_lost", "Times that the broker stopped to deliver to us.", "queue")

    def _publishing(self) -> None:
        self._published = Counter(
            "amqpkit_published_total", "Publishes by what became of them.", ("type", "fate"), registry=self.registry
        )
        self._publish = Histogram(
            "amqpkit_publish_seconds", "Time until a publisher knew.", ("type",), registry=self.registry
        )
        self._tries = Counter(
            "amqpkit_publish_tries_total", "Sends that the publishes took.", ("type",), registry=self.registry
        )

    def watch(self, publisher: Pressed) -> None:
        """Show a publisher's pressure as `amqpkit_publisher_pressure`; one for each registry."""
        gauge = Gauge("amqpkit_publisher_pressure", "How close to holding callers back.", registry=self.registry)
        gauge.set_function(lambda: float(publisher.pressure))

    def __call__(self, event: Event) -> None:  # noqa: C901 - one line for each event
        """Count one event."""
        match event:
            case Begun():
                self._begun(event)
            case Settled():
                self._settled(event)
            case Published():
                self._told(event)
            case DuplicateWindow():
                self._duplicates.labels(self._labels.queue(event.queue), self._windows(event.window)).inc()
            case ClaimLost():
                self._leases.labels(self._labels.queue(event.queue)).inc()
            case CopyHeld():
                self._held.labels(self._labels.queue(event.queue)).inc()
            case StoreDown():
                self._stores.labels(self._labels.queue(event.queue)).inc()
            case ConsumerLost():
                self._consumers.labels(self._labels.queue(event.queue)).inc()
            case ConnectionLost():
                self._losses[event.purpose] += 1
                self._lost.labels(event.purpose).inc()
            case Connected():
                self._connected(event.purpose)
            case _:
                pass

    def _row(self, queue: str, type_: str | None) -> "_Row":
        key = (self._labels.queue(queue), self._labels.type(type_))
        if key not in self._rows:
            self._rows[key] = _Row(
                self._handling.labels(*key),
                self._attempts.labels(*key),
                self._age.labels(*key),
                self._in_flight.labels(key[0]),
            )
        return self._rows[key]

    def _begun(self, event: Begun) -> None:
        row = self._row(event.queue, event.type)
        row.in_flight.inc()
        if event.age is not None:
            row.age.observe(_seconds(event.age))

    def _settled(self, event: Settled) -> None:
        row = self._row(event.queue, event.type)
        queue, type_ = self._labels.queue(event.queue), self._labels.type(event.type)
        self._deliveries.labels(queue, type_, event.outcome.value).inc()
        if event.handling is not None:
            row.in_flight.dec()
            if event.outcome is not Outcome.REQUEUED:  # a drain cut it short: no time to learn from
                row.handling.observe(_seconds(event.handling))
        if event.outcome in _LAST:
            row.attempts.observe(event.attempt)
        if event.outcome is Outcome.DEAD:
            self._dead.labels(queue, type_, self._fates(event.fate or NONE)).inc()

    def _told(self, event: Published) -> None:
        type_ = self._labels.type(event.type)
        self._published.labels(type_, event.fate.value).inc()
        self._publish.labels(type_).observe(_seconds(event.seconds))
        self._tries.labels(type_).inc(event.tries)

    def _connected(self, purpose: str) -> None:
        if self._losses[purpose]:
            self._losses[purpose] = 0
            self._reconnects.labels(purpose).inc()


class _Row:
    """The children of one queue and type, looked up once and not for each message."""

    __slots__ = ("age", "attempts", "handling", "in_flight")

    def __init__(self, handling: Histogram, attempts: Histogram, age: Histogram, in_flight: Gauge) -> None:
        self.handling, self.attempts, self.age, self.in_flight = handling, attempts, age, in_flight


def handling_buckets(topology: Topology) -> tuple[float, ...]:
    """Give the usual bounds, and for each timeout of the file itself and 80 % of it: the warning is exact there."""
    works = topology.work_queues.values()
    timeouts = sorted({each for work in works for each in (work.consume.timeout, work.consumer_timeout) if each})
    own = {bound for timeout in timeouts[-TIMEOUTS_MAX:] for bound in (CLOSE * timeout, timeout)}
    return tuple(sorted({*map(float, HANDLING_BUCKETS), *own}))


def _seconds(measured: float) -> float:
    """The clocks of two machines differ, and one may be set back: a sum that falls looks like a restart."""
    return max(0.0, measured)
