"""What is known of jobs, in this process's memory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from amqpkit.jobs import Change, Job, JobQuery, merge
from amqpkit.ports import Clock

ROOM: Final = 10_000
"""Jobs that have ended; the first of them make room for others."""


class MemoryJobLog:
    """A `JobLog` that all workers and publishers of one process share; what it knows ends with the process."""

    def __init__(self, clock: Clock | None = None, *, room: int = ROOM) -> None:
        """Tell time by `clock`, the machine's if there is none; know at most `room` jobs that have ended."""
        self._clock, self._room = clock, room
        self._jobs: dict[str, Job] = {}
        self._ended: dict[str, None] = {}  # in the order of their ends

    def __repr__(self) -> str:
        return f"MemoryJobLog({len(self._jobs)} jobs)"

    async def prepare(self) -> None:
        """Nothing is to be made."""

    async def record(self, changes: Sequence[Change]) -> int:
        """Take news in."""
        late = 0
        for change in changes:
            job, ignored = merge(self._jobs.get(change.id), change)
            self._keep(job)
            late += ignored
        return late

    async def get(self, job: str) -> Job | None:
        """Look one up."""
        return self._jobs.get(job)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look several up, the newest first."""
        named = (self._jobs.get(each) for each in dict.fromkeys(query.ids))
        among = [job for job in named if job is not None] if query.ids else self._jobs.values()
        found = [job for job in among if query.matches(job)]
        return sorted(found, key=lambda job: (job.created, job.id), reverse=True)[: query.limit]

    async def cancel(self, job: str) -> Job | None:
        """Ask that it be given up, unless it has ended."""
        found = self._jobs.get(job)
        if found is not None and not found.state.final and found.cancel_requested is None:
            now = datetime.now(UTC) if self._clock is None else self._clock.now()
            found = self._jobs[job] = replace(found, cancel_requested=now)
        return found

    async def close(self) -> None:
        """Nothing is open; what is known stays known."""

    def _keep(self, job: Job) -> None:
        self._jobs[job.id] = job
        if not job.state.final:
            self._ended.pop(job.id, None)  # it was replayed
            return
        self._ended.setdefault(job.id)
        if len(self._ended) > self._room:
            first = next(iter(self._ended))
            del self._ended[first], self._jobs[first]
