"""What is in the work queues now: read from the broker, without spending a delivery.

Depth comes over AMQP and is current; consumers, rates and unacked are the broker's statistics, seconds late. The age
of the oldest message is on the message: it is looked at and given back, where that costs nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from amqpkit.brokers.clock import SystemClock
from amqpkit.errors import QueueMissing
from amqpkit.model import NOTHING, Topology, WorkQueue
from amqpkit.operate.look import Sight, look
from amqpkit.ports import Clock, ListedConsumer, QueueFigures, Statistics, Transport

LETTERS_MAX: Final = 500
"""Dead letters that are read for their fate; the rest is counted as unread."""
LETTERS_BYTES: Final = 16 * 1024 * 1024
"""Of their bodies, which come along: a worker must not die of what it tells."""
LETTERS_FEW: Final = 20
"""As long as the broker has not counted them yet."""
UNREAD: Final = "unread"
NOT_BEFORE_4_3: Final = "RabbitMQ before 4.3 counts a look against the delivery limit"


@dataclass(frozen=True, slots=True)
class Reading:
    """One work queue at one moment; None is what could not be known. Ages in seconds, rates a second.

    `oldest` is the age of the next message, `why_not` the reason when it is not known. `failure_rate` is the part of
    the deliveries of the last minute that ended as a copy in a delay queue or in the dead-letter queue.
    `letters` counts dead letters by fate, `oldest_letter` is for how long the oldest has been one.
    """

    queue: str
    depth: int | None = None
    oldest: float | None = None
    why_not: str = ""
    in_flight: int | None = None
    consumers: int | None = None
    consumer_timeout: float | None = None
    rate: float | None = None
    failure_rate: float | None = None
    waiting: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    dead: int | None = None
    letters: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    oldest_letter: float | None = None
    missing: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """What was found at a queue's head, and the state of the queue in which that still holds."""

    sights: tuple[Sight, ...]
    depth: int
    acked: int | None
    most: int

    def stands(self, depth: int, *, all_of_it: bool) -> bool:
        """Whether the depth lets it be true still: of a head when nothing went, of all when nothing came either."""
        return depth == self.depth if all_of_it else depth >= self.depth


class Observer:
    """Reads work queues again and again, and looks at a message only when another may have come to the head.

    `transport` should be one of its own: each look is a consumer that comes and goes. `statistics` may be None: then
    what only they know is unknown.
    """

    def __init__(
        self, topology: Topology, transport: Transport, statistics: Statistics | None, *, clock: Clock | None = None
    ) -> None:
        """Keep the parts."""
        self._works = topology.work_queues
        self._transport, self._statistics, self._clock = transport, statistics, clock or SystemClock()
        self._seen: dict[str, _Seen] = {}

    async def read(self, queues: Iterable[str] | None = None) -> tuple[Reading, ...]:
        """Read these work queues, or all; raises BrokerError. What is missing on the broker is named, not raised."""
        figures: Mapping[str, QueueFigures] = {}
        consumers: Sequence[ListedConsumer] = ()
        if self._statistics is not None:
            figures, consumers = await asyncio.gather(self._statistics.figures(), self._statistics.consumers())
        names = self._works if queues is None else [name for name in queues if name in self._works]
        return tuple([await self._one(self._works[name], figures, consumers) for name in names])

    async def depths(self, queues: Iterable[str] | None = None) -> tuple[Reading, ...]:
        """Read only how many messages are ready, which AMQP tells without any statistics; raises BrokerError."""
        names = self._works if queues is None else [name for name in queues if name in self._works]
        return tuple([await self._ready(self._works[name]) for name in names])

    async def _ready(self, work: WorkQueue) -> Reading:
        delays = {each.key: each.queue for delay in work.snoozes for each in delay.queues}
        depths = {name: await self._depth(name) for name in (work.name, work.dead_queue, *delays.values())}
        return Reading(
            work.name,
            depth=depths[work.name],
            waiting={key: depths[name] or 0 for key, name in delays.items()},
            dead=depths[work.dead_queue],
            missing=tuple(name for name, found in depths.items() if found is None),
        )

    async def _one(
        self, work: WorkQueue, figures: Mapping[str, QueueFigures], consumers: Sequence[ListedConsumer]
    ) -> Reading:
        ready = await self._ready(work)
        depth, dead = ready.depth, ready.dead
        mine = [consumer for consumer in consumers if consumer.queue == work.name]
        known, asked = figures.get(work.name), self._statistics is not None
        oldest, why_not = await self._oldest(work, depth, known)
        letters = await self._letters(work, dead, figures.get(work.dead_queue))
        delays = (each.queue for delay in work.snoozes for each in delay.queues)
        return replace(
            ready,
            oldest=oldest,
            why_not=why_not,
            in_flight=known.unacked if known else None,
            consumers=len(mine) if asked else None,
            consumer_timeout=min((c.timeout for c in mine if c.timeout), default=work.consumer_timeout),
            rate=known.ack_rate if known else None,
            failure_rate=failure_rate(known, [figures.get(name) for name in (work.dead_queue, *delays)]),
            letters=by_fate(letters, dead or 0),
            oldest_letter=oldest_letter(letters, self._clock.now()),
        )

    async def _depth(self, queue: str) -> int | None:
        try:
            return await self._transport.depth(queue)
        except QueueMissing:
            return None

    async def _oldest(self, work: WorkQueue, depth: int | None, known: QueueFigures | None) -> tuple[float | None, str]:
        if not depth:
            return None, ""
        if not self._is_free(known):
            return None, NOT_BEFORE_4_3
        sights = await self._look(work.name, depth, known, most=1)
        if not sights:
            return None, "its messages are being delivered"
        if sights[0].published is None:
            return None, "the next message does not say when it was published"
        return _age(sights[0].published, self._clock.now()), ""

    async def _letters(self, work: WorkQueue, dead: int | None, known: QueueFigures | None) -> tuple[Sight, ...]:
        # a dead-letter queue has no limit when it is as declared; where a policy gave it one, a look could delete
        if not dead or not self._is_free(known):
            return ()
        return await self._look(work.dead_queue, dead, known, most=min(dead, letters_to_read(known)))

    def _is_free(self, known: QueueFigures | None) -> bool:
        return _version(self._transport.broker.version) >= (4, 3) or bool(known and known.unlimited)

    async def _look(self, queue: str, depth: int, known: QueueFigures | None, *, most: int) -> tuple[Sight, ...]:
        """Look once for each head: as long as nothing was acked and nothing went, the same message is there."""
        acked = (known.acked if known else None) or 0  # a young queue has no statistics yet: nothing was acked
        seen = self._seen.get(queue)
        same = seen is not None and seen.sights and seen.acked == acked and most <= seen.most
        if seen is not None and same and seen.stands(depth, all_of_it=queue not in self._works):
            return seen.sights
        sights = await look(self._transport, queue, most=most, clock=self._clock)
        if len(sights) >= min(most, depth):  # else somebody had some of them, and they come back
            self._seen[queue] = _Seen(sights, depth, acked, most)
        return sights


def letters_to_read(known: QueueFigures | None) -> int:
    """Say of how many dead letters the bodies are not too much to have in memory at once."""
    if known is None or known.ready_bytes is None:
        return LETTERS_MAX
    if not known.ready:
        return LETTERS_FEW
    average = max(1.0, known.ready_bytes / known.ready)
    return max(1, min(LETTERS_MAX, int(LETTERS_BYTES / average)))


def failure_rate(work: QueueFigures | None, copies: Iterable[QueueFigures | None]) -> float | None:
    """Say which part of the acked deliveries were acked for a copy; None without deliveries."""
    if work is None or not work.ack_rate:
        return None
    return min(1.0, sum(each.publish_rate or 0.0 for each in copies if each is not None) / work.ack_rate)


def by_fate(letters: Sequence[Sight], dead: int) -> dict[str, int]:
    """Count dead letters by fate; those that were not read are `unread`."""
    counted = Counter(letter.fate for letter in letters)
    if dead > len(letters):
        counted[UNREAD] = dead - len(letters)
    return dict(sorted(counted.items()))


def oldest_letter(letters: Sequence[Sight], now: datetime) -> float | None:
    """Say for how long the oldest has been dead: since its death, or since its publish when it does not say."""
    since = [instant for letter in letters if (instant := letter.died or letter.published) is not None]
    return _age(min(since), now) if since else None


def _age(then: datetime, now: datetime) -> float:
    return max(0.0, (now - then).total_seconds())  # the clocks of two machines differ


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split(".")[:2])
