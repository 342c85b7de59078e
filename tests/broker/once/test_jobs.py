"""Jobs on real brokers: workers killed at every moment of one job, and a job log that goes away under load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from amqpkit import Consumer, Context, JobListener, Payload, Publisher
from amqpkit.events import DuplicateWindow, Settled
from amqpkit.jobs import JobQuery, JobState
from amqpkit.stores import open_jobs
from tests.broker.life.rig import applied, until
from tests.broker.once import jobvictim
from tests.broker.once.crew import SQL
from tests.broker.once.test_outages import FAULTS

ROOT = Path(__file__).parents[3]
TOTALS = {"killed": 2000, "frozen": 600}


@pytest.mark.parametrize("place", SQL, indirect=True)
async def test_a_job_whose_workers_are_killed_at_every_moment_has_each_effect_once(broker, place, tmp_path) -> None:
    async with applied(broker, jobvictim.FILE) as rig:
        job = await rig.publisher.publish(jobvictim.ImportCsv())
        notes = tmp_path / "notes"
        told = {"url": broker.url, "database": place.url, "notes": str(notes)}
        victims = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.broker.once.jobvictim", json.dumps(told)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=100,
            check=True,
        )
        assert victims.stdout.split() == ["-9"] * len(jobvictim.MOMENTS) + ["0"]
        # in one transaction with their records
        assert place.effects() == Counter(["wrote", "charged", "refunded charge", "unrows"])
        # without one: only the worker that was killed between the two did it again
        assert Counter(notes.read_text().splitlines()) == Counter({"mailed": 2, "sorry for the mail": 2})
        letters = await rig.take()
    # the second letter is of the worker that was killed between its letter and its ack
    assert [letter.message_id for letter in letters] == [job, job]
    for letter in letters:
        assert letter.fate == "exhausted"
        assert letter.headers["amqpkit-error"]["message"] == "the bank is down"
        told_of = [(line["step"], line["outcome"]) for line in letter.headers["amqpkit-compensations"]]
        assert told_of == [("charge", "undone"), ("mail", "undone"), ("write", "undone")]
    log = open_jobs(place.url)
    found = await log.get(job)
    await log.close()
    assert found is not None
    assert (found.state, found.attempt, found.error is not None) == (JobState.FAILED, 1, True)


class Count(Payload, type="note", track=True):
    """A job of a moment."""

    number: int


class Counts(Consumer[Count], queue="work"):
    """Fails once for each tenth."""

    def __init__(self) -> None:
        self.handled: Counter[int] = Counter()

    async def handle(self, payload: Count, context: Context) -> None:
        context.progress(0.5, "half")
        await asyncio.sleep(0.01)
        if payload.number % 10 == 0 and context.attempt == 1:
            raise ConnectionError("once")
        self.handled[payload.number] += 1


FILE = """
version: 1
work_queues:
  work:
    accepts: [note]
    retry: {delays: [300ms]}
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_job_log_that_goes_away_costs_no_delivery_and_knows_every_job_when_it_is_back(
    broker, own_postgres, fault, record_property
) -> None:
    (stop, go_on), total = FAULTS[fault], TOTALS[fault]
    log, consumer = open_jobs(own_postgres.url), Counts()
    await log.prepare()
    async with applied(broker, FILE) as rig, JobListener(log) as listener:
        publisher = Publisher(rig.topology, rig.transport, on_event=listener)
        publishing = asyncio.create_task(publish(publisher, total))
        async with rig.working(consumer, jobs=log, overrides={"prefetch": 50, "concurrency": 10}) as worker:
            await until(lambda: consumer.handled.total() > total / 5, "the work goes on", within=60)
            await stop(own_postgres)
            went, before = time.monotonic(), consumer.handled.total()
            await until(lambda: consumer.handled.total() >= total, "all are handled without the log", within=60)
            took = time.monotonic() - went
            assert worker.ready
            await publishing
            assert [event for event in rig.events if isinstance(event, DuplicateWindow)] == []
            await go_on(own_postgres)
            await until(
                lambda: worker._listener is not None and worker._listener.waiting == 0, "all is told", within=90
            )
            await until(lambda: listener.waiting == 0, "the publisher has told all", within=90)
        assert await rig.ledger() == {}
        settled = Counter(event.outcome.value for event in rig.told(Settled))
        dropped = worker._listener.dropped if worker._listener else -1
    found = await log.find(JobQuery(limit=total + 1))
    await log.close()
    print(f"{total - before} jobs in {took:.1f} s without the log, {dropped} pieces of news dropped")
    record_property("seconds without the log", round(took, 1))
    assert settled == {"handled": total, "retried": total / 10}
    assert set(consumer.handled.values()) == {1}
    assert Counter(job.state for job in found) == {JobState.SUCCEEDED: total}
    assert Counter(job.attempt for job in found) == {1: total * 9 / 10, 2: total / 10}
    assert (dropped, listener.dropped) == (0, 0)
    # ten slots and some 10 ms each: what waits for a log that is away would take minutes
    assert took < 30


async def publish(publisher: Publisher, total: int) -> None:
    """Publish jobs that come while everything else happens."""
    for start in range(0, total, 50):
        await asyncio.gather(*(publisher.publish(Count(number=number)) for number in range(start, start + 50)))
