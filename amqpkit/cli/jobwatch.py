"""Following jobs: their changes as lines, as JSON, or as live progress bars."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import Job, JobQuery, JobState
from amqpkit.ports import JobLog

BARS_MAX: Final = 40
"""Bars on a screen; what has ended makes room, and of what waits no more is shown."""
BEGUN_MAX: Final = 1000


class Face(Protocol):
    """Whoever shows jobs as they change; entered and left around it all."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def show(self, job: Job) -> None: ...  # noqa: D102 - the protocol's docstring covers it


def open_jobs_of(queue: str = "", type: str = "") -> tuple[JobQuery, ...]:  # noqa: A002 - AMQP's word
    """Ask for what has not ended: all that has begun, and of what waits as much as a screen has room for."""
    begun, waits = (JobState.RUNNING, JobState.RETRYING), (JobState.PENDING,)
    return (
        JobQuery(states=begun, queue=queue, type=type, limit=BEGUN_MAX),
        JobQuery(states=waits, queue=queue, type=type, limit=BARS_MAX),
    )


async def follow(log: JobLog, queries: Sequence[JobQuery], face: Face, *, every: float) -> list[Job]:
    """Show every change until all jobs of queries that name any have ended; return those that have ended.

    A log that goes away is waited for, and told of on stderr; raises StoreUnavailable when it never answered.
    """
    known: dict[str, Job] = {}
    named, answered, away = any(query.ids for query in queries), False, False
    with face:
        while True:
            try:
                found = await _look(log, queries, known)
            except StoreUnavailable as error:
                if not answered:
                    raise
                if not away:
                    print(f"amqpkit: {error}; it is asked again", file=sys.stderr)
                away = True
                await asyncio.sleep(every)
                continue
            answered, away = True, False
            for job in sorted(found, key=lambda each: (each.created, each.id)):
                if known.get(job.id) != job:
                    face.show(job)
            if named and all(job.state.final for job in found):
                return found
            known = {job.id: job for job in found if named or not job.state.final}
            await asyncio.sleep(every)


async def _look(log: JobLog, queries: Sequence[JobQuery], known: Mapping[str, Job]) -> list[Job]:
    found = [job for query in queries for job in await log.find(query)]
    gone = tuple(known.keys() - {job.id for job in found})
    if gone and not any(query.ids for query in queries):
        ended = await log.find(JobQuery(ids=gone, limit=len(gone)))
        # one that still waits is no longer among those that are shown, and is shown again when it begins
        found += [job for job in ended if job.state is not JobState.PENDING]
    return found


class Documents:
    """For programs: a JSON document a line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def show(self, job: Job) -> None:
        """Print it."""
        print(json.dumps(job.as_json(), ensure_ascii=False), flush=True)


class Lines:
    """For pipes and logs: a line for each change."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def show(self, job: Job) -> None:
        """Print it."""
        at = job.updated.astimezone().strftime("%H:%M:%S")
        print(f"{at} {shown(job.id)} {shown(job.type)} {words_for(job)}", flush=True)


class Bars:
    """For terminals: a bar for each job, which stays with its end."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._progress = Progress(
            TextColumn("{task.fields[name]}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TextColumn("{task.fields[words]}", markup=False),
            console=Console(highlight=False),
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, job: Job) -> None:
        """Move its bar, or begin one."""
        words = words_for(replace(job, progress=replace(job.progress, fraction=0.0)))
        if job.id not in self._bars:
            name = f"{shown(job.type)} {shown(job.id)}"
            self._bars[job.id] = self._progress.add_task("", total=1.0, name=name, words=words)
        self._progress.update(self._bars[job.id], completed=job.progress.fraction, words=words)
        if job.state.final and len(self._bars) > BARS_MAX:
            task = self._bars.pop(job.id)
            self._progress.remove_task(task)
            self._progress.console.print(Text(f"{shown(job.type)} {shown(job.id)} {words}"))


def words_for(job: Job) -> str:
    """Say in a line how a job is."""
    parts = [job.state.value]
    if job.attempt > 1:
        parts.append(f"attempt {job.attempt} of {job.attempts}")
    if job.progress.fraction and not job.state.final:
        parts.append(f"{job.progress.fraction:.0%}")
    if job.progress.text:
        parts.append(shown(job.progress.text))
    if job.error and job.state.value in ("retrying", "failed"):
        parts.append(shown(job.error.sentence))
    if job.next_attempt:
        parts.append(f"next at {job.next_attempt.astimezone():%H:%M:%S}")
    if job.cancel_requested and not job.state.final:
        parts.append("asked to stop")
    return ", ".join(parts)


def shown(text: str) -> str:
    """Show a stranger's text without what moves a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
