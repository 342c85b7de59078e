"""The queues that letters go to: whether they exist, and how much room there is."""

import asyncio
from typing import Final

from amqpkit.errors import AccessRefused, QueueMissing
from amqpkit.model import WorkQueue
from amqpkit.operate.dead_letters.waiting import SLICE, depth_of
from amqpkit.operate.dead_letters.window import WINDOW
from amqpkit.ports import Clock, Transport

REMEDY: Final = "create or apply it, or send the letters to another queue"
"""The queue may be anybody's: a letter told of it, or a line, or a command line."""
FULL_FOR: Final = 0.5
"""Seconds until a queue above its limit is asked again."""


class Targets:
    """Which queues exist, each asked for once."""

    def __init__(self, transport: Transport) -> None:
        """Know none."""
        self._transport = transport
        self._known: dict[str, QueueMissing | None] = {}

    async def find(self, queue: str) -> None:
        """Raise QueueMissing for a queue that is not there."""
        if queue not in self._known:
            self._known[queue] = await self._look_for(queue)
        if (missing := self._known[queue]) is not None:
            raise missing

    async def _look_for(self, queue: str) -> QueueMissing | None:
        try:
            await depth_of(self._transport, queue)
        except QueueMissing:
            return QueueMissing(queue, REMEDY)
        except AccessRefused:
            return None  # since 4.3 the question needs a permission that publishing does not (measured)
        return None


class Room:
    """How much a work queue takes below its `limits.depth`."""

    def __init__(self, transport: Transport, work: WorkQueue | None, clock: Clock) -> None:
        """Ask when first needed; without a work queue or a limit there is always room."""
        self._transport, self._work, self._clock = transport, work, clock
        self._allowed = 0

    async def turn(self, queue: str, *, under_way: int, stop: asyncio.Event) -> None:
        """Wait until one more may go to a queue, or until told to stop; `under_way` are not counted there yet."""
        work = self._work
        if work is None or work.depth_limit is None or queue != work.name:
            return
        while self._allowed <= 0 and not stop.is_set():
            ready = await depth_of(self._transport, work.name)
            self._allowed = min(WINDOW, work.depth_limit - ready - under_way)
            if self._allowed <= 0:
                await self._wait(stop)
        self._allowed -= 1

    async def _wait(self, stop: asyncio.Event) -> None:
        for _ in range(round(FULL_FOR / SLICE)):
            if not stop.is_set():
                await self._clock.sleep(SLICE)
