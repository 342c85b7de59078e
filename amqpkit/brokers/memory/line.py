"""In which order a queue gives out what waits in it. Pure: no clock, no broker.

Quorum queues put what was given back in front of everything, in the order of giving back; classic queues put
it back where it was (broker-measured on 4.0 and 4.3).
"""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from amqpkit.brokers.memory.stored import Stored

_UNSET_PRIORITY: Final = 4
_TOP_PRIORITY: Final = 31
_HIGH: Final = 5


class Line(Protocol):
    """What waits in a queue."""

    def push(self, stored: Stored) -> None:
        """Take a new message."""

    def give_back(self, stored: Stored) -> None:
        """Take a message again that a consumer had."""

    def pop(self) -> Stored | None:
        """Give out the next one."""

    def pop_expired(self, now: int) -> Stored | None:
        """Give out a message at a head whose deadline has come; others are not looked at."""

    def next_deadline(self) -> int | None:
        """Say when the earliest head is due."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Stored]:
        """Walk through in the order of giving out."""


def _due(stored: Stored, now: int) -> bool:
    return stored.deadline is not None and stored.deadline <= now


class QuorumLine:
    """4.3: 32 strict priorities (unset is 4); 4.0: two, served two high to one low.

    On 4.3 each priority has its own head for expiry, and so has what was given back; on 4.0 one head blocks all.
    """

    def __init__(self, *, since_4_3: bool) -> None:
        """Start empty."""
        self._strict = since_4_3
        self._returned: deque[Stored] = deque()
        self._lanes: dict[int, deque[Stored]] = {}
        self._turn = 0

    def push(self, stored: Stored) -> None:
        """Take a new message at the end of its priority."""
        self._lanes.setdefault(self._level(stored), deque()).append(stored)

    def _level(self, stored: Stored) -> int:
        priority = stored.properties.priority
        if self._strict:
            return _UNSET_PRIORITY if priority is None else min(priority, _TOP_PRIORITY)
        return int((priority or 0) >= _HIGH)

    def give_back(self, stored: Stored) -> None:
        """Take a message again, ahead of all that were never given out."""
        self._returned.append(stored)

    def pop(self) -> Stored | None:
        """Give out the next one."""
        if self._returned:
            return self._out(self._returned)
        level = self._next_level()
        if level is None:
            return None
        return self._out(self._lanes[level])

    def _out(self, lane: deque[Stored]) -> Stored:
        """Take a lane's head; on 4.0 whatever leaves has had its turn, the expired too."""
        self._turn = (self._turn + (lane is not self._returned)) % 3
        return lane.popleft()

    def _next_level(self) -> int | None:
        waiting = [level for level, lane in self._lanes.items() if lane]
        if not waiting:
            return None
        high, low = max(waiting), min(waiting)
        # Two high ones, then a low one that has waited longer than the next high one (probed on 4.0).
        third = not self._strict and self._turn == 2  # noqa: PLR2004 - turns are counted from 0
        return low if third and self._lanes[low][0].serial < self._lanes[high][0].serial else high

    def _heads(self) -> list[deque[Stored]]:
        if self._strict:
            return [lane for lane in (self._returned, *self._lanes.values()) if lane]
        if self._returned:
            return [self._returned]
        level = self._next_level()
        return [] if level is None else [self._lanes[level]]

    def pop_expired(self, now: int) -> Stored | None:
        """Give out a message at a head whose deadline has come."""
        lane = next((lane for lane in self._heads() if _due(lane[0], now)), None)
        return self._out(lane) if lane else None

    def next_deadline(self) -> int | None:
        """Say when the earliest head is due."""
        return min(
            (d for lane in self._heads() if (d := lane[0].deadline) is not None),
            default=None,
        )

    def __len__(self) -> int:
        return len(self._returned) + sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Stored]:
        yield from self._returned
        for level in sorted(self._lanes, reverse=True):
            yield from self._lanes[level]


class ClassicLine:
    """Original places; priorities only when the queue has `x-max-priority` (unset is 0, more is capped)."""

    def __init__(self, max_priority: int = 0) -> None:
        """Start empty."""
        self._max_priority = max_priority
        self._lanes: dict[int, list[tuple[int, Stored]]] = {}

    def push(self, stored: Stored) -> None:
        """Take a message at the place its serial says."""
        level = min(stored.properties.priority or 0, self._max_priority)
        heapq.heappush(self._lanes.setdefault(level, []), (stored.serial, stored))

    give_back = push

    def pop(self) -> Stored | None:
        """Give out the oldest of the highest priority."""
        level = max((level for level, lane in self._lanes.items() if lane), default=None)
        return None if level is None else heapq.heappop(self._lanes[level])[1]

    def pop_expired(self, now: int) -> Stored | None:
        """Give out a message at a head whose deadline has come."""
        lane = next(
            (lane for lane in self._lanes.values() if lane and _due(lane[0][1], now)),
            None,
        )
        return heapq.heappop(lane)[1] if lane else None

    def next_deadline(self) -> int | None:
        """Say when the earliest head is due."""
        heads = (lane[0][1].deadline for lane in self._lanes.values() if lane)
        return min((deadline for deadline in heads if deadline is not None), default=None)

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Stored]:
        for level in sorted(self._lanes, reverse=True):
            yield from (stored for _, stored in sorted(self._lanes[level]))
