"""The shop's page in the open: served on a port of its own, with a worker whose pace the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import sqlalchemy as sa
import uvicorn

from amqpkit import Topology, Worker, connect
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.operate.apply import apply
from amqpkit.ports import Transport
from amqpkit.stores import open_jobs, open_steps
from examples.shop.catalogue import open_catalogue
from examples.shop.imports import ImportCatalogue
from examples.shop.page import site
from tests.broker.life.rig import until
from tests.containers.brokers import Broker

Connected = Callable[[], AbstractAsyncContextManager[Transport]]


@dataclass
class Pictures:
    """Lets the worker go on, chunk by chunk; one of them may fail."""

    allowed: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    failing: bool = False

    async def fetched(self, _seconds: float) -> None:
        await self.allowed.acquire()
        if self.failing:
            self.failing = False
            raise ConnectionError("no pictures: <b>secret</b> of the server")

    def let(self, chunks: int) -> None:
        for _ in range(chunks):
            self.allowed.release()


@dataclass
class Site:
    """Where it is, and what lies behind it."""

    url: str
    database: str
    catalogue: sa.Engine
    topology: Topology
    connected: Connected
    pictures: Pictures = field(default_factory=Pictures)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the worker of imports, as another process would."""
        jobs, steps = open_jobs(self.database), open_steps(self.database)
        await jobs.prepare()
        async with self.connected() as transport:
            consumer = ImportCatalogue(self.catalogue, self.pictures.fetched)
            worker = Worker(self.topology, [consumer], transport, jobs=jobs, steps=steps, grace=0.1)
            running = asyncio.create_task(worker.run())
            try:
                await until(lambda: worker.ready or running.done(), "the worker is ready")
                yield
            finally:
                worker.stop()
                await running
                await jobs.close()
                await steps.close()


@asynccontextmanager
async def serving(folder: Path, topology: Topology, connected: Connected) -> AsyncIterator[Site]:
    """Serve the page with uvicorn."""
    database = f"sqlite:///{folder}/shop.db"
    catalogue = open_catalogue(database)
    app = site(topology, connected, catalogue, open_jobs(database))
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    served = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or served.done(), "the page is served")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Site(f"http://127.0.0.1:{port}", database, catalogue, topology, connected)
    finally:
        server.should_exit = True
        await served
        catalogue.dispose()


@asynccontextmanager
async def in_memory(folder: Path, topology: Topology) -> AsyncIterator[Site]:
    """Serve it on a broker in memory, in real time."""
    broker = MemoryBroker(SystemClock())
    await apply(topology, MemoryAdmin(broker))

    @asynccontextmanager
    async def connected() -> AsyncIterator[Transport]:
        transport = MemoryTransport(broker)
        await transport.open()
        try:
            yield transport
        finally:
            await transport.close()

    async with serving(folder, topology, connected) as it:
        yield it


@asynccontextmanager
async def on_broker(folder: Path, topology: Topology, broker: Broker) -> AsyncIterator[Site]:
    """Serve it on RabbitMQ."""
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(topology, admin)
    async with serving(folder, topology, partial(connect, broker.url)) as it:
        yield it
