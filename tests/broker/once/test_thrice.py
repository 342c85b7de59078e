"""Five thousand messages, each delivered three times, while workers die and leases run out."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from amqpkit.deliver import worker as worker_module
from amqpkit.stores import MemoryStore
from amqpkit.testing.proxy import FaultProxy
from tests.broker.life.notes import Note
from tests.broker.life.rig import Rig, applied, until
from tests.broker.once.crew import DELAYS, FILE, SQL, STORES, Crew, Mates, Processes, doubled, in_flight, settings_for
from tests.broker.once.place import Place

TOTAL = 5000
COPIES = 3
NEIGHBOURS = 100
"""So many messages have their copies mixed: some meet while one of them is being handled."""
PREFETCH = 10
LEASE = 0.6
PATIENCE = 150.0
"""Seconds for a step, on a machine that has other things to do; alone, a test takes less than a minute."""

pytestmark = pytest.mark.timeout(400)


async def publish_thrice(rig: Rig, ids: list[str]) -> None:
    """Publish each id three times, mixed with those of its neighbours."""
    for start in range(0, len(ids), NEIGHBOURS):
        batch = ids[start : start + NEIGHBOURS] * COPIES
        random.shuffle(batch)
        await asyncio.gather(*(publish(rig, message_id) for message_id in batch))


async def publish(rig: Rig, message_id: str) -> None:
    note = Note(seconds=random.choice((0.0, 0.0, 0.004)))
    await rig.publisher.publish(note, message_id=message_id, timeout=60)


async def torment(crew: Crew, settled: Callable[[], int], total: int) -> None:
    """Keep workers from their work beyond their leases, and lose them, both kinds in turn, as the work goes on."""
    for number, share in enumerate((0.1, 0.3, 0.5, 0.7)):
        goal = share * total
        await until(lambda goal=goal: settled() >= goal, f"{goal:g} deliveries are settled", within=PATIENCE)
        await crew.disturb(threads=not number % 2)
        await crew.lose(threads=bool(number % 2))


def ends_of(crew: Crew) -> Counter[str | None]:
    """Count how often each message has come to an end."""
    return crew.effects.count("handled") + crew.effects.count("duplicate")


async def deliver_all(rig: Rig, crew: Crew, ids: list[str]) -> dict[str, Counter[Any]]:
    """Take every copy of every message to its end through all faults; return what the workers wrote down."""
    effects, total = crew.effects, len(ids) * COPIES

    def settled() -> int:
        return len(effects.read("handled")) + len(effects.read("duplicate"))

    publishing = asyncio.create_task(publish_thrice(rig, ids))
    await crew.hire(threads=False)
    await crew.hire(threads=True)
    await torment(crew, settled, total)
    await publishing
    await until(lambda: settled() >= total, "all copies are settled", within=PATIENCE)
    await until(lambda: min(ends_of(crew).values()) >= COPIES, "every copy has come to its end", within=PATIENCE)
    await crew.retire()
    # an end that was told and whose ack was lost with its worker comes once more
    while await rig.ready("work") or any([await rig.ready(f"work.retry.{delay}") for delay in DELAYS]):
        await crew.hire(threads=False)
        await crew.retire()
    assert await rig.ledger() == {}
    kinds = ("begun", "effect", "handled", "duplicate", "snoozed", "retried", "dead", "lost", "window", "down")
    return {kind: effects.count(kind) for kind in kinds}


def assert_accounted(told: dict[str, Counter[Any]], ids: list[str], crew: Crew, *, faults: int) -> None:
    """Every copy was acked as handled or as a duplicate; more only for acks that were lost with their channel."""
    ends = ends_of(crew)
    assert set(ends) == set(ids)
    assert all(times >= COPIES for times in ends.values())
    assert ends.total() - len(ids) * COPIES <= faults * PREFETCH
    assert told["dead"] == Counter()


def assert_doubled_only_in_the_window(told: dict[str, Counter[Any]], ids: list[str], crew: Crew) -> None:
    """A lost worker cannot tell what it had in flight; whoever was overtaken has told."""
    assert set(told["effect"]) == set(ids)
    assert doubled(told["effect"]) <= in_flight(crew.effects, crew.lost) | set(told["lost"])


def report(record_property: Callable[[str, object], None], told: dict[str, Counter[Any]], began: float) -> None:
    """Leave the numbers with the test's result."""
    numbers = {kind: found.total() for kind, found in told.items()}
    numbers["doubled"] = len(doubled(told["effect"]))
    for kind, number in [*numbers.items(), ("seconds", round(time.monotonic() - began, 1))]:
        print(kind, number, end="; ")
        record_property(kind, number)


def ids_of(total: int) -> list[str]:
    return [f"m-{number}" for number in range(total)]


@pytest.mark.parametrize("place", SQL, indirect=True)
async def test_each_effect_in_a_transaction_happens_exactly_once(broker, nest, place, tmp_path, record_property):
    began, ids = time.monotonic(), ids_of(TOTAL)
    async with applied(broker, FILE) as rig, AsyncExitStack() as stack:
        settings = settings_for(rig, tmp_path, place, transact=True, lease=LEASE, prefetch=PREFETCH)
        crew = Processes(settings, nest, stack)
        told = await deliver_all(rig, crew, ids)

        report(record_property, told, began)
        assert place.effects() == Counter(ids)
        assert place.claims() == Counter(done=TOTAL)
        assert_accounted(told, ids, crew, faults=len(crew.lost))


@pytest.mark.parametrize("place", STORES, indirect=True)
async def test_without_a_transaction_an_effect_is_doubled_only_where_a_fault_fell_before_its_end(
    broker, nest, place, tmp_path, record_property
):
    # the same claims in SQL as above: fewer messages show it
    began, ids = time.monotonic(), ids_of(1500 if place.is_sql else TOTAL)
    async with applied(broker, FILE) as rig, AsyncExitStack() as stack:
        crew = Processes(settings_for(rig, tmp_path, place, lease=LEASE, prefetch=PREFETCH), nest, stack)
        told = await deliver_all(rig, crew, ids)

        report(record_property, told, began)
        assert_doubled_only_in_the_window(told, ids, crew)
        assert place.claims() == Counter(done=len(ids))
        assert_accounted(told, ids, crew, faults=len(crew.lost))


async def test_workers_that_share_a_memory_double_an_effect_only_where_one_was_cancelled_before_its_end(
    broker, tmp_path, record_property, monkeypatch
):
    """In one process, as what a `MemoryStore` knows ends with it: workers are cancelled, connections are cut."""
    monkeypatch.setattr(worker_module, "LEASE_SLACK", LEASE / 2)
    began, ids, store = time.monotonic(), ids_of(TOTAL), MemoryStore()
    parts = urlsplit(broker.url)
    async with applied(broker, FILE) as rig, FaultProxy(str(parts.hostname), int(parts.port or 0)) as proxy:
        crew = Mates(settings_for(rig, tmp_path, Place("memory:"), prefetch=PREFETCH), rig, store, proxy)
        told = await deliver_all(rig, crew, ids)

        report(record_property, told, began)
        assert_doubled_only_in_the_window(told, ids, crew)
        assert Counter(claim.done for claim in store._claims.values()) == Counter({True: TOTAL})
        # a cut takes the channels of both workers
        assert_accounted(told, ids, crew, faults=3 * len(crew.lost))
