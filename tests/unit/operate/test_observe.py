"""What is read of the work queues: exact on the in-memory broker, and never at a message's cost."""

import asyncio
from typing import Any

import pytest

from amqpkit import Context, DeadLetter
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.model import Message, Properties
from amqpkit.operate.look import look
from amqpkit.operate.observe import NOT_BEFORE_4_3, Observer, by_fate, failure_rate, letters_to_read
from amqpkit.ports import QueueFigures
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, Task, topology


async def observer_of(sim: Simulator) -> Observer:
    transport = MemoryTransport(sim.broker)
    await transport.open()
    return Observer(topology(), transport, MemoryAdmin(sim.broker), clock=sim.clock)


async def test_depth_oldest_in_flight_and_waiting_retries_are_told() -> None:
    sim: Simulator

    async def does(task: Task, _context: Context) -> None:
        if task.name == "fails":
            raise LookupError
        await sim.clock.sleep(20)

    async with Simulator(topology(), [Does(does)], worker={"overrides": {"prefetch": 2}}) as sim:
        await sim.publish(Task(name="fails"))
        await sim.publish(Task(name="slow"))
        await sim.publish(Task(name="slow"))
        await sim.publish(Task(name="waits"))
        await sim.advance("5s")
        (reading,) = await (await observer_of(sim)).read()

    assert (reading.depth, reading.in_flight, reading.consumers, reading.waiting) == (1, 2, 1, {"10s": 1, "1m": 0})
    assert (reading.oldest, reading.why_not, reading.missing) == (5.0, "", ())


async def test_dead_letters_are_told_by_fate_with_the_time_since_their_death() -> None:
    def does(task: Task, _context: Context) -> None:
        raise DeadLetter if task.name == "never" else LookupError

    async with Simulator(topology(), [Does(does)]) as sim:
        await sim.publish(Task(name="never"))
        await sim.publish(Task(name="fails"))
        await sim.publish_raw(Message(b"{", Properties(type="task")), routing_key="task")
        await sim.advance("70s")
        await sim.publish_raw(Message(b"?"), exchange="task.dlx")
        await sim.advance("10s")
        watching = await observer_of(sim)
        (reading,) = await watching.read()
        ledger = sim.ledger()
        (again,) = await watching.read()

    assert (reading.dead, reading.letters) == (4, {"exhausted": 1, "invalid": 1, "permanent": 1, "unknown": 1})
    assert reading.oldest_letter == 80.0
    assert (again, sim.ledger()) == (reading, ledger)


@pytest.mark.parametrize("version", ["4.3", "4.0"])
async def test_a_thousand_readings_cost_a_message_nothing(version: str) -> None:
    consumer = Does()
    async with Simulator(topology(), version=version) as sim:
        await sim.publish(Task())
        watching = await observer_of(sim)
        for _ in range(1000):
            (reading,) = await watching.read()
        await sim.start_worker([consumer])
        await sim.settle()
        (context,) = consumer.seen

    assert (reading.oldest, reading.why_not) == ((0.0, "") if version == "4.3" else (None, NOT_BEFORE_4_3))
    assert context.headers.get("x-delivery-count", 0) == 0
    assert context.headers.get("x-acquired-count", 0) == (1 if version == "4.3" else 0)


async def test_the_age_grows_without_a_second_look_and_follows_the_head() -> None:
    async with Simulator(topology()) as sim:
        for _ in range(2):
            await sim.publish(Task())
            await sim.advance("10s")
        watching = await observer_of(sim)
        first = [(await watching.read())[0].oldest]
        await sim.advance("5s")
        first += [(await watching.read())[0].oldest]
        held = await look(sim.transport, "task", most=1, clock=sim.clock)
        sim.broker.purge("task")
        await sim.publish(Task())
        await sim.advance("1s")
        after = (await watching.read())[0].oldest

    assert (first, after, len(held)) == ([20.0, 25.0], 1.0, 1)


async def test_what_is_not_on_the_broker_is_named_and_the_rest_is_read() -> None:
    async with Simulator(topology()) as sim:
        await sim.publish(Task())
        sim.broker.delete_queue("task.dlq")
        (reading,) = await (await observer_of(sim)).read()

    assert (reading.depth, reading.dead, reading.missing) == (1, None, ("task.dlq",))


async def test_a_stranger_s_message_at_the_head_has_no_age_and_says_so() -> None:
    async with Simulator(topology()) as sim:
        await sim.publish_raw(
            Message(b"?", Properties(headers={"amqpkit-published-at": "yesterday"})), routing_key="task"
        )
        (reading,) = await (await observer_of(sim)).read()

    assert (reading.oldest, reading.why_not) == (None, "the next message does not say when it was published")


async def test_looking_keeps_the_order() -> None:
    async with Simulator(topology()) as sim:
        ids = [await sim.publish(Task()) for _ in range(50)]
        sights = await look(sim.transport, "task", most=40, clock=sim.clock)
        await sim.settle()

        assert (len(sights), sim.ledger()["task"]) == (40, ids)


async def test_looking_for_more_than_there_is_gives_up_after_its_patience() -> None:
    async with Simulator(topology()) as sim:
        await sim.publish(Task())
        looking = asyncio.create_task(look(sim.transport, "task", most=5, clock=sim.clock))
        await sim.advance("1s")
        assert not looking.done()
        await sim.advance("1s")

        assert len(await looking) == 1


@pytest.mark.parametrize(
    ("work", "copies", "rate"),
    [
        (QueueFigures(ack_rate=10.0), [QueueFigures(publish_rate=2.0), QueueFigures(publish_rate=0.5), None], 0.25),
        (QueueFigures(ack_rate=1.0), [QueueFigures(publish_rate=2.0)], 1.0),
        (QueueFigures(ack_rate=0.0), [], None),
        (QueueFigures(), [QueueFigures(publish_rate=2.0)], None),
        (None, [], None),
    ],
)
def test_the_failure_rate_is_the_part_that_became_copies(work, copies, rate) -> None:
    assert failure_rate(work, copies) == rate


def test_letters_that_were_not_read_are_counted_as_such() -> None:
    assert by_fate([], 3) == {"unread": 3}


async def test_large_letters_are_read_up_to_a_bound_and_not_again_and_again(monkeypatch) -> None:
    monkeypatch.setattr("amqpkit.operate.observe.LETTERS_BYTES", 400_000)
    at_once: list[int] = []
    async with Simulator(topology()) as sim:
        for _ in range(100):
            await sim.publish_raw(Message(b"x" * 10_000), exchange="task.dlx")
        watching = await observer_of(sim)
        transport = watching._transport
        consume = transport.consume

        async def counts(queue: str, **how: Any) -> Any:
            at_once.append(how["prefetch"])
            return await consume(queue, **how)

        monkeypatch.setattr(transport, "consume", counts)
        (reading,), (again,) = await watching.read(), await watching.read()
        await sim.settle()
        assert len(sim.ledger()["task.dlq"]) == 100

    assert reading.dead == 100
    assert reading.letters == again.letters == {"unknown": 40, "unread": 60}
    assert sum(at_once) == 40


@pytest.mark.parametrize(
    ("known", "letters"),
    [
        (None, 500),
        (QueueFigures(ready=10), 500),
        (QueueFigures(ready=0, ready_bytes=0), 20),
        (QueueFigures(ready=100, ready_bytes=0), 500),
        (QueueFigures(ready=1000, ready_bytes=1000 * 1024 * 1024), 16),
        (QueueFigures(ready=2, ready_bytes=2 * 100 * 1024 * 1024), 1),
    ],
)
def test_so_many_letters_are_read_as_a_worker_has_room_for(known, letters) -> None:
    assert letters_to_read(known) == letters
