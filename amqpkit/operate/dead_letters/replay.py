"""Replaying: each letter goes to its queue, confirmed, and is acked only then.

A process that is killed between confirm and ack leaves letters that are in both queues: at most the window of them.
They come back marked as redelivered, which the next run reports.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from amqpkit.errors import BrokerError, PublishError, PublishUncertain, QueueMissing, Unsendable
from amqpkit.model import WorkQueue
from amqpkit.operate.dead_letters.holding import Look, looking
from amqpkit.operate.dead_letters.letter import Letter, read_letter
from amqpkit.operate.dead_letters.page import Taken
from amqpkit.operate.dead_letters.revive import revived
from amqpkit.operate.dead_letters.targets import Room, Targets
from amqpkit.operate.dead_letters.verdicts import Go, Order, Reason, judge, was_out
from amqpkit.operate.dead_letters.waiting import Pace
from amqpkit.operate.dead_letters.window import DEADLINE, Window
from amqpkit.ports import Clock, Transport

GIVE_UP_AFTER: Final = 20
"""Failures in a row that are no single letter's fault."""
NAMED_MAX: Final = 10_000
"""How many letters a report names, so that it stays small."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A letter that could not be replayed and stays where it is."""

    id: str
    error: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is, after `seconds`; `again` as in the report, so far."""

    total: int
    seen: int
    replayed: int
    failed: int
    again: int
    seconds: float

    def towards(self, limit: int | None) -> tuple[int, int]:
        """How many are done, of how many: of those that are there or, when fewer are meant, of those."""
        return (self.seen, self.total) if limit is None or limit >= self.total else (self.replayed, limit)

    @property
    def left(self) -> float | None:
        """Seconds still to go at this pace, None while nothing tells."""
        return self.seconds / self.seen * (self.total - self.seen) if self.seen and self.seconds else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay came to.

    `total` letters were there at its start and `seen` of them were looked at; `replayed` went (of a dry run: would go),
    `stayed` for a reason, `failed` could not go. Of `uncertain` ones nobody knows whether they went: they are here and
    perhaps there too. `again` went, and had been in the hands of a reader that was lost before: if that was a replay,
    at most its window of them (100) went twice. Of failures, `uncertain` and `again` the first 10,000 are named.
    `trouble` says why it ended before the end.
    """

    run: str
    queue: str
    total: int
    seen: int
    replayed: int
    stayed: Mapping[Reason, int]
    failed: int
    failures: tuple[Failure, ...]
    uncertain: tuple[str, ...]
    again: tuple[str, ...]
    seconds: float
    trouble: str = ""

    @property
    def complete(self) -> bool:
        """Whether every letter that was meant went."""
        return not (self.trouble or self.failed or self.uncertain)


def _unheard(_progress: Progress) -> None:
    """Nobody looks on."""


def _unseen(_letter: Letter, _verdict: Go | Reason) -> None:
    """Nobody looks on."""


async def replay(  # noqa: PLR0913 - keyword-only settings, each with its default
    transport: Transport,
    queue: str,
    order: Order,
    *,
    work: WorkQueue | None = None,
    clock: Clock,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[Progress], None] = _unheard,
    on_letter: Callable[[Letter, Go | Reason], None] = _unseen,
) -> Replayed:
    """Replay a dead-letter queue's letters; each is confirmed by its queue before it is acked here.

    At most as many as are there at the start, so it ends though all die again. A queue of ours is never filled above
    its `limits.depth`. Once `stop` is set nothing more goes, what is under way has 5 s to be confirmed, and the rest is
    given back in order. Raises QueueMissing and AccessRefused; what goes wrong with letters is in the report.
    """
    run = _Run(transport, queue, order, work, clock, stop or asyncio.Event(), on_progress, on_letter)
    async with looking(transport, queue, clock=clock, stop=run.stop) as look:
        await run.go(look)
    return run.report(look)


class _Run:
    """One replay on its way."""

    def __init__(  # noqa: PLR0913, PLR0917 - what `replay` was given
        self,
        transport: Transport,
        queue: str,
        order: Order,
        work: WorkQueue | None,
        clock: Clock,
        stop: asyncio.Event,
        on_progress: Callable[[Progress], None],
        on_letter: Callable[[Letter, Go | Reason], None],
    ) -> None:
        self.stop = stop
        self._transport, self._queue, self._order, self._work, self._clock = transport, queue, order, work, clock
        self._on_progress, self._on_letter = on_progress, on_letter
        rate, self._max_replays = order.for_queue(work)
        self._pace = Pace(rate, clock)
        self._window = Window(clock)
        self._targets = Targets(transport)
        self._room = Room(transport, work, clock)
        self._began = clock.now()
        self._replayed = self._failed = self._in_a_row = 0
        self._stayed: Counter[Reason] = Counter()
        self._failures: list[Failure] = []
        self._uncertain: list[str] = []
        self._again: list[str] = []
        self._trouble = ""
        self._fault: BaseException | None = None

    async def go(self, look: Look) -> None:
        """Take letter by letter; in the end wait for what is under way."""
        try:
            while not await self._over() and (taken := await look.take()) is not None:
                await self._treat(taken)
                self._on_progress(self._progress(look))
        except BrokerError as error:
            # Of the queues' or the connection's; what has gone so far is told all the same.
            self._trouble = self._trouble or str(error)
        except asyncio.CancelledError:
            self.stop.set()
            raise
        finally:
            await self._window.drain(stop=self.stop)
            self._on_progress(self._progress(look))
        if self._fault is not None:
            raise self._fault

    def report(self, look: Look) -> Replayed:
        """Sum up."""
        return Replayed(
            run=self._order.run,
            queue=self._queue,
            total=look.total,
            seen=look.seen,
            replayed=self._replayed,
            stayed=dict(self._stayed),
            failed=self._failed,
            failures=tuple(self._failures),
            uncertain=tuple(self._uncertain),
            again=tuple(self._again),
            seconds=self._seconds(),
            trouble=self._trouble or look.trouble,
        )

    async def _over(self) -> bool:
        limit = self._order.limit
        if limit is not None and self._replayed + len(self._window) >= limit:
            await self._window.drain(stop=self.stop)  # one of them may fail yet
            if self._replayed >= limit:
                return True
        return bool(self._trouble) or self._fault is not None

    def _seconds(self) -> float:
        return (self._clock.now() - self._began).total_seconds()

    def _progress(self, look: Look) -> Progress:
        seen = look.seen - len(self._window)
        return Progress(look.total, seen, self._replayed, self._failed, len(self._again), self._seconds())

    async def _treat(self, taken: Taken) -> None:
        letter = read_letter(taken.delivery, work=self._work)
        verdict = judge(letter, self._order, max_replays=self._max_replays)
        self._on_letter(letter, verdict)
        if isinstance(verdict, Reason):
            self._stayed[verdict] += 1
            taken.keep()
        elif self._order.dry_run:
            self._replayed += 1
            taken.keep()
        else:
            await self._send(taken, letter, verdict)

    async def _send(self, taken: Taken, letter: Letter, to: Go) -> None:
        try:
            message = revived(taken.delivery, letter, run=self._order.run)
            if not to.exchange:
                await self._targets.find(to.routing_key)
        except (Unsendable, QueueMissing) as error:
            self._fail(taken, letter, error)
            return
        await self._pace.turn(self.stop)
        await self._room.turn(to.exchange or to.routing_key, under_way=len(self._window), stop=self.stop)
        await self._window.room(letter.size, stop=self.stop)
        if self.stop.is_set():
            taken.keep()
            return
        out = was_out(taken.delivery)
        future = self._transport.publish(to.exchange, to.routing_key, message, mandatory=True, timeout=DEADLINE)
        self._window.put(future, letter.size, partial(self._settle, taken, letter, out))

    def _settle(self, taken: Taken, letter: Letter, was_out_before: bool, error: BaseException | None) -> None:  # noqa: FBT001 - bound by name above
        match error:
            case None:
                self._replayed, self._in_a_row = self._replayed + 1, 0
                _note(self._again, letter.id, when=was_out_before)
                _note(self._uncertain, letter.id, when=not taken.ack())
            case PublishUncertain() | TimeoutError() | asyncio.CancelledError():
                taken.keep()
                _note(self._uncertain, letter.id)
                # At once: each more of them might be there twice.
                self._trouble = self._trouble or f"ended, because the fate of a letter is not known: {error}"
            case PublishError():
                self._fail(taken, letter, error)
            case _:
                taken.keep()
                self._fault = error

    def _fail(self, taken: Taken, letter: Letter, error: Exception) -> None:
        taken.keep()
        self._failed += 1
        if len(self._failures) < NAMED_MAX:
            self._failures.append(Failure(letter.id, str(error)))
        if not isinstance(error, Unsendable):  # one letter's own fault says nothing of the others
            self._count_failure(str(error))

    def _count_failure(self, reason: str) -> None:
        self._in_a_row += 1
        if self._in_a_row >= GIVE_UP_AFTER and not self._trouble:
            self._trouble = f"given up after {self._in_a_row} failures in a row, the last: {reason}"


def _note(names: list[str], name: str, *, when: bool = True) -> None:
    if when and len(names) < NAMED_MAX:
        names.append(name)
