"""One play in two worlds: the shop in memory and the shop on RabbitMQ, observed through the same eyes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from amqpkit import Payload, Publisher, Worker
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.events import Outcome, Settled
from amqpkit.model import Message, Topology
from amqpkit.operate.apply import apply
from amqpkit.ports import Delivery
from amqpkit.testing.simulator import Simulator
from tests.containers.brokers import Broker
from tests.scenarios.shop import Shop, topology

# The whole play takes eight seconds of delays; a loaded machine takes its time.
PATIENCE = 60.0
ENDS = {Outcome.HANDLED, Outcome.DEAD, Outcome.DISCARDED}
TIMES = {"amqpkit-published-at", "amqpkit-first-seen"}


@dataclass
class Seen:
    """What a play looks like from outside: where everything is, what happened to it, what the letters say."""

    ledger: dict[str, list[str]] = field(default_factory=dict)
    steps: dict[tuple[str, str], list[tuple[object, ...]]] = field(default_factory=dict)
    letters: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    most_at_once: int = 0

    def take(self, event: object) -> None:
        """Take in an event of the worker."""
        if isinstance(event, Settled):
            step = (event.attempt, event.outcome, event.fate, event.delay, event.reason)
            self.steps.setdefault((event.message_id or "", event.queue), []).append(step)

    @property
    def ends(self) -> int:
        """How many messages have come to their end in a queue."""
        return sum(step[1] in ENDS for steps in self.steps.values() for step in steps)


class World(Protocol):
    """What a play needs."""

    async def publish(self, payload: Payload, message_id: str) -> None: ...
    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None: ...


Play = Callable[[World], Any]


class InMemory:
    """A world in memory."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def publish(self, payload: Payload, message_id: str) -> None:
        await self._simulator.publish(payload, message_id=message_id)

    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None:
        await self._simulator.publish_raw(message, exchange=exchange, routing_key=routing_key)


class OnBroker:
    """A world on RabbitMQ."""

    def __init__(self, wanted: Topology, transport: AioTransport) -> None:
        self._transport, self._publisher = transport, Publisher(wanted, transport)

    async def publish(self, payload: Payload, message_id: str) -> None:
        await self._publisher.publish(payload, message_id=message_id)

    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None:
        await self._transport.publish(exchange, routing_key, message)


async def in_memory(play: Play, ends: int, version: str) -> Seen:
    """Play in memory until so many ends have been reached."""
    seen = Seen()

    async def sleep(seconds: float) -> None:
        await simulator.clock.sleep(seconds)

    shop = Shop(sleep=sleep)
    simulator = Simulator(topology(short_delays=True), shop.consumers, version=version)
    async with simulator:
        await play(InMemory(simulator))
        await simulator.advance("10s")
        for event in simulator.events:
            seen.take(event)
        assert seen.ends == ends
        seen.ledger = {queue: sorted(ids) for queue, ids in simulator.ledger().items()}
        for queue in seen.ledger:
            for stored in simulator.broker.messages(queue):
                headers = dict(stored.properties.headers)
                seen.letters[queue, stored.id] = {"body": stored.body.decode(), **plain(headers)}
    seen.most_at_once = shop.most_at_once
    return seen


async def on_broker(play: Play, ends: int, broker: Broker) -> Seen:
    """Play on RabbitMQ until so many ends have been reached."""
    seen, shop, wanted = Seen(), Shop(), topology(short_delays=True)
    news = asyncio.Event()

    def hear(event: object) -> None:
        seen.take(event)
        news.set()

    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(wanted, admin)
    async with opened(AioTransport(broker.url)) as transport:
        worker = Worker(wanted, shop.consumers, transport, on_event=hear, name="simulator", chance=lambda: 0.0)
        running = asyncio.create_task(worker.run())
        await play(OnBroker(wanted, transport))
        async with asyncio.timeout(PATIENCE):
            while seen.ends < ends and not running.done():
                news.clear()
                await news.wait()
        worker.stop()
        await running
        for queue in wanted.queues:
            for delivery in await look_into(transport, queue.name):
                message_id = delivery.properties.message_id or ""
                seen.ledger.setdefault(queue.name, []).append(message_id)
                headers = dict(delivery.properties.headers)
                seen.letters[queue.name, message_id] = {"body": delivery.body.decode(), **plain(headers)}
    seen.ledger = {queue: sorted(ids) for queue, ids in sorted(seen.ledger.items())}
    seen.most_at_once = shop.most_at_once
    return seen


async def look_into(transport: AioTransport, queue: str) -> list[Delivery]:
    """List what waits in a queue that nobody reads; closing gives it back.

    Over AMQP: the management API shows a null in a header as the text "undefined".
    """
    count, found, enough = await transport.depth(queue), list[Delivery](), asyncio.Event()
    if not count:
        return found

    def take(delivery: Delivery) -> None:
        found.append(delivery)
        if len(found) >= count:
            enough.set()

    subscription = await transport.consume(queue, prefetch=count, deliver=take)
    async with asyncio.timeout(PATIENCE):
        await enough.wait()
    await subscription.close()
    return found


def plain(headers: dict[str, Any]) -> dict[str, Any]:
    """Leave out what must differ: instants, and the traceback's paths. The broker's own `x-` headers are its affair."""
    ours = {name: value for name, value in headers.items() if name.startswith("amqpkit-") and name not in TIMES}
    if error := ours.get("amqpkit-error"):
        ours["amqpkit-error"] = {name: error[name] for name in error if name not in ("at", "traceback")}
    if history := ours.get("amqpkit-history"):
        ours["amqpkit-history"] = [{name: line[name] for name in line if name != "at"} for line in history]
    return json.loads(json.dumps(ours))


@asynccontextmanager
async def opened(transport: AioTransport) -> AsyncIterator[AioTransport]:
    """Open it, close it."""
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()
