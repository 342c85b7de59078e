"""What happened to every message, movement by movement. Pure: told everything, knows nobody."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Movement:
    """One step of one copy.

    `what` is `queued`, `delivered`, `returned`, `held`, `dead-lettered`, `acked`, `unroutable`, `nacked`, or the reason
    why it is no more. `queue` is empty when no queue had a part in it.
    """

    message_id: str
    queue: str
    what: str
    at: datetime


class Ledger:
    """The memory of all movements; copies are counted by message id, so a retry copy continues its journey."""

    def __init__(self, observe: Callable[[Movement], None] | None = None) -> None:
        """Tell `observe` every movement as it happens."""
        self._observe = observe
        self._journeys: defaultdict[str, list[str]] = defaultdict(list)
        self._copies: Counter[str] = Counter()

    def journey(self, message_id: str) -> list[str]:
        """Give the queues that a message was put into, in order, and how its copies ended.

        An ack is written only when it took the last copy: otherwise each retry would look like an end.
        """
        return list(self._journeys.get(message_id, ()))

    def queued(self, message_id: str, queue: str, at: datetime) -> None:
        """A queue took a copy."""
        self._copies[message_id] += 1
        self._journeys[message_id].append(queue)
        self._tell(message_id, queue, "queued", at)

    def moved(self, message_id: str, queue: str, what: str, at: datetime) -> None:
        """A copy went out to a consumer, came back, or is held as a dead letter: it still exists."""
        self._tell(message_id, queue, what, at)

    def ended(self, message_id: str, queue: str, why: str, at: datetime) -> None:
        """A copy is no more: acked, dropped, purged, or dead-lettered (when `why` is empty: its next copy is told)."""
        self._copies[message_id] -= 1
        if why and (why != "acked" or not self._copies[message_id]):
            self._journeys[message_id].append(why)
        self._tell(message_id, queue, why or "dead-lettered", at)

    def refused(self, message_id: str, why: str, at: datetime) -> None:
        """A publish stored nothing anywhere, or not everywhere."""
        self._journeys[message_id].append(why)
        self._tell(message_id, "", why, at)

    def _tell(self, message_id: str, queue: str, what: str, at: datetime) -> None:
        if self._observe:
            self._observe(Movement(message_id, queue, what, at))
