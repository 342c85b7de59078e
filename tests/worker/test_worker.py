"""The worker on the in-memory broker: timeouts, threads, holds and drains, in virtual time."""

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from amqpkit import ConsumerError, Context
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.errors import QueueMissing
from amqpkit.events import CopyHeld, DuplicateWindow
from amqpkit.model import Binding
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import FILE, Does, DoesInThread, Task, outcomes, topology


async def test_a_handler_over_its_timeout_has_failed_and_is_tried_again() -> None:
    sim: Simulator
    consumer = Does(lambda _task, context: sim.clock.sleep(3600) if context.attempt == 1 else None)
    async with Simulator(topology(), [consumer]) as sim:
        await sim.publish(Task())
        await sim.advance("29s")
        assert outcomes(sim.events) == []
        await sim.advance("1s")
        assert outcomes(sim.events) == [("retried", "10s", "HandlerTimeout: the handler took longer than 30 s")]
        await sim.advance("10s")
        assert outcomes(sim.events)[1:] == [("handled", None, "")]
    assert (consumer.cancelled, sim.ledger()) == (1, {})


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError("mine"), SystemExit(3), TimeoutError("my own"), MemoryError()]
)
async def test_what_a_handler_raises_of_its_own_making_is_a_failure(error: BaseException) -> None:
    def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            raise error

    async with Simulator(topology(), [Does(does)]) as sim:
        await sim.publish(Task())
        await sim.advance("10s")
    assert outcomes(sim.events) == [("retried", "10s", f"{type(error).__name__}: {error}"), ("handled", None, "")]


async def test_a_handler_that_cancels_its_own_task_has_failed_and_the_slot_lives_on() -> None:
    async def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    async with Simulator(topology(FILE.replace("concurrency: 2", "concurrency: 1")), [Does(does)]) as sim:  # type: ignore[arg-type]
        await sim.publish(Task())
        await sim.advance("10s")
        await sim.publish(Task())
    assert [o[0] for o in outcomes(sim.events)] == ["retried", "handled", "retried"]


async def test_a_handler_may_use_task_groups_timeouts_and_queues_of_asyncio() -> None:
    """They look at the current task and its context, which a pool of slots shares among messages."""
    seen: list[object] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        msg = "a child failed"
        raise LookupError(msg)

    async def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        if context.attempt == 2:
            async with asyncio.TaskGroup() as group:
                group.create_task(failing())
                await asyncio.Event().wait()
        queue: asyncio.Queue[int] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.put(7))
            seen.append(await asyncio.wait_for(queue.get(), 5))
        async with asyncio.timeout(5):
            seen.append(await asyncio.to_thread(lambda: 8))

    events: list[Any] = []
    shape = topology(FILE.replace("10s, 1m", "10ms, 20ms"))
    async with real_worker(shape, Does(does), events) as (publisher, _worker, _broker):
        await publisher.publish(Task())
        await until(lambda: len(outcomes(events)) == 3)
    assert outcomes(events) == [
        ("retried", "10ms", "TimeoutError: "),
        ("retried", "20ms", "LookupError: a child failed"),
        ("handled", None, ""),
    ]
    assert seen == [7, 8]


async def test_a_context_variable_of_one_message_is_not_seen_by_the_next() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    seen: list[str] = []

    async def does(task: Task, _context: Context) -> None:
        seen.append(variable.get())
        variable.set(task.name)
        await asyncio.sleep(0)
        seen.append(variable.get())

    async with Simulator(topology(FILE.replace("concurrency: 2", "concurrency: 1")), [Does(does)]) as sim:
        await sim.publish(Task(name="a"))
        await sim.publish(Task(name="b"))
    assert seen == ["none", "a", "none", "b"]


async def test_a_plain_function_runs_in_a_thread_and_may_block() -> None:
    threads: list[str] = []

    def does(_task: Task, _context: Context) -> None:
        threads.append(threading.current_thread().name)
        time.sleep(0.01)

    async with Simulator(topology(), [DoesInThread(does)]) as sim:
        await sim.publish(Task())
    assert outcomes(sim.events) == [("handled", None, "")]
    assert threads != [threading.main_thread().name]


async def test_a_plain_function_that_raises_stop_iteration_has_failed() -> None:
    def does(_task: Task, _context: Context) -> None:
        next(iter(()))

    async with Simulator(topology(), [DoesInThread(does)]) as sim:
        await sim.publish(Task())
    assert outcomes(sim.events) == [("retried", "10s", "RuntimeError: the handler raised StopIteration")]


async def test_an_abandoned_thread_keeps_its_slot_until_it_ends() -> None:
    """In real time: a thread that ignores its timeout must not let a second one run beside it on one slot."""
    gate, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def does(_task: Task, context: Context) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if context.attempt == 1 and context.properties.type == "task":
            gate.wait(10)
        with lock:
            running -= 1

    shape = topology(
        FILE.replace("concurrency: 2, timeout: 30s", "concurrency: 1, timeout: 50ms").replace("10s, 1m", "100ms")
    )
    events: list[Any] = []
    async with real_worker(shape, DoesInThread(does), events) as (publisher, worker, _broker):
        await publisher.publish(Task())
        await until(lambda: len(outcomes(events)) == 1)
        assert outcomes(events)[0][0] == "retried"
        await until(lambda: not worker.ready)
        gate.set()
        await until(lambda: len(outcomes(events)) == 2)
        await until(lambda: worker.ready)
    assert (outcomes(events)[1][0], most) == ("handled", 1)


async def test_a_drain_gives_back_at_once_what_has_not_begun_and_finishes_the_rest() -> None:
    sim: Simulator
    consumer = Does(lambda _task, _context: sim.clock.sleep(20))
    sim = Simulator(topology(), [consumer])
    async with sim:
        ids = [await sim.publish(Task(name=str(n))) for n in range(8)]
        assert sim.worker is not None
        sim.worker.stop()
        await sim.settle()
        assert sim.ledger() == {"task": ids}
        assert sim.broker.depth("task") == 6  # ready again, for another worker
        await sim.advance("20s")
        assert outcomes(sim.events) == [("handled", None, "")] * 2
        assert sim.ledger() == {"task": ids[2:]}


async def test_when_the_grace_period_is_over_begun_messages_go_back_without_using_an_attempt() -> None:
    sim: Simulator
    consumer = Does(lambda _task, _context: sim.clock.sleep(20))
    sim = Simulator(topology(), [consumer], worker={"grace": 5.0})
    async with sim:
        message_id = await sim.publish(Task())
        assert sim.worker is not None
        sim.worker.stop()
        await sim.advance("4s")
        assert consumer.cancelled == 0
        await sim.advance("1s")
    assert consumer.cancelled == 1
    assert outcomes(sim.events) == [("requeued", None, "the worker stops")]
    assert sim.ledger() == {"task": [message_id]}
    assert "amqpkit-attempt" not in sim.broker.messages("task")[0].properties.headers


async def test_a_handler_that_swallows_its_cancellation_cannot_keep_the_worker() -> None:
    async def does(_task: Task, _context: Context) -> None:
        for _ in range(3):
            try:
                await sim.clock.sleep(1000)
            except asyncio.CancelledError:
                continue

    sim = Simulator(topology(FILE.replace(", timeout: 30s", "")), [Does(does)], worker={"grace": 5.0})
    async with sim:
        message_id = await sim.publish(Task())
        assert sim.worker is not None
        sim.worker.stop()
        await sim.advance("11s")
        await sim.stop_worker()
    assert sim.ledger() == {"task": [message_id]}


async def test_a_copy_that_reaches_no_queue_is_held_and_the_handler_is_not_called_again() -> None:
    def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            raise ValueError

    consumer = Does(does)
    async with Simulator(topology(), [consumer]) as sim:
        way = Binding("task.retry", "task.retry.10s", "10s")
        sim.broker.delete(way)
        ids = [await sim.publish(Task(name=str(n))) for n in range(20)]
        await sim.advance("1m")
        assert len(consumer.seen) == 2  # one for each slot: held originals fill the slots, not the handler
        assert sim.worker is not None
        assert not sim.worker.ready
        assert sorted(sim.ledger()["task"]) == sorted(ids)
        sim.broker.declare(way)
        await sim.advance("2m")
        assert sim.worker.ready
    assert len(consumer.seen) == 40
    assert [o[0] for o in outcomes(sim.events)].count("handled") == 20
    assert any(isinstance(e, CopyHeld) for e in sim.events)


async def test_a_connection_lost_while_the_handler_runs_gives_no_copy_and_one_more_delivery() -> None:
    sim: Simulator

    def does(_task: Task, context: Context) -> Any:
        if not context.redelivered:
            sim.broker.drop_connections()
            raise ValueError
        return None

    async with Simulator(topology(), [Does(does)]) as sim:
        await sim.publish(Task())
        await sim.advance("1m")
    assert [o[0] for o in outcomes(sim.events)] == ["requeued", "handled"]
    assert sim.ledger() == {}


async def test_a_connection_lost_before_the_ack_is_told_as_a_window_for_a_duplicate() -> None:
    sim: Simulator

    def does(_task: Task, context: Context) -> None:
        if not context.redelivered:
            sim.broker.drop_connections()

    async with Simulator(topology(), [Does(does)]) as sim:
        await sim.publish(Task())
        await sim.advance("1m")
    assert [o[0] for o in outcomes(sim.events)] == ["handled", "handled"]
    assert [e.window for e in sim.events if isinstance(e, DuplicateWindow)] == [
        "the handler is done, the original could not be acked"
    ]


async def test_a_listener_that_raises_decides_nothing() -> None:
    def listener(_event: object) -> None:
        msg = "a broken listener"
        raise RuntimeError(msg)

    events: list[Any] = []
    async with real_worker(topology(), Does(), events, listener=listener) as (publisher, _worker, broker):
        await publisher.publish(Task())
        await until(lambda: broker.ledger() == {} or not any(broker.ledger().values()))


async def test_a_missing_queue_fails_the_start() -> None:
    clock = SystemClock()
    transport = MemoryTransport(MemoryBroker(clock))
    await transport.open()
    with pytest.raises(QueueMissing, match="amqpkit apply"):
        await Worker(topology(), [Does()], transport, clock=clock).run()
    await transport.close()


def test_consumers_that_do_not_fit_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConsumerError, match="there is no consumer"):
        Worker(topology(), [], object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [(Does, r"^Does is a class: write Does\(\)$"), (print, r"^<built-in function print> is no Consumer")],
)
async def test_what_is_no_consumer_is_refused_before_anything_starts(given: Any, says: str) -> None:
    with pytest.raises(ConsumerError, match=says):
        Worker(topology(), [given], object())  # type: ignore[arg-type]
    with pytest.raises(ConsumerError, match=says):
        async with Simulator(topology(), [given]):
            pass


# --- real time ---------------------------------------------------------------------------------------


async def until(condition: Any, within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)


class real_worker:  # noqa: N801 - used as a function
    """A worker on the in-memory broker in real time."""

    def __init__(self, shape: Any, consumer: Any, events: list[Any], listener: Any = None, store: Any = None) -> None:
        self.store = store
        self.shape, self.consumer, self.events, self.listener = shape, consumer, events, listener

    async def __aenter__(self) -> tuple[Publisher, Worker, MemoryBroker]:
        clock = SystemClock()
        broker = MemoryBroker(clock)
        for objects in (self.shape.exchanges, self.shape.policies, self.shape.queues, self.shape.bindings):
            for declared in objects:
                broker.declare(declared)
        self.transport = MemoryTransport(broker)
        await self.transport.open()
        self.worker = Worker(
            self.shape,
            [self.consumer],
            self.transport,
            clock=clock,
            on_event=self.listener or self.events.append,
            store=self.store,
        )
        self.task = asyncio.create_task(self.worker.run())
        await until(lambda: self.worker.ready)
        return Publisher(self.shape, self.transport), self.worker, broker

    async def __aexit__(self, *_: object) -> None:
        self.worker.stop()
        await self.task
        await self.transport.close()
