"""What holds a publisher back: the depth of a queue, and its own pace.

Pure; it may know no broker and no clock. Times are seconds on whatever clock the caller counts by.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

REOPEN: Final = 0.8
"""A gate that has shut opens again at this share of its limit, as a full quorum queue does (measured)."""
NEAR: Final = 0.5
"""From this share of the limit on others may fill the queue before we would look again: look more often."""
SHARE: Final = 0.05
"""How much of the limit is let through, at most, before we look again: others fill the queue too."""
AT_LEAST: Final = 50
"""But so many messages: each look takes a round trip to the broker."""
FRESH_FAR: Final = 5.0
FRESH_NEAR: Final = 1.0
ASK_AGAIN: Final = 0.5
"""Seconds between two questions to a queue that is over its limit."""
UNKNOWN: Final = 1.0
"""Seconds for which a queue that could not be asked counts as open: the publish itself tells what is wrong."""
RETRY_AFTER: Final = (1.0, 5.0, 60.0)
"""Seconds to come back after: the least, what is said when nothing is known, the most."""
FADES: Final = 5.0
"""Seconds in which what was seen of a queue counts half."""


class Look(Enum):
    """What a gate says to a message."""

    PASS = auto()
    ASK = auto()
    SHUT = auto()


class Gate:
    """One queue and its `limits.depth`: shut at the limit, open again at 80 % of it.

    Between two looks at the queue it counts what was let through, as if nobody consumed: so a lone publisher passes
    the limit by no more than what it has under way, and each of several by that and 5 % of the limit, or 50 messages.
    """

    def __init__(self, queue: str, limit: int) -> None:
        """Know nothing yet; `limit` in messages."""
        self.queue, self.limit = queue, limit
        self.depth, self._allowed = 0, limit
        self._taken = self._known = 0
        self._look_at = float("-inf")
        self._seen_at: float | None = None
        self.shut = self._unknown = False
        self._fallen = 0.0

    def look(self, now: float) -> Look:
        """Say whether a message may pass."""
        if self.shut:
            return Look.SHUT if now < self._look_at else Look.ASK
        if now >= self._look_at or self._taken >= self._allowed:
            return Look.ASK
        return Look.PASS

    def take(self) -> None:
        """Count a message that is on its way there."""
        self._taken += 1

    def give_back(self, now: float) -> None:
        """Forget one that was refused: the queue is fuller than we knew, so look before the next."""
        self._taken = max(0, self._taken - 1)
        self._look_at = min(self._look_at, now)

    def asked(self) -> None:
        """A question is on its way: its answer knows of what was let through until now, and of nothing after."""
        self._known = self._taken

    def told(self, depth: int | None, now: float) -> bool:
        """Take the answer; None when the queue could not be asked, which lets messages pass for a moment.

        Says whether that is news: it could be asked before, or never was.
        """
        self._taken, self._known = max(0, self._taken - self._known), 0
        is_news, self._unknown = depth is None and not self._unknown, depth is None
        if depth is None:
            self.shut, self.depth, self._look_at, self._seen_at = False, 0, now + UNKNOWN, None
            self._allowed = self.limit
            return is_news
        if self._seen_at is not None and now > self._seen_at:
            self._fallen = (self.depth - depth) / (now - self._seen_at)
        self.depth, self._seen_at = depth, now
        self._allowed = min(self.limit - depth, max(int(SHARE * self.limit), AT_LEAST))
        self.shut = depth > REOPEN * self.limit if self.shut else depth >= self.limit
        fresh = FRESH_NEAR if depth >= NEAR * self.limit else FRESH_FAR
        self._look_at = now + (ASK_AGAIN if self.shut else fresh)
        return False

    def opens_in(self, now: float) -> float:
        """Seconds until it is worth another question."""
        return max(0.0, self._look_at - now)

    @property
    def retry_after(self) -> float:
        """Seconds until it may be open, by how fast the queue was last seen to drain."""
        least, unknown, most = RETRY_AFTER
        over = self.depth - REOPEN * self.limit
        return min(most, max(least, over / self._fallen)) if self._fallen > 0 else unknown

    def fullness(self, now: float) -> float:
        """How full it is, 0 to 1; what was seen long ago counts less and less."""
        if self._seen_at is None:
            return 0.0
        share = min(1.0, (self.depth + self._taken) / self.limit)
        return share * faded(now - self._seen_at - FRESH_FAR)


class Pace:
    """At most so many messages a second, evenly; a pause earns a tenth of a second's worth at once."""

    def __init__(self, rate: float) -> None:
        """Take `rate` in messages a second."""
        self.rate = rate
        self._interval = 1.0 / rate
        self._slack = max(0.1 - self._interval, 0.0)
        self._next = float("-inf")

    def reserve(self, now: float, patience: float) -> float | None:
        """Take the next turn and say in how many seconds it comes; None, and nothing taken, if beyond `patience`."""
        turn = max(self._next, now - self._slack)
        wait = max(0.0, turn - now)
        if wait >= patience:
            return None
        self._next = turn + self._interval
        return wait


def faded(seconds: float) -> float:
    """How much something counts that was so many seconds ago."""
    return 1.0 if seconds <= 0 else 0.5 ** (seconds / FADES)


def pressure(  # noqa: PLR0913 - all that a publisher feels
    now: float, *, under_way: int, window: int, gates: Iterable[Gate], blocked: bool, nacked_at: float | None
) -> float:
    """How hard the brakes are on, 0 to 1: the most of window, queues, a nack that fades, and an alarm."""
    if blocked:
        return 1.0
    nacked = 0.0 if nacked_at is None else faded(now - nacked_at)
    fullest = max((gate.fullness(now) for gate in gates), default=0.0)
    return max(nacked, fullest, min(1.0, under_way / window))
