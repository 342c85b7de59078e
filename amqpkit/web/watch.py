"""Looking at a log of jobs for everybody who waits here: one question for all of them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from amqpkit.jobs import Job, JobQuery
from amqpkit.ports import JobLog

_AT_ONCE: Final = 500
"""How many jobs one question names; databases limit that."""


class Watch:
    """Readers of one process share a look, whatever jobs they read: hundreds of them ask a database once a poll."""

    def __init__(self, log: JobLog, poll: float) -> None:
        """Look `poll` seconds after the first has asked."""
        self._log, self._poll = log, poll
        self._next: _Look | None = None

    async def next(self, job: str) -> Job | None:
        """Give a job as the next look finds it, None when it is not there; raises StoreUnavailable."""
        look = self._next
        if look is None or not look.is_here:
            look = self._next = _Look(self)
        look.ids.add(job)
        # A reader who goes away must not take the look from the others, nor leave a connection half used.
        return (await asyncio.shield(look.answer)).get(job)

    async def look(self, mine: "_Look") -> Mapping[str, Job]:
        """Wait for others to join, then ask for all."""
        await asyncio.sleep(self._poll)
        if self._next is mine:
            self._next = None
        found: dict[str, Job] = {}
        every = sorted(mine.ids)
        for at in range(0, len(every), _AT_ONCE):
            ids = tuple(every[at : at + _AT_ONCE])
            found |= {job.id: job for job in await self._log.find(JobQuery(ids=ids, limit=len(ids)))}
        return found


class _Look:
    """One that others may join."""

    def __init__(self, watch: Watch) -> None:
        self.ids: set[str] = set()
        self.answer = asyncio.create_task(watch.look(self), name="amqpkit looks at jobs")
        self.answer.add_done_callback(heard)

    @property
    def is_here(self) -> bool:
        """Whether it is this loop's: another one may have ended."""
        return self.answer.get_loop() is asyncio.get_running_loop()


def heard(looking: asyncio.Future[Mapping[str, Job]] | asyncio.Future[Job | None]) -> None:
    """Hear of a failure also when its reader has gone, or the loop complains that nobody does."""
    if not looking.cancelled():
        looking.exception()
