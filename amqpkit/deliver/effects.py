"""What a walk asks of its driver, and what it is told in reply.

Pure values: the closed set of things that can be done to a delivery.
"""

from dataclasses import dataclass
from datetime import datetime

from amqpkit.deliver.headers import Past
from amqpkit.deliver.payload import Payload
from amqpkit.model import Message


@dataclass(frozen=True, slots=True)
class Moment:
    """When judgement happens, and the chance it is dealt."""

    now: datetime
    chance: float = 0.0


class Stopped(Exception):  # not an error: the worker ends, or the delivery is no longer ours
    """Thrown into a walk to end it without an outcome: the message goes back to its queue."""


class HandlerTimeout(Exception):
    """The handler took longer than the queue's `timeout`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Take the key for the lease; the reply is a `ports.Claimed`."""

    key: str
    lease: float


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call the handler; the reply is a `Returned` or a `Raised`."""

    payload: Payload
    past: Past


@dataclass(frozen=True, slots=True)
class Compensate:
    """Undo the steps of a job that failed for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Send a copy, confirmed and mandatory; no reply before the broker has it."""

    exchange: str
    routing_key: str
    message: Message


@dataclass(frozen=True, slots=True)
class Complete:
    """Mark the key done, with the handler's result."""

    key: str
    result: object = None


@dataclass(frozen=True, slots=True)
class Release:
    """Give the key back."""

    key: str


@dataclass(frozen=True, slots=True)
class Ack:
    """The broker may forget the message."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to the queue, as if it had never been delivered."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """To the queue's own dead-letter exchange, untouched."""


Effect = Claim | Invoke | Compensate | Publish | Complete | Release | Ack | Requeue | Refuse


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned."""

    value: object
    moment: Moment


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised."""

    error: BaseException
    moment: Moment
