"""What happened, as frozen values for the one `on_event` hook; never a payload, never a secret.

A listener is called in the loop's own turn: it must be quick and must not raise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from amqpkit.jobs import Change


class Outcome(StrEnum):
    """How a delivery ended."""

    HANDLED = "handled"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    DEAD = "dead"
    DISCARDED = "discarded"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True)
class Begun:
    """A handler is about to be called; `attempt` counts from 1.

    `age` is seconds since the message was published (None when it does not say when), `trace` its W3C trace id.
    """

    queue: str
    message_id: str | None
    type: str | None
    attempt: int
    age: float | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """A delivery ended; `delay` is the delay queue's key, `seconds` from its begin to its settling.

    `handling` is the seconds in the handler, None when it was never called; `trace` the message's W3C trace id.
    """

    queue: str
    message_id: str | None
    type: str | None
    attempt: int
    outcome: Outcome
    reason: str = ""
    fate: str | None = None
    delay: str | None = None
    seconds: float = 0.0
    handling: float | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class CopyHeld:
    """A copy could not be confirmed; the original stays unacked and the copy is tried again in `wait` seconds."""

    queue: str
    message_id: str | None
    error: str
    tries: int
    wait: float


@dataclass(frozen=True, slots=True)
class DuplicateWindow:
    """A second copy of a message may exist from here on; `window` names which of the known windows it is."""

    queue: str
    message_id: str | None
    window: str


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The idempotency store could not be asked; the message is held and it is asked again in `wait` seconds."""

    queue: str
    message_id: str | None
    error: str
    tries: int
    wait: float


@dataclass(frozen=True, slots=True)
class ClaimLost:
    """A claim ran out while its handler was still running: another worker may handle the message too."""

    queue: str
    message_id: str | None


@dataclass(frozen=True, slots=True)
class BadHeader:
    """A header of ours was unusable and was read as absent."""

    queue: str
    message_id: str | None
    header: str
    value: str


@dataclass(frozen=True, slots=True)
class NoKey:
    """Messages without id and key reach this queue: each is handled, none can be recognised as a duplicate."""

    queue: str


class Fate(StrEnum):
    """How a publish ended, by the error that its caller got."""

    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    NACKED = "nacked"
    TIMED_OUT = "timed-out"
    BLOCKED = "blocked"
    OVERLOADED = "overloaded"
    UNCERTAIN = "uncertain"
    UNSENDABLE = "unsendable"


@dataclass(frozen=True, slots=True)
class Published:
    """A publisher told its caller how a message ended; `tries` counts sends, `seconds` is the whole wait."""

    type: str
    exchange: str
    routing_key: str
    message_id: str
    fate: Fate
    tries: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DepthUnknown:
    """A queue with `limits.depth` cannot be asked how deep it is, and holds no publisher until it can; told once."""

    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class Tracked:
    """Something happened to a job, a message whose payload class says `track=True`; its input is redacted and short."""

    change: Change


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands; `purpose` is `consume` or `publish`."""

    purpose: str
    broker: str


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection or channel was lost; the next try comes in `wait` seconds."""

    purpose: str
    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Consuming:
    """The broker delivers from this queue to us."""

    queue: str


@dataclass(frozen=True, slots=True)
class ConsumerLost:
    """The broker no longer delivers from this queue to us (cancelled, channel closed, queue deleted)."""

    queue: str
    reason: str
    wait: float


Event = (
    Begun
    | Settled
    | CopyHeld
    | DuplicateWindow
    | StoreDown
    | ClaimLost
    | BadHeader
    | NoKey
    | Published
    | DepthUnknown
    | Tracked
    | Connected
    | ConnectionLost
    | Consuming
    | ConsumerLost
)
OnEvent = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Listen to nothing."""
