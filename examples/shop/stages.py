"""Where the tour is played: in memory and in virtual time, or on a RabbitMQ, whose queues of the tour go at the end."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self, TypeVar

from amqpkit import Consumer, Payload, Publisher, Topology, Worker, connect
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.deliver.listening import listeners
from amqpkit.errors import BrokerError
from amqpkit.events import Event
from amqpkit.operate.apply import apply
from amqpkit.operate.metrics.listener import Metrics
from amqpkit.ports import Admin, Clock, IdempotencyStore, Statistics, Transport
from amqpkit.testing.simulator import Simulator

T = TypeVar("T")
Holds = Callable[[], bool | Awaitable[bool]]

PATIENCE = 60.0
"""Seconds, virtual ones in memory, in which what must happen has happened."""
LOOK = 0.1


class Stage(Protocol):
    """A broker with the tour's topology on it."""

    @property
    def topology(self) -> Topology:
        """What is declared."""

    @property
    def transport(self) -> Transport:
        """The way to the broker."""

    @property
    def publisher(self) -> Publisher:
        """What `publish` publishes with."""

    @property
    def statistics(self) -> Statistics:
        """What the broker counts."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    @property
    def events(self) -> list[Event]:
        """All that the kit has told."""

    @property
    def metrics(self) -> Metrics:
        """What was counted so far."""

    async def publish(self, payload: Payload, **options: Any) -> str:
        """Publish, confirmed; raises PublishError."""

    async def finish(self, work: Awaitable[T]) -> T:
        """Let time pass until something is done."""

    async def until(self, holds: Holds) -> bool:
        """Let time pass until something holds, and say whether it does."""

    def working(
        self, *consumers: Consumer[Any], store: IdempotencyStore | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Run a worker, and drain it at the end."""


class InMemory:
    """A stage on a broker in memory."""

    def __init__(self, topology: Topology) -> None:
        """Take the parts of a simulator."""
        self._simulator = Simulator(topology)
        self.topology, self.transport = topology, self._simulator.transport
        self.clock, self.events = self._simulator.clock, self._simulator.events
        self.publisher, self.statistics = self._simulator.publisher, MemoryAdmin(self._simulator.broker)
        self._metrics, self._counted = Metrics(topology), 0

    @property
    def metrics(self) -> Metrics:
        """What was counted so far; it hears now what it has not heard yet."""
        for event in self.events[self._counted :]:
            self._metrics(event)
        self._counted = len(self.events)
        return self._metrics

    async def __aenter__(self) -> Self:
        """Apply the topology."""
        await self._simulator.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop what runs."""
        await self._simulator.__aexit__(*error)

    async def publish(self, payload: Payload, **options: Any) -> str:
        """Publish, confirmed; raises PublishError."""
        return await self._simulator.publish(payload, **options)

    async def finish(self, work: Awaitable[T]) -> T:
        """Let virtual time pass until something is done."""
        task = asyncio.ensure_future(work)
        await self._simulator.clock.until(task)
        return await task

    async def until(self, holds: Holds) -> bool:
        """Let virtual time pass until something holds, and say whether it does."""
        for _ in range(round(PATIENCE / LOOK)):
            await self._simulator.settle()
            if await self.finish(_answer(holds)):
                return True
            await self._simulator.advance(LOOK)
        return False

    @asynccontextmanager
    async def working(self, *consumers: Consumer[Any], store: IdempotencyStore | None = None) -> AsyncIterator[None]:
        """Run a worker, and drain it at the end."""
        if store is not None:
            self._simulator.use_store(store)
        await self._simulator.start_worker(consumers)
        try:
            yield
        finally:
            await self._simulator.stop_worker()


class OnBroker:
    """A stage on a RabbitMQ, in real time."""

    def __init__(self, topology: Topology, transport: Transport, admin: Any) -> None:
        """Use an open transport, and the management API."""
        self.topology, self.transport, self.statistics, self.clock = topology, transport, admin, SystemClock()
        self.events, self.metrics = list[Event](), Metrics(topology)
        self._told = listeners(self.events.append, self.metrics)
        self.publisher = Publisher(topology, transport, on_event=self._told)

    async def publish(self, payload: Payload, **options: Any) -> str:
        """Publish, confirmed; raises PublishError."""
        return await self.publisher.publish(payload, **options)

    async def finish(self, work: Awaitable[T]) -> T:
        """Wait until something is done."""
        async with asyncio.timeout(PATIENCE):
            return await work

    async def until(self, holds: Holds) -> bool:
        """Wait until something holds, and say whether it does."""
        deadline = time.monotonic() + PATIENCE
        while not await _answer(holds):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK)
        return True

    @asynccontextmanager
    async def working(self, *consumers: Consumer[Any], store: IdempotencyStore | None = None) -> AsyncIterator[None]:
        """Run a worker, and drain it at the end."""
        worker = Worker(self.topology, consumers, self.transport, store=store, on_event=self._told, name="tour")
        running = asyncio.create_task(worker.run())
        try:
            await self.until(lambda: worker.ready or running.done())
            yield
        finally:
            worker.stop()
            await running


async def _answer(holds: Holds) -> bool:
    answer = holds()
    return bool(await answer) if inspect.isawaitable(answer) else bool(answer)


@asynccontextmanager
async def on_broker(topology: Topology, url: str, api: str | None = None) -> AsyncIterator[OnBroker]:
    """Make a stage on a broker, and leave nothing there; raises BrokerError when queues of its names exist."""
    place = BrokerURL.parse(url)
    async with ManagementAdmin(api or place.api, vhost=place.vhost) as admin:
        there = {queue.name for queue in (await admin.read()).queues}
        if found := sorted(there & {queue.name for queue in topology.queues}):
            msg = f"queues of the tour's names are there already: {', '.join(found)}"
            raise BrokerError(msg)
        try:
            await apply(topology, admin)
            async with connect(url, name="tour") as transport:
                yield OnBroker(topology, transport, admin)
        finally:
            await asyncio.shield(_remove(topology, admin))


async def _remove(topology: Topology, admin: Admin) -> None:
    """Delete what the topology has made; bindings go with their ends."""
    made: tuple[Any, ...] = (*topology.queues, *topology.exchanges, *topology.policies)
    for each in made:
        await admin.delete(each)
