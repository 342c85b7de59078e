"""Finished steps of jobs, in this process's memory."""

from collections.abc import Sequence
from typing import Final

from amqpkit.ports import StepRecord, StepState

ROOM: Final = 10_000
"""Jobs; those whose steps were written down first make room for others."""


class MemorySteps:
    """`Steps` that all workers of one process share; what they know ends with the process."""

    def __init__(self, *, room: int = ROOM) -> None:
        """Know the steps of at most `room` jobs."""
        self._room = room
        self._jobs: dict[str, dict[str, StepRecord]] = {}

    def __repr__(self) -> str:
        return f"MemorySteps({len(self._jobs)} jobs)"

    async def prepare(self) -> None:
        """Nothing is to be made."""

    async def load(self, job: str) -> Sequence[StepRecord]:
        """Give all that is known of a job."""
        return sorted(self._jobs.get(job, {}).values(), key=lambda record: record.position)

    async def save(self, job: str, record: StepRecord) -> StepRecord:
        """Write a record down unless the step is done."""
        records = self._jobs.setdefault(job, {})
        found = records.get(record.name)
        if found is not None and found.state is record.state is StepState.DONE:
            return found
        records[record.name] = record
        while len(self._jobs) > self._room:
            del self._jobs[next(iter(self._jobs))]
        return record

    async def close(self) -> None:
        """Nothing is open; what is known stays known."""
