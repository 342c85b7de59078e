"""What a walk asks of its driver, and what it is told in reply.

Pure values: the closed set of things that can be done to a delivery.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from amqpkit.deliver.headers import Past, text_of
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.retry import Dead
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
class AskCancelled:
    """Whether somebody has asked that a job be given up; the reply is a bool, and False when nobody can tell now."""

    job: str


class GivenUp(Exception):  # not an error: what was judged before is judged again
    """A job was given up, and undoing it has begun: what is true of every delivery of the same attempt after that.

    Raised in the handler's place when a worker died on the way. `kind` and `message` tell of the failure, if any.
    """

    def __init__(self, dead: Dead, kind: str = "", message: str = "") -> None:
        """Keep what was judged and why."""
        self.dead, self.kind, self.message = dead, kind, message or dead.reason
        super().__init__(self.message)

    @classmethod
    def of(cls, dead: Dead, error: BaseException | None) -> Self:
        """Tell of a judgement and the failure that it rests on."""
        if error is None:
            return cls(dead)
        if isinstance(error, GivenUp):
            return cls(dead, error.kind, error.message)
        return cls(dead, type(error).__qualname__[:200], text_of(error)[:1000])

    @property
    def line(self) -> str:
        """The failure in a line."""
        return f"{self.kind}: {self.message}" if self.kind else self.message

    def __eq__(self, other: object) -> bool:
        """Be equal to what says the same."""
        return isinstance(other, GivenUp) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[object, ...]:
        return self.dead, self.kind, self.message


@dataclass(frozen=True, slots=True)
class Compensate:
    """Undo what the steps of a job did, the last first; the reply is a tuple of `Undone`.

    Done again, it goes on where it ended. `run` names replays and attempts: what is written down for it holds for what
    is left of the same life, and for no letter that comes back.
    """

    key: str
    run: str
    given_up: GivenUp


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of the undoing of one step; `error` says why it failed."""

    step: str
    error: str = ""


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


Effect = Claim | AskCancelled | Invoke | Compensate | Publish | Complete | Release | Ack | Requeue | Refuse


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
