"""Producers while their broker is frozen, in an alarm, killed: nothing confirmed is missing, every doubt is named.

All kinds of producers meet each fault at once, on one container, each with a queue of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from amqpkit.deliver.outgoing import Outcome
from amqpkit.deliver.payload import Payload
from amqpkit.errors import BrokerBlocked, PublishTimeout, PublishUncertain
from amqpkit.events import Fate
from amqpkit.model import Topology
from tests.broker.producers.kinds import KINDS, Producer
from tests.broker.producers.rig import applied, balance, contents, until
from tests.containers.brokers import Broker

MANY, BEFORE = 10_000, 400
TIMEOUT = 1.0
RATE = 1500.0
"""Messages a second: so that a fault of a second or two comes in the middle."""


def queue_of(kind: str, fault: str) -> str:
    return f"{kind}.{fault}"


FAULTS = ("frozen", "alarmed", "killed")
FILE = "version: 1\nwork_queues:\n  spare: {}\n" + "".join(
    f"  {queue_of(kind, fault)}: {{max-length: 1000}}\n" for kind in sorted(KINDS) for fault in FAULTS
)


def payload_of(queue: str) -> type[Payload]:
    class Numbered(Payload, type=queue):
        n: int

    return Numbered


class Run:
    """One producer that publishes its thousands, and what it was told."""

    def __init__(self, producer: Producer, queue: str) -> None:
        self.producer, self.queue = producer, queue
        self.outcomes: list[Outcome] = []
        self.pressures: list[float] = []
        self._payload = payload_of(queue)

    def payloads(self, first: int, last: int) -> Iterator[Payload]:
        for n in range(first, last):
            yield self._payload(n=n)

    async def some(self) -> None:
        self.outcomes += await self.producer.publish_many(self.payloads(0, BEFORE), timeout=20.0)

    async def rest(self) -> None:
        found: list[Outcome] = []
        await self.producer.publish_many(self.payloads(BEFORE, MANY), progress=found.append)
        self.outcomes += [Outcome(o.index + BEFORE, o.message_id, o.error) for o in found]

    async def balanced(self, broker: Broker) -> Counter[Fate]:
        return balance(self.outcomes, await contents(broker, self.queue), MANY)


async def runs(topology: Topology, broker: Broker, fault: str) -> list[Run]:
    return [
        Run(
            await make(topology, broker.url, heartbeat=2, timeout=TIMEOUT, rate=RATE, overload="fail"),
            queue_of(kind, fault),
        )
        for kind, make in sorted(KINDS.items())
    ]


async def through(
    crew: list[Run],
    broker: Broker,
    begin: Callable[[], None],
    end: Callable[[], None],
    *,
    lasts: Callable[[], Awaitable[object]],
    early: bool,
) -> list[Counter[Fate]]:
    """Publish some, let the fault begin (`early`: before more is sent), go on, end it, and balance the books."""
    await asyncio.gather(*(run.some() for run in crew))
    if early:
        await asyncio.to_thread(begin)
    rest = asyncio.gather(*(run.rest() for run in crew))
    if not early:
        await asyncio.to_thread(begin)
    await lasts()
    for run in crew:
        run.pressures.append(run.producer.pressure)
    await asyncio.to_thread(end)
    await rest
    return await asyncio.gather(*(run.balanced(broker) for run in crew))


async def test_nothing_confirmed_is_missing_and_what_is_uncertain_is_named(own_broker: Broker):  # case 303
    topology = await applied(own_broker, FILE)

    async def a_while() -> None:
        await asyncio.sleep(1.5)

    async def no_time() -> None:
        await asyncio.sleep(0)

    async def others_close() -> None:
        await asyncio.gather(*(closes_in_time(topology, own_broker, kind) for kind in KINDS), a_while())

    crew = await runs(topology, own_broker, "frozen")
    for fates in await through(crew, own_broker, own_broker.pause, own_broker.unpause, lasts=a_while, early=False):
        assert fates[Fate.UNCERTAIN] > 0
        assert fates[Fate.CONFIRMED] >= BEFORE
        assert fates[Fate.NACKED] > 0
    await asyncio.gather(*(run.producer.close() for run in crew))

    crew = await runs(topology, own_broker, "alarmed")
    blocked = await through(
        crew, own_broker, own_broker.block_publishers, own_broker.unblock_publishers, lasts=others_close, early=True
    )
    for fates, run in zip(blocked, crew, strict=True):
        assert fates[Fate.BLOCKED] > 0
        assert fates[Fate.UNCERTAIN] > 0, "what was sent before we heard of the alarm"
        assert fates[Fate.CONFIRMED] >= BEFORE
        assert run.pressures == [1.0]
        assert any(isinstance(o.error, BrokerBlocked) and "low on memory" in str(o.error) for o in run.outcomes)

    assert "held" not in await contents(own_broker, "spare"), "nothing is sent to a broker that does not read"

    killed = [Run(run.producer, run.queue.replace("alarmed", "killed")) for run in crew]
    for fates in await through(killed, own_broker, own_broker.kill, own_broker.start, lasts=no_time, early=False):
        assert fates[Fate.CONFIRMED] >= BEFORE
        assert fates[Fate.TIMED_OUT] > 0
    await asyncio.gather(*(run.producer.close() for run in crew))


async def closes_in_time(topology: Topology, broker: Broker, kind: str) -> None:
    """A producer that the broker blocks does not wait long to be read, and leaves nobody waiting."""
    producer = await KINDS[kind](topology, broker.url)
    payload = payload_of("spare")
    waiting = [asyncio.create_task(producer.publish(payload(n=n))) for n in range(3)]
    await until(lambda: producer.pressure == 1.0)
    with pytest.raises(BrokerBlocked, match="low on memory"):
        await producer.publish(payload(n=3), message_id="held", timeout=0.3)
    begun = time.monotonic()
    await producer.close()
    assert time.monotonic() - begun < 5
    await asyncio.wait(waiting, timeout=5)
    assert {type(task.exception()) for task in waiting} <= {PublishUncertain, PublishTimeout, BrokerBlocked}
