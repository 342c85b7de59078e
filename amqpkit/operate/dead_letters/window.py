"""Publishes under way: a bounded number, and a bounded number of bytes."""

import asyncio
from collections.abc import Callable
from typing import Final

from amqpkit.operate.dead_letters.waiting import moment
from amqpkit.ports import Clock

WINDOW: Final = 100
"""Outstanding confirms; what is here when a process is killed may be there twice."""
WINDOW_BYTES: Final = 64 * 1024 * 1024

DEADLINE: Final = 30.0
"""Seconds for each publish."""
GRACE: Final = 5.0
"""Seconds for outstanding confirms once it is told to stop."""

Done = Callable[[BaseException | None], None]


class Window:
    """Futures of publishes; each tells its sender how it ended."""

    def __init__(self, clock: Clock, *, count: int = WINDOW, size: int = WINDOW_BYTES) -> None:
        """Begin empty."""
        self._clock, self._count, self._size = clock, count, size
        self._under_way: dict[asyncio.Future[None], tuple[int, Done]] = {}
        self._bytes = 0
        self._settled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._under_way)

    async def room(self, size: int, *, stop: asyncio.Event) -> None:
        """Wait until so many bytes more may go, or until told to stop."""
        while self._under_way and not self._admits(size) and not stop.is_set():
            await self._moment()

    def put(self, future: asyncio.Future[None], size: int, done: Done) -> None:
        """Watch a publish; `done` is called once, with its error if there is one."""
        self._under_way[future] = (size, done)
        self._bytes += size
        future.add_done_callback(self._end)

    async def drain(self, *, stop: asyncio.Event) -> None:
        """Wait until all have ended, a few seconds at most once told to stop.

        Those that have not by then end with a TimeoutError, and may be stored yet.
        """
        stopping, deadline = False, self._now() + DEADLINE + GRACE
        while self._under_way and self._now() < deadline:
            if stop.is_set() and not stopping:
                stopping, deadline = True, min(deadline, self._now() + GRACE)
            await self._moment()
        for future in list(self._under_way):
            self._tell(future, TimeoutError("no confirm came in time"))

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _admits(self, size: int) -> bool:
        return len(self._under_way) < self._count and self._bytes + size <= self._size

    async def _moment(self) -> None:
        self._settled.clear()
        await moment(self._settled, clock=self._clock)

    def _end(self, future: asyncio.Future[None]) -> None:
        cancelled = future.cancelled()
        self._tell(future, asyncio.CancelledError() if cancelled else future.exception())

    def _tell(self, future: asyncio.Future[None], error: BaseException | None) -> None:
        size, done = self._under_way.pop(future, (0, None))
        self._bytes -= size
        self._settled.set()
        if done is not None:
            done(error)
