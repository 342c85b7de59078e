"""The listener writes in the background: late when it must, and what it has to drop it counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from amqpkit.deliver.listener import JobListener
from amqpkit.errors import StoreUnavailable
from amqpkit.events import NoKey, Tracked
from amqpkit.jobs import Change, JobState, News, Place, Progress
from amqpkit.stores.memory_jobs import MemoryJobLog

START = datetime(2026, 1, 1, tzinfo=UTC)


def told(job: str, news: News, second: int = 0, fraction: float | None = None) -> Tracked:
    progress = None if fraction is None else Progress(fraction)
    return Tracked(Change(job, news, START + timedelta(seconds=second), Place(), progress=progress))


class Away(MemoryJobLog):
    """A log that cannot be asked, or fails in a way of its own, until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = StoreUnavailable("the log is away")
        self.batches: list[int] = []

    async def record(self, changes: Sequence[Change]) -> int:
        if self.error is not None:
            raise self.error
        self.batches.append(len(changes))
        return await super().record(changes)


async def test_what_is_heard_is_written_in_batches_and_the_rest_at_the_close() -> None:
    log = Away()
    log.error = None
    async with JobListener(log) as listener:
        listener(NoKey("q"))
        for number in range(500):
            listener(told(f"j-{number}", News.QUEUED))
        listener(told("j-1", News.SUCCEEDED))
    assert listener.waiting == 0
    assert log.batches == [200, 200, 101]
    assert (await log.get("j-1")).state is JobState.SUCCEEDED
    assert (await log.get("j-2")).state is JobState.PENDING


async def test_news_waits_for_a_log_that_is_away_and_hearing_takes_no_time() -> None:
    log = Away()
    async with JobListener(log, linger=0) as listener:
        began = time.perf_counter()
        for number in range(2000):
            listener(told(f"j-{number}", News.BEGUN))
        assert time.perf_counter() - began < 1
        await asyncio.sleep(0.05)
        assert await log.get("j-0") is None
        log.error = None
    assert (await log.get("j-0")).state is (await log.get("j-1999")).state is JobState.RUNNING
    assert (listener.dropped, listener.late) == (0, 0)


async def test_a_full_room_drops_progress_first_then_the_oldest_and_counts() -> None:
    log = Away()
    async with JobListener(log, room=10, linger=0) as listener:
        listener(told("a", News.PROGRESS, 1, 0.1))
        listener(told("b", News.PROGRESS, 1, 0.1))
        listener(told("a", News.PROGRESS, 2, 0.2))
        assert listener.waiting == 2, "only the newest progress of a job waits"
        for number in range(9):
            listener(told(f"j-{number}", News.QUEUED))
        assert listener.dropped == 1
        listener(told("j-9", News.QUEUED))
        listener(told("j-10", News.QUEUED))
        assert listener.dropped == 3
        log.error = None
    assert {job for job in ("a", "b", "j-0", "j-1", "j-10") if await log.get(job) is None} == {"a", "b", "j-0"}


async def test_a_log_that_fails_in_a_way_of_its_own_loses_that_news_only(caplog) -> None:
    log = Away()
    log.error = ValueError("a bug")
    async with JobListener(log, linger=0) as listener:
        listener(told("a", News.QUEUED))
        await asyncio.sleep(0.02)
        log.error = None
        listener(told("b", News.QUEUED))
    assert listener.dropped == 1
    assert await log.get("b") is not None
    assert "could not be written" in caplog.text


async def test_late_news_is_counted() -> None:
    log = MemoryJobLog()
    async with JobListener(log) as listener:
        for news in (News.SUCCEEDED, News.BEGUN, News.QUEUED):
            listener(told("a", news))
    assert listener.late == 2
    assert (await log.get("a")).state is JobState.SUCCEEDED


async def test_a_close_does_not_wait_for_ever() -> None:
    listener = JobListener(Away(), linger=0)
    listener(told("a", News.QUEUED))
    listener(told("b", News.QUEUED))
    await listener.close(within=0.05)
    assert (listener.waiting, listener.dropped) == (0, 2)
    await listener.close()


async def test_the_oldest_jobs_that_have_ended_make_room() -> None:
    log = MemoryJobLog(room=10)
    for number in range(20):
        news = News.QUEUED if number < 3 else News.SUCCEEDED
        await log.record([told(f"j-{number}", news, number).change])
    assert [job for job in range(20) if await log.get(f"j-{job}")][:4] == [0, 1, 2, 10]


async def test_a_job_is_known_when_it_ends_however_many_have_not_ended() -> None:
    log = MemoryJobLog(room=10)
    for number in range(50):
        await log.record([told(f"j-{number}", News.QUEUED, number).change])
    for number in range(20):
        await log.record([told(f"j-{number}", News.SUCCEEDED, 50 + number).change])
        assert await log.get(f"j-{number}") is not None
    assert [job for job in range(50) if await log.get(f"j-{job}") is None] == list(range(10))


async def test_a_job_that_lives_again_makes_no_room_for_others() -> None:
    log = MemoryJobLog(room=2)
    await log.record([told("a", News.FAILED).change])
    await log.record([Change("a", News.BEGUN, START, Place(replays=1))])
    for number in range(5):
        await log.record([told(f"j-{number}", News.SUCCEEDED, number).change])
    found = await log.get("a")
    assert found is not None
    assert found.state is JobState.RUNNING
