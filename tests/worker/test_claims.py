"""The worker and its store, in virtual time: duplicates, leases, outages, and threads that outlive their timeout."""

import asyncio
import threading
from typing import Any

import pytest

from amqpkit import ConsumerError, Context, DeadLetter
from amqpkit.brokers.clock import SystemClock
from amqpkit.errors import StoreUnavailable
from amqpkit.events import ClaimLost, NoKey, StoreDown
from amqpkit.model import Message, Properties
from amqpkit.ports import Claimed, Hold
from amqpkit.stores.memory import MemoryStore
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import FILE, Does, DoesInThread, Task, outcomes, topology
from tests.worker.test_worker import real_worker, until


def simulator(consumer: Any, *, store: Any = None, text: str = FILE) -> tuple[Simulator, Any]:
    sim = Simulator(topology(text), [consumer])
    kept = store(sim.clock) if store else MemoryStore(sim.clock)
    sim.use_store(kept)
    return sim, kept


class Shaky(MemoryStore):
    """A store that is away while `down`."""

    down = False

    def _ask(self) -> None:
        if self.down:
            raise StoreUnavailable("the store is away")

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        self._ask()
        return await super().claim(key, owner=owner, lease=lease)

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        self._ask()
        return await super().renew(key, owner=owner, lease=lease)

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        self._ask()
        return await super().complete(key, owner=owner, result=result)

    async def release(self, key: str, *, owner: str) -> None:
        self._ask()
        await super().release(key, owner=owner)


async def test_a_duplicate_of_a_finished_message_is_acked_without_calling_the_handler() -> None:
    consumer = Does()
    sim, _ = simulator(consumer)
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        await sim.publish(Task(), message_id="m-1")
        await sim.publish(Task(), message_id="m-2", key="k")
        await sim.publish(Task(), message_id="m-3", key="k")
    assert [o[0] for o in outcomes(sim.events)] == ["handled", "duplicate", "handled", "duplicate"]
    assert (len(consumer.seen), sim.ledger()) == (2, {})


async def test_a_duplicate_of_a_running_message_waits_and_is_then_known() -> None:
    consumer = Does(lambda _task, _context: sim.clock.sleep(20))
    sim, _ = simulator(consumer)
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        await sim.publish(Task(), message_id="m-1")
        assert outcomes(sim.events) == [("snoozed", "1m", "another worker handles it")]
        await sim.advance("2m")
    assert [o[0] for o in outcomes(sim.events)] == ["snoozed", "handled", "duplicate"]
    assert len(consumer.seen) == 1


async def test_messages_without_id_and_key_are_each_handled_and_told_once() -> None:
    consumer = Does()
    sim, _ = simulator(consumer)
    async with sim:
        for _ in range(3):
            await sim.publish_raw(Message(b'{"name": "same"}', Properties()), routing_key="task")
    assert len(consumer.seen) == 3
    assert [e for e in sim.events if isinstance(e, NoKey)] == [NoKey("task")]


async def test_a_lease_is_renewed_for_as_long_as_the_handler_runs() -> None:
    consumer = Does(lambda _task, _context: sim.clock.sleep(600))
    sim, store = simulator(consumer, text=FILE.replace(", timeout: 30s", ""))
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        await sim.advance("590s")
        assert (await store.claim("task:m-1", owner="stranger", lease=1)).hold is Hold.HELD
        await sim.advance("20s")
    assert outcomes(sim.events) == [("handled", None, "")]
    assert not [e for e in sim.events if isinstance(e, ClaimLost)]


async def test_a_retry_and_a_dead_letter_release_their_claim() -> None:
    def does(_task: Task, context: Context) -> object:
        if context.attempt == 1:
            raise ValueError
        return DeadLetter("no use")

    sim, store = simulator(Does(does))
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        await sim.advance("10s")
        assert [o[0] for o in outcomes(sim.events)] == ["retried", "dead"]
        assert (await store.claim("task:m-1", owner="replay", lease=1)).hold is Hold.CLAIMED


async def test_the_claim_of_a_worker_that_died_runs_out_and_its_message_is_handled() -> None:
    consumer = Does()
    sim, store = simulator(consumer)
    async with sim:
        await store.claim("task:m-1", owner="the dead worker", lease=60)
        await sim.publish(Task(), message_id="m-1")
        assert outcomes(sim.events) == [("snoozed", "1m", "another worker handles it")]
        await sim.advance("61s")
    assert [o[0] for o in outcomes(sim.events)] == ["snoozed", "handled"]


async def test_a_store_that_is_away_holds_the_message_and_costs_no_attempt() -> None:
    consumer = Does()
    sim, store = simulator(consumer, store=Shaky)
    async with sim:
        store.down = True
        message_id = await sim.publish(Task())
        await sim.advance("5m")
        assert sim.worker is not None
        assert (sim.worker.ready, consumer.seen, sim.ledger()) == (False, [], {"task": [message_id]})
        tries = len([e for e in sim.events if isinstance(e, StoreDown)])
        assert 10 < tries < 200, "neither given up nor hot"
        store.down = False
        await sim.advance("15s")
        assert sim.worker.ready
    assert outcomes(sim.events) == [("handled", None, "")]


async def test_a_store_that_goes_away_under_the_handler_holds_the_ack_until_the_end_is_remembered() -> None:
    def does(_task: Task, _context: Context) -> None:
        store.down = True

    consumer = Does(does)
    sim, store = simulator(consumer, store=Shaky)
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        await sim.advance("1m")
        assert sim.ledger() == {"task": ["m-1"]}
        store.down = False
        await sim.advance("15s")
        assert outcomes(sim.events) == [("handled", None, "")]
        await sim.publish(Task(), message_id="m-1")
    assert len(consumer.seen) == 1


async def test_a_claim_that_cannot_be_released_does_not_keep_the_original() -> None:
    def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            store.down = True
            raise ValueError

    sim, store = simulator(Does(does), store=Shaky)
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        assert sim.ledger() == {"task.retry.10s": ["m-1"]}
        store.down = False
        await sim.advance("3m")  # the lease of 60 s runs out first
        assert sim.ledger() == {}
    assert [o[0] for o in outcomes(sim.events)][-1] == "handled"


class Broken(MemoryStore):
    """A store with a fault of its own."""

    async def release(self, key: str, *, owner: str) -> None:
        msg = "a fault of the store's"
        raise RuntimeError(msg)


async def test_a_store_that_breaks_at_a_release_makes_no_second_copy() -> None:
    def does(_task: Task, _context: Context) -> None:
        raise ValueError

    sim, _ = simulator(Does(does), store=Broken)
    async with sim:
        await sim.publish(Task(), message_id="m-1")
        assert sim.ledger() == {"task.retry.10s": ["m-1"]}
    assert [o[0] for o in outcomes(sim.events)] == ["retried"]


async def test_a_connection_lost_after_the_handler_is_done_leaves_a_known_duplicate() -> None:
    sim: Simulator

    def does(_task: Task, _context: Context) -> None:
        sim.broker.drop_connections()

    consumer = Does(does)
    sim, _ = simulator(consumer)
    async with sim:
        await sim.publish(Task())
        await sim.advance("1m")
    assert [o[0] for o in outcomes(sim.events)] == ["handled", "duplicate"]
    assert len(consumer.seen) == 1


async def test_a_thread_that_outlives_its_timeout_keeps_its_claim_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In real time, since a thread cannot be stopped: no second copy may run beside it."""
    monkeypatch.setattr("amqpkit.deliver.worker.LEASE_SLACK", 0.3)  # a copy waits for what is left of the lease
    gate, calls = threading.Event(), 0

    def does(_task: Task, context: Context) -> None:
        nonlocal calls
        calls += 1
        if context.attempt == 1:
            gate.wait(20)

    shape = topology(FILE.replace("timeout: 30s", "timeout: 50ms").replace("10s, 1m", "100ms"))
    events: list[Any] = []
    store = MemoryStore(SystemClock())
    async with real_worker(shape, DoesInThread(does), events, store=store) as (publisher, worker, broker):
        await publisher.publish(Task(), message_id="m-1")
        await until(lambda: any(o[0] == "snoozed" for o in outcomes(events)))
        assert calls == 1
        gate.set()
        await until(lambda: outcomes(events)[-1][0] == "handled", within=10)
        await until(lambda: worker.ready)
        assert not any(broker.ledger().values())
    assert calls == 2


async def test_a_transaction_needs_a_store_that_has_them() -> None:
    errors: list[str] = []

    def does(_task: Task, context: Context) -> object:
        try:
            context.transaction(object())
        except ConsumerError as error:
            errors.append(str(error))
        return None

    sim, _ = simulator(Does(does))
    async with sim:
        await sim.publish(Task())
    assert errors == [
        "context.transaction() needs an SQL store: amqpkit run --store postgresql://…, or Worker(store=…)"
    ]


@pytest.mark.parametrize("copies", [2, 5])
async def test_copies_that_arrive_together_are_handled_once(copies: int) -> None:
    async def slowly(_task: Task, _context: Context) -> None:
        await asyncio.sleep(0)

    consumer = Does(slowly)
    sim, _ = simulator(consumer, text=FILE.replace("concurrency: 2", "concurrency: 5"))
    async with sim:
        await asyncio.gather(*(sim.publisher.publish(Task(), message_id="m-1") for _ in range(copies)))
        await sim.advance("10m")
    assert len(consumer.seen) == 1
    assert sim.ledger() == {}
