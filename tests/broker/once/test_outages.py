"""A store that freezes, and one that is killed and comes back, under load: the worker waits, and goes on by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from amqpkit.deliver import worker as worker_module
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.events import ClaimLost, Settled, StoreDown
from amqpkit.stores import open_store
from tests.broker.life.notes import Note
from tests.broker.life.rig import Rig, applied, until
from tests.broker.once.crew import FILE
from tests.broker.once.place import Place, entry
from tests.servers.server import Server

TOTAL = 1000
SLOTS = 10
OUTAGE = 4.0
"""Seconds in which the worker is watched doing nothing."""

pytestmark = pytest.mark.timeout(240)


async def freeze(server: Server) -> None:
    server.freeze()


async def thaw(server: Server) -> None:
    server.thaw()


async def kill(server: Server) -> None:
    await asyncio.to_thread(server.kill)


async def start(server: Server) -> None:
    await asyncio.to_thread(server.start)


Fault = tuple[Callable[[Server], Awaitable[None]], Callable[[Server], Awaitable[None]]]
FAULTS: dict[str, Fault] = {"frozen": (freeze, thaw), "killed": (kill, start)}


@asynccontextmanager
async def loaded(rig: Rig, copies: int) -> AsyncIterator[list[str]]:
    """Have messages that come while everything else happens."""
    ids = [f"m-{number}" for number in range(TOTAL)]

    async def publish() -> None:
        for start in range(0, TOTAL, 50):
            batch = ids[start : start + 50] * copies
            await asyncio.gather(*(rig.publisher.publish(Note(), message_id=each) for each in batch))

    publishing = asyncio.create_task(publish())
    yield ids
    await publishing


async def suffer(rig: Rig, worker: worker_module.Worker, server: Server, fault: Fault, handled: Callable[[], int]):
    """Take the server away for a while; assert that the worker waits quietly and goes on by itself."""
    stop, go_on = fault
    await until(lambda: handled() > TOTAL / 5, "the work goes on", within=120)
    await stop(server)
    await until(lambda: not worker.ready, "the worker is not ready", within=15)
    # messages keep coming at first: what is measured begins when the prefetch has stopped the consumer
    await until(lambda: is_still(rig), "everything waits", within=30)
    before, cpu, told = handled(), time.process_time(), len(rig.told(StoreDown))
    end = time.monotonic() + OUTAGE
    while time.monotonic() < end:
        assert not worker.ready
        await asyncio.sleep(0.05)
    assert time.process_time() - cpu < OUTAGE / 4, "it waits, and does not turn in circles"
    assert len(rig.told(StoreDown)) - told <= SLOTS * 6
    assert handled() == before
    assert handled() < TOTAL
    await go_on(server)
    await until(lambda: worker.ready, "the worker is ready again", within=60)


async def is_still(rig: Rig) -> bool:
    """Whether every slot waits for the store, and nothing is being published."""
    waiting = await rig.ready("work")
    events = len(rig.events)
    await asyncio.sleep(0.1)
    held = {event.message_id for event in rig.told(StoreDown)}
    return len(held) > 0 and waiting > 0 and await rig.ready("work") == waiting and len(rig.events) - events <= SLOTS


def settled(rig: Rig) -> Counter[str]:
    """Count how deliveries ended."""
    return Counter(event.outcome.value for event in rig.told(Settled))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_redis_that_goes_away_stops_the_work_and_its_return_resumes_it(
    broker, own_redis, fault, record_property
):
    effects: Counter[str | None] = Counter()

    class Counts(Consumer[Note], queue="work"):
        async def handle(self, payload: Note, context: Context) -> None:
            await asyncio.sleep(0)
            effects[context.message_id] += 1

    began, store = time.monotonic(), open_store(own_redis.url)
    async with applied(broker, FILE) as rig, loaded(rig, 1) as ids:
        async with rig.working(Counts(), store=store, overrides={"prefetch": SLOTS}) as worker:
            await suffer(rig, worker, own_redis, FAULTS[fault], effects.total)
            await until(lambda: settled(rig)["handled"] >= TOTAL, "all are handled", within=120)
        assert await rig.ledger() == {}
        print(settled(rig), len(rig.told(StoreDown)), round(time.monotonic() - began, 1))
        record_property("store down", len(rig.told(StoreDown)))
    await store.close()
    assert effects == Counter(ids)
    assert settled(rig) == {"handled": TOTAL}
    assert rig.told(ClaimLost) == []
    assert Place(own_redis.url, "amqpkit:").claims() == Counter(done=TOTAL)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_postgresql_that_goes_away_stops_the_work_and_each_effect_happens_once(
    broker, own_postgres, monkeypatch, fault, record_property
):
    """Two copies of each message; a transaction of unknown fate is one that the copy finds done, or not."""
    monkeypatch.setattr(worker_module, "LEASE_SLACK", 1.0)
    place = Place(own_postgres.url)
    await place.prepare()
    with place.begin() as connection:
        # the tests' servers need not keep what they have said to be committed; this one must
        connection.exec_driver_sql("ALTER DATABASE postgres SET synchronous_commit = on")
    engine = place.async_engine()

    class Bills(Consumer[Note], queue="work"):
        async def handle(self, payload: Note, context: Context) -> None:
            async with context.transaction(engine) as connection:
                await connection.execute(entry(context.message_id, 0))

    began, store = time.monotonic(), place.open()
    async with applied(broker, FILE) as rig, loaded(rig, 2) as ids:

        def ends() -> int:
            found = settled(rig)
            return found["handled"] + found["duplicate"]

        async with rig.working(Bills(), store=store, overrides={"prefetch": SLOTS}) as worker:
            await suffer(rig, worker, own_postgres, FAULTS[fault], ends)
            await until(lambda: ends() >= 2 * TOTAL, "all are handled", within=120)
        assert await rig.ledger() == {}
        print(settled(rig), len(rig.told(StoreDown)), round(time.monotonic() - began, 1))
        record_property("store down", len(rig.told(StoreDown)))
    await store.close()
    await engine.dispose()
    assert place.effects() == Counter(ids)
    assert place.claims() == Counter(done=TOTAL)
    assert ends() == 2 * TOTAL
    assert settled(rig)["dead"] == 0
