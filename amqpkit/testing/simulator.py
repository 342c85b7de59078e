"""Your consumers on an in-memory broker in virtual time: a week of retries in a millisecond."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Self

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import HoldingExecutor, VirtualClock
from amqpkit.brokers.memory.holding import HoldingSteps, HoldingStore
from amqpkit.brokers.memory.ledger import Movement
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.listener import JobListener
from amqpkit.deliver.listening import listeners
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.events import Event
from amqpkit.model import Message, Topology
from amqpkit.operate.apply import apply
from amqpkit.ports import IdempotencyStore, Steps
from amqpkit.stores.memory import MemoryStore
from amqpkit.stores.memory_jobs import MemoryJobLog
from amqpkit.stores.memory_steps import MemorySteps


class Simulator:
    """A broker, an applied topology and a running worker, all in memory; an async context manager.

    `version` is the RabbitMQ to be like (`4.3` or `4.0`), `events` everything the kit has told, in order.
    `jobs` and `steps` know of payloads with `track=True`, and of what `context.step()` has finished.
    Handlers that wait must wait with `clock.sleep`, or real time passes.
    """

    def __init__(  # noqa: PLR0913 - keyword-only settings, each with its default
        self,
        topology: Topology,
        consumers: Iterable[Consumer[Any]] = (),
        *,
        version: str = "4.3",
        chance: Callable[[], float] = lambda: 0.0,
        worker: Mapping[str, Any] | None = None,
        observe: Callable[[Movement], None] | None = None,
    ) -> None:
        """Keep the parts; `chance` draws among jittered delays, `worker` are further arguments of the Worker.

        `observe` hears every movement of every message as it happens.
        """
        self.topology, self.clock, self.events = topology, VirtualClock(), list[Event]()
        self.broker = MemoryBroker(self.clock, version=version, observe=observe)
        self.transport = MemoryTransport(self.broker, on_event=self.events.append)
        self.jobs = MemoryJobLog(self.clock)
        self.steps: Steps = MemorySteps()
        self._listener = JobListener(self.jobs, clock=self.clock)
        self.publisher = Publisher(
            topology, self.transport, clock=self.clock, on_event=listeners(self.events.append, self._listener)
        )
        self._consumers = tuple(consumers)
        self._settings: dict[str, Any] = {
            "name": "simulator",
            "chance": chance,
            "jobs": self.jobs,
            "steps": self.steps,
            **(worker or {}),
        }
        self.worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Apply the topology and start the worker."""
        await apply(self.topology, MemoryAdmin(self.broker))
        await self.transport.open()
        if self._consumers:
            await self.start_worker()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the worker and end the transport; raises what the worker raised."""
        try:
            await self.stop_worker()
            await self._listener.close()
        finally:
            await self.transport.close()

    def use_store(self, store: IdempotencyStore) -> None:
        """Let the next worker that is started remember what it has handled; no time passes while the store works."""
        self._settings["store"] = store if isinstance(store, MemoryStore) else HoldingStore(store, self.clock)

    def use_steps(self, steps: Steps) -> None:
        """Let the next worker that is started keep what `context.step()` has finished here, as in a database."""
        self.steps = self._settings["steps"] = (
            steps if isinstance(steps, MemorySteps) else HoldingSteps(steps, self.clock)
        )

    async def start_worker(self, consumers: Iterable[Consumer[Any]] | None = None) -> None:
        """Start a worker, with other consumers if given, as a deploy would; raises what keeps it from starting."""
        if consumers is not None:
            self._consumers = tuple(consumers)
        self.worker = Worker(
            self.topology,
            self._consumers,
            self.transport,
            clock=self.clock,
            on_event=self.events.append,
            threads=lambda concurrency: HoldingExecutor(self.clock, concurrency),
            **self._settings,
        )
        self._running = asyncio.create_task(self.worker.run())
        await self.settle()
        if self._running.done():
            self._running.result()

    async def stop_worker(self) -> None:
        """Drain the worker, as a SIGTERM would; messages that have not begun go back."""
        if self.worker is None or self._running is None:
            return
        self.worker.stop()
        await self.settle()
        if not self._running.done():
            self.worker.halt()
        await self._running
        self.worker = self._running = None

    async def publish(self, payload: Payload, **options: Any) -> str:
        """Publish, let everything happen that can happen now, and return the message id.

        Time passes while the publisher waits, as for a full queue or an alarm: until its deadline at most.
        """
        published = asyncio.ensure_future(self.publisher.publish(payload, **options))
        await self.clock.until(published)
        message_id = await published
        await self.settle()
        return message_id

    async def publish_raw(self, message: Message, *, exchange: str = "", routing_key: str = "") -> None:
        """Publish bytes as a stranger would, and let everything happen that can happen now."""
        await self.transport.publish(exchange, routing_key, message)
        await self.settle()

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        await self.clock.settle()

    async def advance(self, duration: str | timedelta | float) -> None:
        """Let time pass (`"10m"`, a timedelta or seconds), instant by instant."""
        await self.clock.advance(duration)

    def ledger(self) -> dict[str, list[str]]:
        """Say where every message is: queue to message ids; empty queues are left out."""
        return {queue: ids for queue, ids in self.broker.ledger().items() if ids}

    def journey(self, message_id: str) -> list[str]:
        """Say where a message has been, in order."""
        return self.broker.journey(message_id)
