"""What every log of jobs must do, whoever keeps it."""

from __future__ import annotations

import asyncio
import random
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import FIRST, Change, ErrorKind, Job, JobError, JobQuery, JobState, News, Place, Progress, merge
from amqpkit.ports import JobLog
from amqpkit.stores import MemoryJobLog, open_jobs
from amqpkit.stores.sql import SqlJobLog

START = datetime(2026, 1, 1, tzinfo=UTC)


def news(job: str, kind: News, second: float = 0, place: Place = FIRST, **more: Any) -> Change:
    fixed = {"type": "csv.import", "queue": "imports", "attempts": 3}
    return Change(job, kind, START + timedelta(seconds=second), place, **{**fixed, **more})


Open = Callable[[], Any]


@pytest.fixture(params=["memory", "sqlite", "postgresql-server"])
async def opened(request, tmp_path) -> AsyncIterator[Open]:
    """Opens any number of logs in one place."""
    logs: list[Any] = []
    one = MemoryJobLog()
    if request.param == "postgresql-server":
        url = request.getfixturevalue("postgres")
    else:
        url = f"sqlite:///{tmp_path}/jobs.db"

    async def make(**settings: Any) -> Any:
        log = one if request.param == "memory" else SqlJobLog(url, **settings)
        logs.append(log)
        await log.prepare()
        return log

    yield make
    for log in logs:
        await log.close()


@pytest.fixture
async def log(opened) -> JobLog:
    return await opened()


async def test_what_is_recorded_is_found_whole(log) -> None:
    due = START + timedelta(seconds=14, microseconds=5)
    error = JobError(ErrorKind.WILL_RETRY, "Etwas ging schief: 🐇")
    run = [
        news("j-1", News.QUEUED, summary={"file": "a.csv", "rows": [1, 2.5, None, True]}),
        news("j-1", News.BEGUN, 1, progress=Progress()),
        news("j-1", News.PROGRESS, 2, progress=Progress(0.6, "1,200 of 2,000 rows")),
        news("j-1", News.RETRYING, 3, error=error, next_attempt=due),
    ]
    assert await log.record(run) == 0

    expected: Job | None = None
    for change in run:
        expected, _ = merge(expected, change)
    assert await log.get("j-1") == expected
    assert expected is not None
    assert (expected.state, expected.next_attempt, expected.error) == (JobState.RETRYING, due, error)


async def test_nothing_is_known_of_a_job_that_was_never_heard_of(log) -> None:
    assert await log.get("j-1") is None
    assert await log.cancel("j-1") is None
    assert await log.find(JobQuery()) == []
    assert await log.record([]) == 0


async def test_late_news_is_counted_and_moves_nothing(log) -> None:
    await log.record([news("j-1", News.SUCCEEDED, 9)])
    assert await log.record([news("j-1", News.BEGUN, 1), news("j-1", News.QUEUED), news("j-2", News.QUEUED)]) == 2
    assert (await log.get("j-1")).state is JobState.SUCCEEDED
    assert (await log.get("j-1")).created == START


async def test_jobs_are_found_by_what_is_asked_the_newest_first(log) -> None:
    for number in range(6):
        kind = (News.QUEUED, News.BEGUN, News.FAILED)[number % 3]
        more = {"type": "pdf.print", "queue": "prints"} if number == 5 else {}
        await log.record([news(f"j-{number}", kind, number, **more)])

    async def ids(**query: Any) -> list[str]:
        return [job.id for job in await log.find(JobQuery(**query))]

    assert await ids() == ["j-5", "j-4", "j-3", "j-2", "j-1", "j-0"]
    assert await ids(limit=2) == ["j-5", "j-4"]
    assert await ids(states=(JobState.PENDING, JobState.RUNNING)) == ["j-4", "j-3", "j-1", "j-0"]
    assert await ids(states=(JobState.FAILED,), queue="imports") == ["j-2"]
    assert await ids(type="pdf.print") == ["j-5"]
    assert await ids(ids=("j-1", "j-5", "j-9")) == ["j-5", "j-1"]


async def test_a_cancel_is_remembered_through_later_news_and_only_while_the_job_lives(log) -> None:
    await log.record([news("j-1", News.QUEUED), news("j-2", News.SUCCEEDED)])

    asked = await log.cancel("j-1")
    assert asked.cancel_requested is not None
    assert asked.state is JobState.PENDING
    assert (await log.cancel("j-2")).cancel_requested is None

    await log.record([news("j-1", News.BEGUN, 1)])
    found = await log.get("j-1")
    assert (found.state, found.cancel_requested) == (JobState.RUNNING, asked.cancel_requested)
    assert (await log.cancel("j-1")).cancel_requested == asked.cancel_requested


async def test_several_who_hear_of_the_same_jobs_at_once_lose_nothing(opened) -> None:
    logs = await asyncio.gather(*(opened() for _ in range(4)))
    run = [
        change
        for job in range(10)
        for change in (
            news(f"j-{job}", News.QUEUED),
            news(f"j-{job}", News.BEGUN, 1, progress=Progress()),
            news(f"j-{job}", News.RETRYING, 2),
            news(f"j-{job}", News.BEGUN, 3, Place(attempt=1), progress=Progress()),
            news(f"j-{job}", News.PROGRESS, 4, Place(attempt=1), progress=Progress(0.5, "half")),
            news(f"j-{job}", News.SUCCEEDED, 5, Place(attempt=1)),
        )
    ]
    random.Random(7).shuffle(run)
    await asyncio.gather(*(logs[n % 4].record(run[n : n + 6]) for n in range(0, len(run), 6)))

    for job in await logs[0].find(JobQuery()):
        assert (job.state, job.attempt, job.progress) == (JobState.SUCCEEDED, 2, Progress(0.5, "half"))
    assert len(await logs[3].find(JobQuery())) == 10


@pytest.mark.parametrize("name", ["", "заказ/🐇", "a\x00b", "k" * 2000, "%_'\";--"])
async def test_any_text_is_an_id(log, name) -> None:
    await log.record([news(name, News.QUEUED), news(name + "!", News.BEGUN)])
    assert (await log.get(name)).state is JobState.PENDING
    assert (await log.cancel(name)).cancel_requested is not None


@pytest.mark.parametrize("opened", ["sqlite", "postgresql-server"], indirect=True)
async def test_jobs_are_forgotten_after_a_while(opened) -> None:
    log = await opened(keep=timedelta(days=1))
    await log.record([news("old", News.SUCCEEDED)])
    now = (datetime.now(UTC) - START).total_seconds()
    for number in range(100):
        await log.record([news(f"j-{number % 3}", News.QUEUED, now)])
    assert await log.get("old") is None
    assert await log.get("j-0") is not None


async def test_a_log_that_is_not_there_says_so(tmp_path) -> None:
    for url in ("postgresql://127.0.0.1:1/none", f"sqlite:///{tmp_path}/missing/jobs.db"):
        log = open_jobs(url)
        for verb in (log.record([news("j", News.QUEUED)]), log.get("j"), log.find(JobQuery()), log.cancel("j")):
            with pytest.raises(StoreUnavailable, match="the job log"):
                await verb
        with pytest.raises(StoreUnavailable):
            await log.prepare()
        await log.close()


def test_a_log_is_named_by_its_url() -> None:
    assert isinstance(open_jobs("memory:"), MemoryJobLog)
    with pytest.raises(ValueError, match="no job log for"):
        open_jobs("redis://localhost")
    assert "secret" not in repr(open_jobs("postgresql://me:secret@localhost/x"))


async def test_a_database_of_an_older_version_gets_what_it_lacks(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    for _ in range(2):
        log = open_jobs(url)
        await log.prepare()
        await log.record([news("j-1", News.QUEUED)])
        await log.close()
        with sqlite3.connect(f"{tmp_path}/old.db") as database:  # as version 0001 left it
            database.execute("DROP TABLE amqpkit_jobs")
            database.execute("DROP TABLE amqpkit_steps")
            database.execute("UPDATE amqpkit_claims_version SET version_num = '0001'")
        database.close()


async def test_a_database_that_refuses_us_is_one_that_cannot_be_asked(postgres: str) -> None:
    role, head = f"weak_{secrets.token_hex(4)}", postgres.partition("://")[2].partition("@")[2]
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'weak'")
        owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        log, whole = SqlJobLog(f"postgresql://{role}:weak@{head}"), SqlJobLog(postgres)
        try:
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await log.prepare()
            await whole.prepare()
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await log.record([news("j-1", News.QUEUED)])
        finally:
            await log.close()
            await whole.close()
            owner.execute(f"DROP ROLE {role}")


async def test_a_url_with_a_wrong_option_is_said_in_a_line(postgres: str) -> None:
    log = SqlJobLog(f"{postgres}?bogus=1")
    with pytest.raises(StoreUnavailable, match='invalid connection option "bogus"') as raised:
        await log.get("j-1")
    assert "\n" not in str(raised.value)
    await log.close()
