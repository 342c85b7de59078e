"""`amqpkit jobs`: what is known of tracked payloads; list, show, cancel, and watch them with live progress bars."""

import json
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.table import Table
from rich.text import Text

from amqpkit.cli.intervals import Every
from amqpkit.cli.joblog import existing_log
from amqpkit.cli.jobwatch import Bars, Documents, Face, Lines, follow, open_jobs_of, shown
from amqpkit.errors import AmqpkitError
from amqpkit.jobs import Job, JobQuery, JobState
from amqpkit.ports import JobLog

WIDE: Final = 200
"""Columns when there is no terminal: a pipe cuts nothing off."""

jobs = App(
    name="jobs",
    help="Look at jobs (payloads with track=True), cancel them, watch their progress.",
    help_format="markdown",
    version_flags=(),
    default_parameter=Parameter(negative=()),
    exit_on_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Where jobs are told of.

    Parameters
    ----------
    jobs
        The job log: sqlite:///PATH or postgresql://…, as given to `amqpkit run --jobs`. Without it: the database of the
        store, AMQPKIT_STORE.
    """

    jobs: Annotated[str | None, Parameter(env_var="AMQPKIT_JOBS", show_default=False)] = field(default=None, repr=False)
    store: Annotated[str | None, Parameter(env_var="AMQPKIT_STORE", show=False)] = field(default=None, repr=False)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[JobLog]:
        """Open the log, and close it at the end."""
        log = existing_log(self.jobs, self.store)
        try:
            yield log
        finally:
            await log.close()


@jobs.command(name="list")
async def list_(  # noqa: PLR0913 - a command's options
    *,
    state: Annotated[tuple[JobState, ...], Parameter(negative=(), show_default=False)] = (),
    queue: Annotated[str, Parameter(show_default=False)] = "",
    type: Annotated[str, Parameter(show_default=False)] = "",  # noqa: A002 - AMQP's word
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1_000_000))] = 50,
    log: LogOptions | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """List jobs, the newest first. Exit codes: 0 listed, 1 the log cannot be read.

    Parameters
    ----------
    state
        Only jobs in this state; several may be given.
    queue
        Only jobs of this queue.
    type
        Only jobs of this payload type.
    limit
        At most so many.
    log
        Where jobs are told of.
    json_
        Print one JSON document: jobs [{id, type, queue, state, attempt, attempts, input, progress {fraction, text},
        error {kind, sentence}, created_at, updated_at, next_attempt_at, cancel_requested_at}].
    """
    async with (log or LogOptions()).opened() as opened:
        found = await opened.find(JobQuery(states=state, queue=queue, type=type, limit=limit))
    if json_:
        print(json.dumps({"jobs": [job.as_json() for job in found]}, indent=2, ensure_ascii=False))
    elif found:
        _console().print(_table(found))
    else:
        print("no such jobs", file=sys.stderr)
    return 0


@jobs.command(name="show")
async def show(
    id: str,  # noqa: A002 - a job's
    *,
    log: LogOptions | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Show all that is known of a job. Exit codes: 0 shown, 1 nothing is known of it.

    Parameters
    ----------
    id
        The job's id, which is its message's.
    log
        Where jobs are told of.
    json_
        Print it as JSON, as in `list`.
    """
    async with (log or LogOptions()).opened() as opened:
        job = _known(await opened.get(id), id)
    if json_:
        print(json.dumps(job.as_json(), indent=2, ensure_ascii=False))
    else:
        _console().print(_sheet(job))
    return 0


@jobs.command(name="cancel")
async def cancel(
    id: str,  # noqa: A002 - a job's
    *,
    log: LogOptions | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Ask that a job be given up.

    One that has not begun, or waits for its next attempt, is discarded when it comes to a worker; one that runs is told
    within some two seconds, and its handler may obey. Exit codes: 0 asked, 1 it has ended, or nothing is known of it.

    Parameters
    ----------
    id
        The job's id, which is its message's.
    log
        Where jobs are told of.
    json_
        Print the job as JSON, as in `list`.
    """
    async with (log or LogOptions()).opened() as opened:
        job = _known(await opened.cancel(id), id)
    if json_:
        print(json.dumps(job.as_json(), indent=2, ensure_ascii=False))
    elif not job.state.final:
        print(f"{job.id}: asked to stop; it is {job.state}")
    if job.state.final:
        print(f"amqpkit: {job.id} has ended: {job.state}", file=sys.stderr)
    return int(job.state.final)


@jobs.command(name="watch")
async def watch(
    *ids: str,
    queue: Annotated[str, Parameter(show_default=False)] = "",
    type: Annotated[str, Parameter(show_default=False)] = "",  # noqa: A002 - AMQP's word
    every: Every = 0.5,
    log: LogOptions | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Watch jobs with live progress bars; without a terminal, one line for each change.

    Given ids, it ends when those jobs have ended. Without, it shows all that have begun and not ended and the newest
    that wait, and goes on until Ctrl-C. A log that goes away meanwhile is asked again until it is back.
    Exit codes: 0 all of them succeeded, 1 one failed or was cancelled, or nothing is known of it.

    Parameters
    ----------
    ids
        Ids of jobs.
    queue
        Without ids: only jobs of this queue.
    type
        Without ids: only jobs of this payload type.
    every
        Seconds between two looks.
    log
        Where jobs are told of.
    json_
        Print one JSON document a line for each change, as in `list`.
    """
    face: Face = Documents() if json_ else Bars() if sys.stdout.isatty() else Lines()
    async with (log or LogOptions()).opened() as opened:
        for each in ids:
            _known(await opened.get(each), each)
        queries = (JobQuery(ids=ids, limit=len(ids)),) if ids else open_jobs_of(queue, type)
        ended = await follow(opened, queries, face, every=every)
    for each in set(ids) - {job.id for job in ended}:  # tidied away meanwhile
        _known(None, each)
    return int(any(job.state is not JobState.SUCCEEDED for job in ended))


def _known(job: Job | None, name: str) -> Job:
    if job is None:
        msg = f"nothing is known of job {shown(name)}: it is not tracked, was forgotten, or has another log"
        raise AmqpkitError(msg)
    return job


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)


def _table(found: Iterable[Job]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("JOB", "TYPE", "STATE", "ATTEMPT", "PROGRESS", "UPDATED", ""):
        table.add_column(name, no_wrap=name not in {"PROGRESS", ""}, overflow="fold")
    for job in found:
        progress = f"{job.progress.fraction:.0%} {shown(job.progress.text)}".strip()
        remark = shown(job.error.sentence) if job.error and job.state in (JobState.FAILED, JobState.RETRYING) else ""
        if job.cancel_requested and not job.state.final:
            remark = "asked to stop"
        table.add_row(
            *map(Text, (shown(job.id), shown(job.type))),
            Text(job.state.value, style=_STYLES[job.state]),
            *map(Text, (f"{job.attempt}/{job.attempts}", progress, _when(job.updated), remark)),
        )
    return table


def _sheet(job: Job) -> Table:
    sheet = Table.grid(padding=(0, 2))
    rows: list[tuple[str, Text]] = [
        ("job", Text(shown(job.id))),
        ("type", Text(shown(job.type))),
        ("queue", Text(shown(job.queue))),
        ("state", Text(job.state.value, style=_STYLES[job.state])),
        ("attempt", Text(f"{job.attempt} of at most {job.attempts}")),
        ("progress", Text(f"{job.progress.fraction:.0%} {shown(job.progress.text)}".strip())),
        ("input", Text(json.dumps(job.summary, ensure_ascii=False) if job.summary is not None else "not known")),
    ]
    if job.error:
        rows.append(("last error", Text(f"{job.error.kind}: {shown(job.error.sentence)}")))
    moments = {
        "created": job.created,
        "updated": job.updated,
        "next attempt": job.next_attempt,
        "asked to stop": job.cancel_requested,
    }
    rows += [(name, Text(_when(moment))) for name, moment in moments.items() if moment]
    for name, value in rows:
        sheet.add_row(name, value)
    return sheet


def _when(moment: datetime) -> str:
    return re.sub(r"\..*", "", moment.astimezone().isoformat(sep=" "))


_STYLES: Final = {
    JobState.PENDING: "dim",
    JobState.RUNNING: "cyan",
    JobState.RETRYING: "yellow",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "magenta",
}
