from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import Change, ErrorKind, Job, JobError, JobQuery, JobState, News, Place, Progress
from amqpkit.stores.memory_jobs import MemoryJobLog
from amqpkit.web.jobs import jobs_app, look_again

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Outage(MemoryJobLog):
    """A log that can go away."""

    away = False

    async def get(self, job: str) -> Job | None:
        if self.away:
            raise StoreUnavailable("the database is away")
        return await super().get(job)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        if self.away:
            raise StoreUnavailable("the database is away")
        return await super().find(query)


def news(what: News, *, at: float = 0, attempt: int = 0, **more: Any) -> Change:
    return Change(
        "j-1", what, NOW + timedelta(seconds=at), Place(attempt=attempt), "csv.import", "csv.import", 4, **more
    )


async def ann(request: Request, job: Job) -> bool:
    await asyncio.sleep(0)
    return request.headers.get("user") == "ann" and job.id == "j-1"


@pytest.fixture
def log() -> Outage:
    return Outage()


@pytest.fixture
async def client(log: Outage) -> AsyncIterator[httpx2.AsyncClient]:
    app = Starlette(routes=[Mount("/jobs", jobs_app(log, authorise=ann, poll=0.01))])
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop", headers={"user": "ann"}) as client:
        yield client


async def test_a_job_is_shown_with_its_progress_and_when_to_ask_again(log: Outage, client: httpx2.AsyncClient) -> None:
    await log.record([news(News.BEGUN), news(News.PROGRESS, at=1, progress=Progress(0.6, "1,200 of 2,000 rows"))])

    answer = await client.get("/jobs/j-1")

    assert (answer.status_code, answer.headers["retry-after"]) == (200, "1")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["state"] == "running"
    assert answer.json()["progress"] == {"fraction": 0.6, "text": "1,200 of 2,000 rows"}


async def test_a_job_that_has_ended_need_not_be_asked_for_again(log: Outage, client: httpx2.AsyncClient) -> None:
    await log.record([news(News.SUCCEEDED)])

    answer = await client.get("/jobs/j-1")

    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("job", ["orders/2026/7", "a b", "ü?&#", "cancel", "events", "x/cancel", "..%2F.."])
async def test_a_job_may_have_any_id_that_a_message_has(log: Outage, job: str) -> None:
    await log.record([replace(news(News.BEGUN), id=job)])
    app = Starlette(routes=[Mount("/jobs", jobs_app(log, authorise=lambda request, job: True, poll=0.01))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        place = f"/jobs/{quote(job, safe='')}"
        shown, asked = await client.get(place), await client.post(f"{place}/cancel")
        await log.record([replace(news(News.SUCCEEDED, at=1), id=job)])
        told = await client.get(f"{place}/events")

    assert (shown.status_code, shown.json()["id"]) == (200, job)
    assert (asked.status_code, asked.json()["id"]) == (202, job)
    assert [each["id"] for each in events(told.text)] == [job]


@pytest.mark.parametrize("verb", ["", "/cancel", "/events"])
async def test_a_job_of_somebody_else_looks_like_none_at_all(
    log: Outage, client: httpx2.AsyncClient, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqpkit.web.jobs.PATIENCE", 0.05)
    await log.record([news(News.BEGUN)])
    method = "POST" if verb == "/cancel" else "GET"

    theirs = await client.request(method, f"/jobs/j-1{verb}", headers={"user": "bob"})
    nobodys = await client.request(method, f"/jobs/j-2{verb}")

    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.content == nobodys.content
    job = await log.get("j-1")
    assert job is not None
    assert job.cancel_requested is None


async def test_events_of_somebody_elses_job_take_as_long_as_those_of_none(
    log: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqpkit.web.jobs.PATIENCE", 0.3)
    await log.record([news(News.BEGUN)])
    asked = []

    def refuses(_request: Request, job: Job) -> bool:
        asked.append(job.id)
        return False

    app = jobs_app(log, authorise=refuses, poll=0.01)
    took = []
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        for job in ("j-1", "j-2"):
            began = time.monotonic()
            assert (await client.get(f"/{job}/events")).status_code == 404
            took.append(time.monotonic() - began)

    assert min(took) >= 0.3, "a stranger could tell which jobs there are"
    assert asked == ["j-1"]


async def test_an_authorisation_that_forgets_to_answer_refuses(log: Outage) -> None:
    await log.record([news(News.BEGUN)])
    app = jobs_app(log, authorise=lambda request, job: None)  # type: ignore[arg-type, return-value]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        answer = await client.get("/j-1")

    assert answer.status_code == 404


async def test_cancelling_is_asked_for_once_and_is_no_use_at_the_end(log: Outage, client: httpx2.AsyncClient) -> None:
    await log.record([news(News.BEGUN)])

    first = await client.post("/jobs/j-1/cancel")
    second = await client.post("/jobs/j-1/cancel")
    await log.record([news(News.SUCCEEDED, at=1)])
    late = await client.post("/jobs/j-1/cancel")

    assert [first.status_code, second.status_code, late.status_code] == [202, 202, 409]
    assert first.json()["cancel_requested_at"] == second.json()["cancel_requested_at"] is not None


@pytest.mark.parametrize(("method", "verb"), [("GET", ""), ("POST", "/cancel"), ("GET", "/events")])
async def test_a_log_that_cannot_be_asked_is_503(
    log: Outage, client: httpx2.AsyncClient, method: str, verb: str
) -> None:
    await log.record([news(News.BEGUN)])
    log.away = True

    answer = await client.request(method, f"/jobs/j-1{verb}")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "the database" not in answer.text


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


class Looked(Outage):
    """A log that counts how often it was asked."""

    looks = 0

    async def get(self, job: str) -> Job | None:
        self.looks += 1
        return await super().get(job)

    async def find(self, query: JobQuery) -> Sequence[Job]:
        self.looks += 1
        return await super().find(query)


@pytest.fixture
def looked() -> Looked:
    return Looked()


async def test_events_tell_each_change_through_an_outage_until_the_end(looked: Looked) -> None:
    await looked.record([news(News.QUEUED)])
    app = jobs_app(looked, authorise=lambda request, job: True, poll=0.01)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        reading = asyncio.create_task(client.get("/j-1/events"))
        await until(lambda: looked.looks >= 3)

        async def seen(change: Change) -> None:
            await looked.record([change])
            before = looked.looks
            await until(lambda: looked.looks >= before + 2)

        await seen(news(News.BEGUN, at=1))
        looked.away = True
        await seen(news(News.PROGRESS, at=2, progress=Progress(0.5, "half")))
        looked.away = False
        await seen(news(News.PROGRESS, at=2, progress=Progress(0.5, "half")))
        failure = JobError(ErrorKind.BAD_INPUT, "Row 7: the price is no number.")
        await looked.record([news(News.FAILED, at=3, error=failure)])
        answer = await reading

    told = events(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [each["state"] for each in told] == ["pending", "running", "running", "failed"]
    assert told[2]["progress"]["text"] == "half"
    assert told[3]["error"] == {"kind": "bad-input", "sentence": "Row 7: the price is no number."}


async def test_three_hundred_readers_share_one_look(looked: Looked) -> None:
    names = [f"j-{number}" for number in range(300)]
    await looked.record([replace(news(News.BEGUN), id=name) for name in names])
    app = jobs_app(looked, authorise=lambda request, job: True, poll=0.5)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        reading = [asyncio.create_task(client.get(f"/{name}/events")) for name in names]
        await until(lambda: looked.looks >= 600)  # each asks twice before it is let in
        await looked.record([replace(news(News.SUCCEEDED, at=1), id=name) for name in names])
        told = [events((await each).text) for each in reading]

    assert [[each["state"] for each in one] for one in told] == [["running", "succeeded"]] * 300
    assert [one[0]["id"] for one in told] == names
    assert looked.looks < 610


async def test_a_reader_who_goes_away_takes_no_look_from_the_others(looked: Looked) -> None:
    await looked.record([news(News.BEGUN)])
    app = jobs_app(looked, authorise=lambda request, job: True, poll=0.1)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        first, second = (asyncio.create_task(client.get("/j-1/events")) for _ in range(2))
        await until(lambda: looked.looks >= 4)
        first.cancel()
        await looked.record([news(News.SUCCEEDED, at=1)])
        answer = await second

    assert [each["state"] for each in events(answer.text)] == ["running", "succeeded"]


async def test_a_reader_who_goes_away_during_an_outage_leaves_no_traceback() -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    fails, asked = asyncio.Event(), asyncio.Event()

    class Hangs(Outage):
        async def get(self, job: str) -> Job | None:
            asked.set()
            await fails.wait()
            raise StoreUnavailable("the database is away")

    app = jobs_app(Hangs(), authorise=lambda request, job: True, poll=0.01)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop") as client:
        reading = asyncio.create_task(client.get("/j-1/events"))
        await asked.wait()
        reading.cancel()
        await asyncio.wait([reading])
        fails.set()
        for _ in range(5):
            await asyncio.sleep(0)
    del reading
    gc.collect()

    assert unheard == []


async def test_events_wait_for_a_job_whose_news_is_late(log: Outage, client: httpx2.AsyncClient) -> None:
    reading = asyncio.create_task(client.get("/jobs/j-1/events"))
    await asyncio.sleep(0)
    await log.record([news(News.SUCCEEDED)])

    answer = await reading

    assert [each["state"] for each in events(answer.text)] == ["succeeded"]


@pytest.mark.parametrize(
    ("state", "due_in", "expected"),
    [
        (JobState.PENDING, None, 1),
        (JobState.RUNNING, None, 1),
        (JobState.RETRYING, 9.2, 10),
        (JobState.RETRYING, -3, 1),
        (JobState.RETRYING, 3600, 60),
    ],
)
def test_a_reader_is_told_to_wait_for_the_next_attempt(state: JobState, due_in: float | None, expected: int) -> None:
    due = None if due_in is None else NOW + timedelta(seconds=due_in)

    assert look_again(Job("j-1", NOW, NOW, state=state, next_attempt=due), NOW) == expected
