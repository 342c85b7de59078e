"""Brings what happens to tracked jobs to their log: late when it must be, and nobody who delivers ever waits for it."""

import asyncio
import logging
from collections import deque
from types import TracebackType
from typing import Final, Self

import tenacity

from amqpkit.brokers.clock import SystemClock
from amqpkit.errors import StoreUnavailable
from amqpkit.events import Event, Tracked
from amqpkit.jobs import Change, News
from amqpkit.ports import Clock, JobLog
from amqpkit.stores.memory_jobs import MemoryJobLog

log = logging.getLogger("amqpkit.jobs")

ROOM: Final = 10_000
"""Pieces of news that wait for a log which is away; a few kilobytes each."""
LINGER: Final = 0.1
LAST: Final = 5.0
BATCH: Final = 200
"""Pieces of news that are written at once."""


class JobListener:
    """An `on_event` hook that writes to a `JobLog`, in the background, in batches, with back-off while it is away.

    News waits for at most `linger` seconds (more of it is then written at once), and at most `room` pieces wait:
    then progress is dropped, the oldest first, then the oldest of all. What was dropped is counted in `dropped`, what
    was out of date when it came in `late`. Use it with `async with`, or `close` it: that writes what is left.
    """

    def __init__(
        self, jobs: JobLog, *, clock: Clock | None = None, room: int = ROOM, linger: float | None = None
    ) -> None:
        """Listen; the first news begins the writing. By default news lingers 0.1 s, and not at all in memory."""
        if linger is None:
            linger = 0.0 if isinstance(jobs, MemoryJobLog) else LINGER
        self._jobs, self._clock, self._room, self._linger = jobs, clock or SystemClock(), room, linger
        self._news: deque[Change] = deque()
        self._progress: dict[str, Change] = {}
        self._heard = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing: asyncio.Task[None] | None = None
        self._away = False
        self._held = 0
        self.dropped = self.late = 0

    async def __aenter__(self) -> Self:
        """Nothing to do yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write what is left."""
        await self.close()

    def __call__(self, event: Event) -> None:
        """Hear an event; a plain call, quick, in the loop's own thread."""
        if isinstance(event, Tracked):
            self._hear(event.change)

    @property
    def waiting(self) -> int:
        """How much news is not written yet."""
        return len(self._news) + len(self._progress) + self._held

    async def close(self, within: float | None = None) -> None:
        """Write what is left, for at most `within` seconds (5); what is not written then is dropped and counted."""
        if self._writing is None:
            return
        try:
            async with asyncio.timeout(LAST if within is None else within):
                await self._idle.wait()
        except TimeoutError:
            self.dropped += self.waiting
            log.warning("the job log did not answer in time: %d pieces of news are dropped", self.waiting)
            self._news.clear()
            self._progress.clear()
        self._writing.cancel()
        await asyncio.wait([self._writing])
        self._writing, self._held = None, 0

    def _hear(self, change: Change) -> None:
        if change.news is News.PROGRESS:
            self._progress.pop(change.id, None)  # only the newest of a job is of use, and it goes to the end
            self._progress[change.id] = change
        else:
            self._news.append(change)
        if self.waiting - self._held > self._room:
            self._drop()
        self._idle.clear()
        self._heard.set()
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def _drop(self) -> None:
        self.dropped += 1
        if self._progress:
            del self._progress[next(iter(self._progress))]
        else:
            self._news.popleft()

    async def _write(self) -> None:
        while True:
            await self._heard.wait()
            if self._linger > 0:
                await self._clock.sleep(self._linger)
            self._heard.clear()
            while batch := self._take():
                self._held = len(batch)
                await self._record(batch)
                self._held = 0
            if not self._heard.is_set():
                self._idle.set()

    def _take(self) -> list[Change]:
        batch = [self._news.popleft() for _ in range(min(BATCH, len(self._news)))]
        if not self._news:
            batch += self._progress.values()
            self._progress.clear()
        return batch

    async def _record(self, batch: list[Change]) -> None:
        tries = tenacity.AsyncRetrying(
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
            retry=tenacity.retry_if_exception_type(StoreUnavailable),
            before_sleep=self._tell,
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            async for attempt in tries:
                with attempt:
                    self.late += await self._jobs.record(batch)
        except Exception:  # whatever a log fails with: no other try mends it, and the next news may be written
            self.dropped += len(batch)
            if not self._away:  # told once, until it works again
                log.exception("news of jobs could not be written and is dropped, so far %d pieces", self.dropped)
            self._away = True
            return
        if self._away:
            self._away = False
            log.info("the job log answers again; what waited is being written (%d dropped so far)", self.dropped)

    def _tell(self, state: tenacity.RetryCallState) -> None:
        if not self._away:
            self._away = True
            error = state.outcome.exception() if state.outcome else None
            log.warning("the job log cannot be written (%s); deliveries go on, jobs are told of later", error)
