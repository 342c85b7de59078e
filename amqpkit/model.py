"""The nouns: what is declared, what is sent, what a handler may say.

Pure values; this module may not know any broker, file or clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, Self

NOTHING: Mapping[str, Any] = MappingProxyType({})


def nothing() -> Mapping[str, Any]:
    """Give the one empty, read-only mapping (a dataclass takes no unhashable default, and 3.11 cannot hash it)."""
    return NOTHING


# --- what is declared -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange as RabbitMQ has it; durable unless said otherwise."""

    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as RabbitMQ has it; `arguments` always hold `x-queue-type`."""

    name: str
    type: str = "quorum"
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class Binding:
    """Source exchange to destination; its identity is all of its fields, arguments too."""

    source: str
    destination: str
    routing_key: str = ""
    destination_type: Literal["queue", "exchange"] = "queue"
    arguments: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy; `definition` keys are RabbitMQ's own, without `x-`."""

    name: str
    pattern: str
    definition: Mapping[str, Any]
    apply_to: str = "quorum_queues"
    priority: int = 100


DeclaredObject = Exchange | Queue | Binding | Policy


@dataclass(frozen=True, slots=True)
class DelayQueue:
    """One delay queue: its routing key in the retry exchange (the canonical delay), its name and its TTL."""

    key: str
    queue: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Delay:
    """One retry level; with jitter it has three queues, of which a worker draws one."""

    milliseconds: int
    queues: tuple[DelayQueue, ...]


@dataclass(frozen=True, slots=True)
class Consume:
    """How a worker reads a queue; `timeout` in seconds, `rate` in messages a second; None: the file does not say."""

    prefetch: int | None = None
    concurrency: int | None = None
    timeout: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """When a dead-letter queue wants a person; `age` in seconds."""

    messages: int | None = None
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """Defaults for replaying dead letters; `rate` in messages a second."""

    rate: float | None = None
    max_replays: int | None = None


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """What a work queue means beyond its compiled objects.

    `delays` are the retry levels in order (empty for `retry: none`), `snoozes` every delay there is,
    shortest first, never empty. `retry_exchange` takes copies under a DelayQueue's key,
    `dead_exchange` takes dead letters under any key.
    """

    name: str
    accepts: tuple[str, ...]
    retry_exchange: str
    dead_exchange: str
    dead_queue: str
    delays: tuple[Delay, ...]
    snoozes: tuple[Delay, ...]
    consume: Consume = Consume()
    delivery_limit: int = 20
    depth_limit: int | None = None
    max_length: int | None = None
    consumer_timeout: float | None = None
    """Seconds; the broker's visibility timeout."""
    owner: str | None = None
    runbook: str | None = None
    alert: Alert = Alert()
    replay: Replay = Replay()

    @property
    def attempts(self) -> int:
        """How often the handler is called before the message is dead: delays + 1."""
        return len(self.delays) + 1


@dataclass(frozen=True, slots=True)
class Route:
    """Where a payload type goes; `routing_key` may hold `{field}` placeholders of the payload."""

    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything that is declared, sorted by name, and what the work queues mean."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    policies: tuple[Policy, ...] = ()
    work_queues: Mapping[str, WorkQueue] = field(default_factory=nothing)
    routes: Mapping[str, Route] = field(default_factory=nothing)
    owns: tuple[str, ...] = ()
    vhost: str | None = None
    retained: tuple[str, ...] = ()
    """Names that stay on the broker when their lines go, each with all under it."""


# --- what is found on a broker -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holding:
    """What a queue holds and who reads it; `messages` counts the unacknowledged ones too."""

    messages: int
    consumers: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What in a vhost rules over declarations, and who asks.

    `denied` are names of deprecated features that this broker refuses, `tags` those of the user, None when nobody is
    limited.
    """

    operator_policies: tuple[Policy, ...] = ()
    max_queues: int | None = None
    default_queue_type: str = "classic"
    denied: frozenset[str] = frozenset()
    user: str = ""
    tags: frozenset[str] | None = None
    exchange_types: frozenset[str] = frozenset()
    """The types that the broker has, plugins' too; empty when it was not asked."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do in a vhost: three patterns, for which RabbitMQ searches in names."""

    configure: str
    write: str
    read: str


# --- what is sent and received -----------------------------------------------------------------


class Narrow(int):
    """A number that another client sent with fewer than 64 bits; equal to the plain one, and sent on as it came.

    A Java reader casts to Integer: the same number in 64 bits breaks it. Each class has the letter of its AMQP type.
    """

    code = b"l"


class Int8(Narrow):  # noqa: D101 - the parent's docstring covers these
    code = b"b"


class UInt8(Narrow):  # noqa: D101
    code = b"B"


class Int16(Narrow):  # noqa: D101
    code = b"s"


class UInt16(Narrow):  # noqa: D101
    code = b"u"


class Int32(Narrow):  # noqa: D101
    code = b"I"


class UInt32(Narrow):  # noqa: D101
    code = b"i"


SECONDS_MAX: Final = 0xFFFF_FFFF
"""A larger number of seconds would be a year after 2106: clients that write one mean another unit."""
_NANOSECONDS_MAX: Final = 253_402_300_799 * 10**9
"""The end of the year 9999."""


class Float32(float):
    """A number that another client sent in single precision."""


class Stamp(datetime):
    """An instant that another client did not send in seconds, as AMQP has it, but in milliseconds or finer.

    `sent` is the number as it came, and is sent on; of an instant that was computed from a stamp it is None.
    """

    sent: int | None = None

    @classmethod
    def of(cls, sent: int) -> Self:
        """Read a number of 64 bits above 32 of them: the coarsest unit that stays within a calendar's years."""
        unit = next(unit for unit in (1_000_000, 1_000, 1) if sent * unit <= _NANOSECONDS_MAX or unit == 1)
        stamp = cls(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=sent * unit // 1_000)
        stamp.sent = sent
        return stamp


class Text(bytes):
    """What another client sent as a string although it is no UTF-8."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The AMQP 0-9-1 basic properties; an absent one is None. `expiration` is milliseconds as text."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Any] = field(default_factory=nothing)
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: datetime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What goes out: bytes and properties."""

    body: bytes
    properties: Properties = Properties()


class Received(Protocol):
    """What came in, as judgement sees it; properties are decoded when first asked for."""

    @property
    def queue(self) -> str: ...  # noqa: D102 - the protocol's docstring covers it
    @property
    def exchange(self) -> str: ...  # noqa: D102
    @property
    def routing_key(self) -> str: ...  # noqa: D102
    @property
    def redelivered(self) -> bool: ...  # noqa: D102
    @property
    def body(self) -> bytes: ...  # noqa: D102
    @property
    def properties(self) -> Properties: ...  # noqa: D102


# --- what a handler may say --------------------------------------------------------------------


class Verdict(Exception):
    """What a handler may return or raise instead of a result or a failure."""

    def __init__(self, reason: str = "") -> None:
        """Say why; the reason goes into the log and onto the message."""
        self.reason = reason
        super().__init__(reason)


class DeadLetter(Verdict):
    """This message can never succeed: straight to the dead-letter queue, fate `permanent`."""


class Discard(Verdict):
    """This message need not be handled: ack it, count it, log it."""


class Cancelled(Discard):
    """The job was cancelled and has stopped; what its finished steps did is undone, as far as they said how."""


class RetryAfter(Verdict):
    """Not now: come back at `when` (a datetime) or after it (a timedelta or seconds); costs no attempt."""

    when: datetime | timedelta | float = 0.0

    def __init__(self, when: datetime | timedelta | float, reason: str = "") -> None:
        """Keep when to come back; raises ValueError for a datetime without a zone, TypeError for what is no time."""
        if isinstance(when, bool) or not isinstance(when, datetime | timedelta | float | int):
            msg = f"RetryAfter needs a datetime, a timedelta or seconds, not {when!r}"
            raise TypeError(msg)
        if isinstance(when, datetime) and when.tzinfo is None:
            msg = "RetryAfter needs a datetime with a time zone"
            raise ValueError(msg)
        self.when = when
        super().__init__(reason)
