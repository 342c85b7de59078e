"""Jobs as those who wait for them see them: their states, errors, progress and cancelling, in virtual time."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ConfigDict

from amqpkit import Cancelled, Consumer, ConsumerError, Context, DeadLetter, Discard, Payload, RetryAfter
from amqpkit.brokers.memory.clock import START
from amqpkit.deliver import listener
from amqpkit.errors import StoreUnavailable
from amqpkit.events import Tracked
from amqpkit.jobs import ErrorKind, Job, JobState, News
from amqpkit.model import Message, Properties
from amqpkit.stores import MemoryJobLog, MemoryStore
from amqpkit.testing.simulator import Simulator
from tests.jobs.parts import FILE, BadRow, ImportCsv, Imports, ImportsInThread, QuotaExceeded, topology


async def look(world: Simulator, job: str) -> Job:
    found = await world.jobs.get(job)
    assert found is not None
    return found


async def run(world: Simulator, payload: ImportCsv | None = None) -> Job:
    job = await world.publish(payload or ImportCsv())
    await world.settle()
    return await look(world, job)


async def test_a_job_is_pending_until_somebody_takes_it_and_then_succeeds() -> None:
    async with Simulator(topology()) as world:
        job = await run(world)
        assert (job.state, job.queue, job.type, job.attempt, job.attempts) == (
            JobState.PENDING,
            "imports",
            "csv.import",
            0,
            3,
        )
        await world.advance("5s")
        await world.start_worker([Imports()])
        await world.settle()
        job = await look(world, job.id)
    assert (job.state, job.attempt, job.progress.fraction, job.error) == (JobState.SUCCEEDED, 1, 1.0, None)
    assert job.created == START
    assert job.updated == START + timedelta(seconds=5)


async def test_a_job_that_fails_is_retried_and_says_when_and_why() -> None:
    def fails(_payload: ImportCsv, context: Any) -> None:
        context.progress(0.5, "half")
        if context.attempt < 3:
            raise ConnectionError("postgres://me:secret@db is down")

    async with Simulator(topology(), [Imports(fails)]) as world:
        job = await run(world)
        assert (job.state, job.attempt) == (JobState.RETRYING, 1)
        assert job.next_attempt == START + timedelta(seconds=10)
        assert job.error is not None
        assert job.error.kind is ErrorKind.WILL_RETRY
        assert "secret" not in json.dumps(job.as_json())
        assert job.progress.text == "half"
        await world.advance("10s")
        assert (await look(world, job.id)).next_attempt == START + timedelta(seconds=70)
        await world.advance("1m")
        job = await look(world, job.id)
    assert (job.state, job.attempt, job.next_attempt) == (JobState.SUCCEEDED, 3, None)


def raising(error: BaseException) -> Imports:
    def does(_payload: ImportCsv, _context: Any) -> None:
        raise error

    return Imports(does)


@pytest.mark.parametrize(
    ("error", "state", "kind", "sentence"),
    [
        (ConnectionError("x"), JobState.RETRYING, "will-retry", "Something went wrong"),
        (DeadLetter("x"), JobState.FAILED, "permanent", "It failed"),
        (RetryAfter(30), JobState.RETRYING, "busy", "What it needs is busy"),
        (QuotaExceeded("x"), JobState.RETRYING, "quota", "This month's imports are used up."),
        (BadRow("row 7 has no e-mail"), JobState.RETRYING, "bad-input", "The file has a mistake: row 7 has no e-mail."),
        (TimeoutError("x"), JobState.RETRYING, "busy", "What it needs is busy"),
        (Discard("not needed"), JobState.CANCELLED, None, ""),
        (Cancelled("by the user"), JobState.CANCELLED, None, ""),
    ],
)
async def test_a_failure_has_a_kind_and_a_sentence(
    error: BaseException, state: JobState, kind: str | None, sentence: str
) -> None:
    async with Simulator(topology(), [raising(error)]) as world:
        job = await run(world)
    assert job.state is state
    if kind is None:
        assert job.error is None
    else:
        assert job.error is not None
        assert job.error.kind == kind
        assert job.error.sentence.startswith(sentence)
        assert "Traceback" not in job.error.sentence


async def test_used_up_attempts_are_permanent() -> None:
    async with Simulator(topology(), [raising(ConnectionError("x"))]) as world:
        job = await run(world)
        await world.advance("70s")
        job = await look(world, job.id)
    assert (job.state, job.attempt, job.next_attempt) == (JobState.FAILED, 3, None)
    assert job.error is not None
    assert job.error.kind is ErrorKind.PERMANENT


async def test_an_invalid_payload_is_bad_input_that_names_the_place_and_not_the_value() -> None:
    async with Simulator(topology(), [Imports()]) as world:
        body = b'{"file": "a.csv", "rows": "s3cr3t"}'
        await world.publish_raw(Message(body, Properties(message_id="j-1", type="csv.import")), routing_key="imports")
        await world.settle()
        job = await look(world, "j-1")
    assert (job.state, job.attempt) == (JobState.FAILED, 1)
    assert job.error is not None
    assert job.error.kind is ErrorKind.BAD_INPUT
    assert job.error.sentence.startswith("The input cannot be used: not a valid ImportCsv: rows: ")
    assert "s3cr3t" not in job.error.sentence


async def test_the_input_is_told_in_short_and_without_credentials() -> None:
    notes = {"text": "x" * 500, "list": list(range(50)), "password": "hunter2", "deep": {"a": {"b": {"c": 1}}}}
    async with Simulator(topology()) as world:
        job = await run(world, ImportCsv(notes=notes))
        told = json.dumps([str(event) for event in world.events])
    assert job.summary is not None
    assert job.summary["file"] == "customers.csv"
    assert job.summary["api_key"] == job.summary["notes"]["password"] == "**********"
    assert job.summary["notes"]["text"] == "x" * 100 + "…"
    assert job.summary["notes"]["list"] == [*range(10), "… 40 more"]
    assert len(json.dumps(job.summary)) < 2000
    assert "hunter2" not in told
    assert "k-123" not in told


class Odd(Payload, type="csv.import", track=True):
    """Can be read, and not be written."""

    model_config = ConfigDict(val_json_bytes="base64")
    data: bytes = b""


class Reads(Consumer[Odd], queue="imports"):
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def handle(self, payload: Odd, _context: Context) -> None:
        self.seen.append(payload.data)


async def test_an_input_that_cannot_be_shown_costs_no_delivery() -> None:
    consumer = Reads()
    async with Simulator(topology(), [consumer]) as world:
        known = Properties(message_id="1", type="csv.import")
        await world.publish_raw(Message(b'{"data": "/w=="}', known), routing_key="imports")
        job = await look(world, "1")
        assert world.ledger() == {}
    assert consumer.seen == [b"\xff"]
    assert job.state is JobState.SUCCEEDED
    assert job.summary == {"…": "cannot be shown: UnicodeDecodeError"}


async def test_nothing_is_told_of_payloads_that_are_not_tracked() -> None:
    class Plain(Payload, type="csv.import"):
        file: str = ""

    async with Simulator(topology()) as world:
        job = await world.publish(Plain())
        assert await world.jobs.get(job) is None
        assert not [event for event in world.events if isinstance(event, Tracked)]


def test_a_tracked_type_has_one_queue() -> None:
    two = FILE + "  archive:\n    accepts: [csv.import]\nmessages: {csv.import: {exchange: '', routing_key: imports}}\n"
    from amqpkit import Worker

    with pytest.raises(ConsumerError, match="accepted by archive, imports: a job has one queue"):
        Worker(topology(two), [Imports()], object())  # type: ignore[arg-type]


def test_a_kind_of_error_that_does_not_exist_is_refused() -> None:
    for wrong in ({ValueError: "nope"}, {"ValueError": "quota"}, {ValueError: ("quota", 5)}):
        with pytest.raises(ConsumerError, match="errors has"):
            type("Wrong", (Imports,), {"errors": wrong}, queue="imports")


# --- progress ----------------------------------------------------------------------------------------


def reports(world: Simulator) -> list[tuple[float, str]]:
    changes = [event.change for event in world.events if isinstance(event, Tracked)]
    return [(c.progress.fraction, c.progress.text) for c in changes if c.news is News.PROGRESS and c.progress]


async def test_progress_is_told_a_few_times_a_second_the_newest_always() -> None:
    async with Simulator(topology()) as world:

        async def works(_payload: ImportCsv, context: Any) -> None:
            for row in range(1000):
                context.progress((row + 1) / 2000, f"{row + 1} of 2000 rows")
                if row % 100 == 99:
                    await world.clock.sleep(0.05)
            await world.clock.sleep(5)
            context.progress(2, "all")

        await world.start_worker([Imports(works)])
        job = await world.publish(ImportCsv())
        await world.advance("2s")
        assert (await look(world, job)).progress.text == "1000 of 2000 rows"
        assert 3 <= len(reports(world)) <= 5
        await world.advance("10s")
        job = await look(world, job)
    assert job.progress.fraction == 1.0
    assert reports(world)[-1] == (1.0, "all")


async def test_progress_is_a_plain_call_in_threads() -> None:
    def works(_payload: ImportCsv, context: Any) -> None:
        for row in range(10_000):
            context.progress(row / 10_000, f"{row}")
        context.progress(float("nan"), "odd")
        context.progress(0.75, "three quarters")
        raise ConnectionError("down")

    async with Simulator(topology(), [ImportsInThread(works)]) as world:
        began = time.perf_counter()
        job = await run(world)
        assert time.perf_counter() - began < 2
    assert (job.progress.fraction, job.progress.text) == (0.75, "three quarters")
    assert len(reports(world)) <= 5


async def test_progress_that_is_no_number_is_the_handlers_mistake() -> None:
    async with Simulator(topology(), [Imports(lambda _p, context: context.progress("60%"))]) as world:
        job = await run(world)
    assert job.state is JobState.RETRYING


# --- cancelling --------------------------------------------------------------------------------------


async def test_a_pending_job_that_is_cancelled_is_discarded_at_its_delivery() -> None:
    called = []
    async with Simulator(topology()) as world:
        job = await run(world)
        asked = await world.jobs.cancel(job.id)
        assert asked is not None
        assert asked.cancel_requested is not None
        await world.start_worker([Imports(lambda *_: called.append(1))])
        await world.settle()
        job = await look(world, job.id)
        assert world.ledger() == {}
    assert (job.state, called) == (JobState.CANCELLED, [])


async def test_a_running_job_learns_within_two_seconds_that_it_is_cancelled() -> None:
    async with Simulator(topology()) as world:

        async def works(_payload: ImportCsv, context: Any) -> None:
            while True:
                context.raise_if_cancelled()
                await world.clock.sleep(0.2)

        await world.start_worker([Imports(works)])
        job = await world.publish(ImportCsv())
        await world.advance("30s")
        assert (await look(world, job)).state is JobState.RUNNING
        await world.jobs.cancel(job)
        await world.advance("2s")
        assert (await look(world, job)).state is JobState.CANCELLED
        assert world.ledger() == {}


async def test_a_job_between_two_attempts_is_cancelled_when_it_comes_back() -> None:
    async with Simulator(topology(), [raising(ConnectionError("x"))]) as world:
        job = await run(world)
        await world.jobs.cancel(job.id)
        await world.advance("10s")
        job = await look(world, job.id)
        assert world.ledger() == {}
    assert (job.state, job.attempt) == (JobState.CANCELLED, 2)


async def test_a_handler_may_finish_a_job_that_is_cancelled() -> None:
    async with Simulator(topology()) as world:
        await world.start_worker([Imports(lambda _p, _c: world.clock.sleep(10))])
        job = await world.publish(ImportCsv())
        await world.jobs.cancel(job)
        await world.advance("10s")
        assert (await look(world, job)).state is JobState.SUCCEEDED


async def test_what_has_failed_and_is_replayed_is_not_cancelled_any_more() -> None:
    async with Simulator(topology()) as world:

        async def fails(_payload: ImportCsv, context: Any) -> None:
            await world.clock.sleep(0.5)
            if not context.headers.get("amqpkit-replays"):
                raise DeadLetter("no")

        await world.start_worker([Imports(fails)])
        job = await world.publish(ImportCsv())
        await world.jobs.cancel(job)
        await world.advance("1s")
        assert (await look(world, job)).state is JobState.FAILED
        headers = {"amqpkit-replays": 1}
        again = Message(b"{}", Properties(message_id=job, type="csv.import", headers=headers))
        await world.publish_raw(again, routing_key="imports")
        await world.advance("1s")
        assert (await look(world, job)).state is JobState.SUCCEEDED


class Slow(MemoryJobLog):
    """A log that answers much too late, or not at all."""

    asked = 0

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    async def get(self, job: str) -> Job | None:
        import asyncio

        Slow.asked += 1
        if self.error is not None:
            raise self.error
        await asyncio.sleep(3)
        return await super().get(job)

    async def record(self, changes: Any) -> int:
        raise self.error or StoreUnavailable("away")

    async def find(self, query: Any) -> list[Job]:
        raise self.error or StoreUnavailable("away")


@pytest.mark.parametrize("error", [None, StoreUnavailable("away"), ValueError("a bug")])
async def test_a_log_that_cannot_say_in_time_lets_the_job_go_on(error: Exception | None, monkeypatch) -> None:
    monkeypatch.setattr(listener, "LAST", 0.1)
    handled = []
    Slow.asked = 0
    world = Simulator(topology(), [Imports(lambda *_: handled.append(1))], worker={"jobs": Slow(error)})
    async with world:
        began = time.perf_counter()
        for _ in range(50):
            await world.publisher.publish(ImportCsv())
        while len(handled) < 50 and time.perf_counter() - began < 30:
            await world.settle()
        assert world.ledger() == {}
    assert len(handled) == 50
    # one wait of 100 ms for each slot, and not one for each message
    assert Slow.asked <= (50 if error else 4)


async def test_a_copy_of_a_job_that_is_done_says_that_it_is_done() -> None:
    async with Simulator(topology()) as world:
        world.use_store(MemoryStore(world.clock))
        await world.start_worker([Imports()])
        job = await world.publish(ImportCsv())
        world.jobs._jobs.clear()  # the log was away meanwhile, and its worker is gone
        await world.publish(ImportCsv(), message_id=job)
        found = await look(world, job)
    assert found.state is JobState.SUCCEEDED
