"""The demo's stage in memory: a broker like RabbitMQ, a worker, and time that passes only when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import START, HoldingExecutor, VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.cli.demo.shop import Shop
from amqpkit.cli.demo.story import Line, Story, names_of
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.operate.apply import apply

if TYPE_CHECKING:
    from amqpkit.ports import Transport

_STEP: Final = 0.5
_LIMIT: Final = 300.0


class WorkerDied(Exception):
    """Ends a handler whose connection is cut: nothing it says from here on reaches the broker."""


class MemoryStage:
    """A stage whose worker dies by losing its connections, which is all that a broker sees of a death."""

    def __init__(self, shop: Shop, tell: Callable[[Line], None]) -> None:
        self.topology, self.clock = shop.topology(), VirtualClock()
        self.broker = MemoryBroker(self.clock)
        self.transport: Transport = MemoryTransport(self.broker)
        self.publisher = Publisher(self.topology, self.transport, clock=self.clock)
        consumers = self._consumers(shop)
        self.story = Story(self.topology, names_of(consumers), self._seconds, tell)
        self._worker = Worker(
            self.topology,
            consumers,
            self.transport,
            clock=self.clock,
            on_event=self.story.happened,
            threads=lambda concurrency: HoldingExecutor(self.clock, concurrency),
            chance=lambda: 0.0,
            name="demo",
        )

    def message_id(self, name: str) -> str:
        """Nobody else is here: the name will do."""
        return name

    async def until(self, done: Callable[[], bool]) -> bool:
        """Let virtual time pass, half a second at a time."""
        await self.clock.settle()
        for _ in range(int(_LIMIT / _STEP)):
            if done():
                return True
            await self.clock.advance(_STEP)
        return done()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Apply the topology and run the worker."""
        await apply(self.topology, MemoryAdmin(self.broker))
        await self.transport.open()
        running = asyncio.create_task(self._worker.run())
        try:
            await self.clock.settle()
            yield
        finally:
            self._worker.stop()
            await running
            await self.transport.close()

    def _consumers(self, shop: Shop) -> tuple[Consumer[Any], ...]:
        shelf = shop.consumers
        return (
            shelf.SendEmail(),
            shelf.ResizeImage(sleep=self.clock.sleep, crash=self._crash),
            shelf.ChargeCard(),
            shelf.EnrichLead(),
            shelf.ReportLead(),
        )

    def _crash(self) -> NoReturn:
        self.story.died()
        self.broker.drop_connections("the worker has died")
        raise WorkerDied

    def _seconds(self) -> float:
        return (self.clock.now() - START).total_seconds()
