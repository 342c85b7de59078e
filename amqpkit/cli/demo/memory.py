"""The demo's stage in memory: a broker like RabbitMQ, a worker, and time that passes only when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import START, HoldingExecutor, VirtualClock
from amqpkit.brokers.memory.holding import HoldingStore
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.cli.demo.shop import Shop, crews
from amqpkit.cli.demo.story import Line, Story
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.operate.apply import apply
from amqpkit.ports import IdempotencyStore
from amqpkit.stores import open_store

if TYPE_CHECKING:
    from amqpkit.ports import Transport

_STEP: Final = 0.5
_LIMIT: Final = 300.0


class WorkerDied(Exception):
    """Ends a handler whose connection is cut: nothing it says from here on reaches the broker."""


class MemoryStage:
    """A stage whose worker dies by losing its connections, which is all that a broker sees of a death."""

    def __init__(self, shop: Shop, tell: Callable[[Line], None]) -> None:
        self._shop, self.topology, self.clock = shop, shop.topology(), VirtualClock()
        self.broker = MemoryBroker(self.clock)
        self.transport: Transport = MemoryTransport(self.broker)
        self.publisher = Publisher(self.topology, self.transport, clock=self.clock)
        self.story = Story(self.topology, shop.readers, self._seconds, tell)
        self._books = cast("Any", None)
        self._loop = cast("asyncio.AbstractEventLoop", None)

    @property
    def booked(self) -> list[str]:
        """The invoices in the books."""
        booked: list[str] = self._shop.books.booked(self._books)
        return booked

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
        self._loop = asyncio.get_running_loop()
        await apply(self.topology, MemoryAdmin(self.broker))
        await self.transport.open()
        with self._shop.new_books() as (database, self._books):
            store = open_store(database)
            await store.prepare()
            workers = self._workers(HoldingStore(store, self.clock))
            running = asyncio.gather(*(worker.run() for worker in workers))
            try:
                await self.clock.settle()
                yield
            finally:
                for worker in workers:
                    worker.stop()
                await running
                await self.transport.close()
                await store.close()

    def _workers(self, store: IdempotencyStore) -> list[Worker]:
        consumers = self._shop.consumers.shop(self._books, sleep=self.clock.sleep, crash=self._crash)
        return [
            Worker(
                self.topology,
                crew,
                self.transport,
                store=its_store,
                clock=self.clock,
                on_event=self.story.happened,
                threads=lambda concurrency: HoldingExecutor(self.clock, concurrency),
                chance=lambda: 0.0,
                name="demo",
            )
            for crew, its_store in crews(consumers, store)
        ]

    def _crash(self) -> NoReturn:
        """Die in the middle of a handler, which may run in a thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run_coroutine_threadsafe(self._cut_off(), self._loop).result()
        else:
            self._now_cut_off()
        raise WorkerDied

    async def _cut_off(self) -> None:
        self._now_cut_off()

    def _now_cut_off(self) -> None:
        self.story.died()
        self.broker.drop_connections("the worker has died")

    def _seconds(self) -> float:
        return (self.clock.now() - START).total_seconds()
