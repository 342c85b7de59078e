"""One play in two worlds: the shop in memory and the shop on RabbitMQ, observed through the same eyes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from amqpkit import Consumer, Payload, Publisher, Worker
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.events import ConnectionLost, Outcome, Settled
from amqpkit.model import Message, Topology
from amqpkit.operate.apply import apply
from amqpkit.ports import Delivery, IdempotencyStore
from amqpkit.testing.proxy import FaultProxy
from amqpkit.testing.simulator import Simulator
from examples.shop.books import booked
from tests.containers.brokers import Broker
from tests.scenarios.shop import Shop, death, shop_database, topology

# The whole play takes eight seconds of delays; a loaded machine takes its time.
PATIENCE = 60.0
ENDS = {Outcome.HANDLED, Outcome.DEAD, Outcome.DISCARDED, Outcome.DUPLICATE}
TIMES = {"amqpkit-published-at", "amqpkit-first-seen"}


@dataclass
class Seen:
    """What a play looks like from outside: where everything is, what happened to it, what the letters say."""

    ledger: dict[str, list[str]] = field(default_factory=dict)
    steps: dict[tuple[str, str], list[tuple[object, ...]]] = field(default_factory=dict)
    letters: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    most_at_once: int = 0
    booked: list[str] = field(default_factory=list)
    sent: dict[str | None, str] = field(default_factory=dict)

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

    shop: Shop

    async def publish(self, payload: Payload, message_id: str) -> None: ...
    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None: ...

    async def settled(self, deliveries: int) -> None:
        """Wait until so many deliveries have been settled."""

    async def deploy(self, *consumers: Consumer[Any]) -> None:
        """Drain the worker that runs, start one with these consumers."""


Play = Callable[[World], Any]


class InMemory:
    """A world in memory."""

    def __init__(self, simulator: Simulator, shop: Shop) -> None:
        self._simulator, self.shop = simulator, shop

    async def publish(self, payload: Payload, message_id: str) -> None:
        await self._simulator.publish(payload, message_id=message_id)

    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None:
        await self._simulator.publish_raw(message, exchange=exchange, routing_key=routing_key)

    async def settled(self, deliveries: int) -> None:
        for _ in range(int(PATIENCE)):
            if sum(isinstance(event, Settled) for event in self._simulator.events) >= deliveries:
                return
            await self._simulator.advance("1s")
        raise TimeoutError

    async def deploy(self, *consumers: Consumer[Any]) -> None:
        await self._simulator.stop_worker()
        await self._simulator.start_worker(consumers)


class OnBroker:
    """A world on RabbitMQ."""

    def __init__(self, wanted: Topology, transport: AioTransport, shop: Shop, store: IdempotencyStore | None) -> None:
        self._wanted, self._transport, self.shop, self._store = wanted, transport, shop, store
        self._publisher = Publisher(wanted, transport)
        self.seen, self.news = Seen(), asyncio.Event()
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None

    async def publish(self, payload: Payload, message_id: str) -> None:
        await self._publisher.publish(payload, message_id=message_id)

    async def publish_raw(self, message: Message, exchange: str, routing_key: str) -> None:
        await self._transport.publish(exchange, routing_key, message)

    async def settled(self, deliveries: int) -> None:
        await self.until(lambda: sum(map(len, self.seen.steps.values())) >= deliveries)

    async def deploy(self, *consumers: Consumer[Any]) -> None:
        await self.stop()
        self._worker = Worker(
            self._wanted,
            consumers,
            self._transport,
            store=self._store,
            on_event=self.hear,
            name="simulator",
            chance=lambda: 0.0,
        )
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self) -> None:
        """Drain the worker."""
        if self._worker is not None and self._running is not None:
            self._worker.stop()
            await self._running

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for news of the worker until it is so, or the worker has ended."""
        async with asyncio.timeout(PATIENCE):
            while not done() and not (self._running is not None and self._running.done()):
                self.news.clear()
                await self.news.wait()

    def hear(self, event: object) -> None:
        """Take in an event."""
        self.seen.take(event)
        self.news.set()


async def in_memory(play: Play, ends: int, version: str, folder: Path) -> Seen:
    """Play in memory until so many ends have been reached; the books are in this folder."""
    seen = Seen()

    async def sleep(seconds: float) -> None:
        await simulator.clock.sleep(seconds)

    async def cut_off() -> None:
        simulator.broker.drop_connections()

    async with shop_database(folder) as (books, store):
        shop = Shop(sleep=sleep, crash=death(cut_off), books=books)
        simulator = Simulator(topology(short_delays=True), shop.consumers, version=version)
        simulator.use_store(store)
        async with simulator:
            await play(InMemory(simulator, shop))
            await simulator.advance("10s")
            for event in simulator.events:
                seen.take(event)
            assert seen.ends == ends
            seen.ledger = {queue: sorted(ids) for queue, ids in simulator.ledger().items()}
            for queue in seen.ledger:
                for stored in simulator.broker.messages(queue):
                    headers = dict(stored.properties.headers)
                    seen.letters[queue, stored.id] = {"body": stored.body.decode(), **plain(headers)}
        seen.booked = booked(books)
    seen.most_at_once, seen.sent = shop.most_at_once, shop.email.provider.sent
    return seen


async def on_broker(play: Play, ends: int, broker: Broker, folder: Path) -> Seen:
    """Play on RabbitMQ until so many ends have been reached; the books are in this folder."""
    wanted, address = topology(short_delays=True), urlsplit(broker.url)
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(wanted, admin)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(address.hostname or "", address.port or 5672))
        books, store = await stack.enter_async_context(shop_database(folder))
        lost = asyncio.Event()

        def hear(event: object) -> None:
            if isinstance(event, ConnectionLost) and event.purpose == "consume":
                lost.set()

        async def cut_off() -> None:
            proxy.cut()
            await lost.wait()

        transport = await stack.enter_async_context(
            opened(AioTransport(proxy.redirect(broker.url), on_event=hear)),
        )
        shop = Shop(crash=death(cut_off), books=books)
        world = OnBroker(wanted, transport, shop, store)
        seen = world.seen
        await world.deploy(*shop.consumers)
        await play(world)
        await world.until(lambda: seen.ends >= ends)
        await world.stop()
        for queue in wanted.queues:
            for delivery in await look_into(transport, queue.name):
                message_id = delivery.properties.message_id or ""
                seen.ledger.setdefault(queue.name, []).append(message_id)
                headers = dict(delivery.properties.headers)
                seen.letters[queue.name, message_id] = {"body": delivery.body.decode(), **plain(headers)}
        seen.booked = booked(books)
    seen.ledger = {queue: sorted(ids) for queue, ids in sorted(seen.ledger.items())}
    seen.most_at_once, seen.sent = shop.most_at_once, shop.email.provider.sent
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
