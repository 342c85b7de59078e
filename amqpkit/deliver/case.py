"""The values of a walk: the rules that it goes by, what it comes to, and what is known when it is judged.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amqpkit.deliver import headers as h
from amqpkit.deliver.effects import Moment
from amqpkit.deliver.payload import Decoding
from amqpkit.deliver.retry import Dead, Retry, Snooze
from amqpkit.events import Outcome
from amqpkit.model import Received, WorkQueue

Decode = Callable[[Received], Decoding]

# --- what the walk needs to know -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules of one queue; `work` is None for a plain queue, whose failures are refused to its own DLX."""

    queue: str
    decode: Decode
    work: WorkQueue | None = None
    never_retry: tuple[type[BaseException], ...] = ()
    lease: float = 60.0
    worker: str = ""
    tracked: frozenset[str] = frozenset()
    """The payload types whose messages are jobs."""


# --- what the walk comes to ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """Handled; the result goes to the store."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do: discarded, or a duplicate of a finished message; `undo` what a cancelled job has done so far."""

    outcome: Outcome
    reason: str
    undo: bool = False


Judgement = Done | Skip | Retry | Snooze | Dead


@dataclass(frozen=True, slots=True)
class End:
    """How a delivery ended, for events and logs; `attempt` counts from 1."""

    outcome: Outcome
    attempt: int = 1
    reason: str = ""
    fate: str | None = None
    delay: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything known of the delivery when it is judged and settled."""

    received: Received
    terms: Terms
    past: h.Past
    begun: Moment
    key: str | None

    def end(self, outcome: Outcome, **more: Any) -> End:
        """Name the end of this delivery."""
        return End(outcome, self.past.attempt + 1, **more)


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement, when it was made and what it rests on; `claim` is the key that this walk holds.

    `handled` says that an attempt was used up, `invoked` that the handler was called at all.
    """

    judgement: Judgement
    moment: Moment
    claim: str | None = None
    error: BaseException | None = None
    details: tuple[dict[str, str], ...] = ()
    handled: bool = False
    invoked: bool = False
