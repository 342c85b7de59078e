"""Where commands find jobs and steps: by their URL, or in the database of the store."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import tenacity

from amqpkit.cli.usage import UsageError
from amqpkit.errors import AmqpkitError, StoreUnavailable
from amqpkit.stores import Log, StepStore, open_jobs, open_steps

log = logging.getLogger("amqpkit.run")


def url_of(jobs: str | None, store: str | None) -> str | None:
    """Give the URL of the job log: what was said, else that of a store in a database, else none."""
    if jobs:
        return jobs
    scheme = urlsplit(store or "").scheme.partition("+")[0]
    return store if scheme in {"sqlite", "postgresql", "postgres"} else None


def open_log(url: str) -> Log:
    """Open the job log; raises UsageError for a URL that is none, AmqpkitError when a library is missing."""
    try:
        return open_jobs(url)
    except ValueError as error:
        msg = f"--jobs: {error}"
        raise UsageError(msg) from error
    except ImportError as error:
        raise AmqpkitError(str(error)) from error


def existing_log(jobs: str | None, store: str | None) -> Log:
    """Open a job log that somebody else writes; raises as `open_log`, and when there can be none."""
    url = url_of(jobs, store)
    if url is None:
        msg = "which jobs? give their log with --jobs (AMQPKIT_JOBS): sqlite:///PATH or postgresql://…"
        raise UsageError(msg)
    if url.startswith("memory"):
        msg = "--jobs: a log in memory is known to its own process only"
        raise UsageError(msg)
    log_of_jobs = open_log(url)
    parts = urlsplit(url)
    if parts.scheme.startswith("sqlite") and not Path(unquote(parts.path)[1:].partition("?")[0]).exists():
        # SQLite would make an empty one
        msg = f"there is no job log at {parts.path[1:]}"
        raise AmqpkitError(msg)
    return log_of_jobs


@dataclass(slots=True)
class Keeping:
    """The job log and the steps of a worker, if any."""

    jobs: Log | None = None
    steps: StepStore | None = None
    _preparing: asyncio.Task[None] | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str | None) -> "Keeping":
        """Open both; nothing is connected yet."""
        return cls() if url is None else cls(open_log(url), open_steps(url))

    def __str__(self) -> str:
        return str(self.jobs) if self.jobs else "no log: jobs are not told of, and no steps kept (give one with --jobs)"

    async def prepare(self) -> None:
        """Make the tables; while that cannot be done, the worker starts all the same, and it is tried again."""
        if self.jobs is None:
            return
        try:
            await self.jobs.prepare()
        except StoreUnavailable as error:
            log.warning("the job log cannot be prepared (%s); deliveries go on, and it is tried again", error)
            self._preparing = asyncio.create_task(self._insist(self.jobs))

    async def _insist(self, jobs: Log) -> None:
        async for attempt in tenacity.AsyncRetrying(
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=15),
            retry=tenacity.retry_if_exception_type(StoreUnavailable),
        ):
            with attempt:
                await jobs.prepare()

    async def close(self) -> None:
        """Give back connections."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
        for each in (self.jobs, self.steps):
            if each is not None:
                await each.close()
