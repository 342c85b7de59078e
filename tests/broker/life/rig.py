"""A topology applied in a virtual host of the test's own, workers on it, and waits that end when a condition holds."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from pika.spec import BasicProperties

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.events import Event, Settled
from amqpkit.operate.apply import apply
from tests.broker.life import ledger
from tests.broker.life.ledger import Letter
from tests.broker.life.notes import Note, fail_as_told
from tests.containers.brokers import Broker

E = TypeVar("E")
T = TypeVar("T")

ONE_QUEUE = """
version: 1
exchanges:
  events: {type: topic}
work_queues:
  work:
    accepts: [note]
    bindings: [{source: events, routing_key: "note.#"}]
    retry: {delays: [300ms, 600ms, 900ms]}
messages:
  note: {exchange: events, routing_key: note.made}
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler, with what its context said."""

    message_id: str | None
    attempt: int
    exchange: str
    routing_key: str
    headers: Mapping[str, Any]
    at: float


Act = Callable[[Note, Context], object]


@dataclass(slots=True)
class Calls:
    """What was handled by a consumer."""

    begun: list[Call] = field(default_factory=list)
    handled: list[str | None] = field(default_factory=list)

    def of(self, message_id: str) -> list[Call]:
        """The calls for one message, in order."""
        return [call for call in self.begun if call.message_id == message_id]

    def attempts(self, message_id: str) -> list[int]:
        """The attempts of one message, in order."""
        return [call.attempt for call in self.of(message_id)]


def handling(
    queue: str, act: Act = fail_as_told, *, never: tuple[type[BaseException], ...] = ()
) -> tuple[Consumer[Note], Calls]:
    """Make a consumer of notes that does `act`, and the record of its calls."""
    calls = Calls()

    class Handling(Consumer[Note], queue=queue):
        never_retry = never

        async def handle(self, payload: Note, context: Context) -> object:
            calls.begun.append(call_of(context))
            result = act(payload, context)
            value = await result if inspect.isawaitable(result) else result
            calls.handled.append(context.message_id)
            return value

    return Handling(), calls


def call_of(context: Context) -> Call:
    """Write down what a handler was told."""
    return Call(
        context.message_id,
        context.attempt,
        context.exchange,
        context.routing_key,
        dict(context.headers),
        time.monotonic(),
    )


async def until(holds: Callable[[], object | Awaitable[object]], what: str, *, within: float = 30.0) -> None:
    """Wait until a condition holds; fail, saying what was awaited, when it does not in time."""
    deadline = time.monotonic() + within
    while True:
        answer = holds()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        if time.monotonic() > deadline:
            msg = f"not within {within:g} s: {what}"
            raise AssertionError(msg)
        await asyncio.sleep(0.02)


class Rig:
    """A broker's virtual host with an applied topology; `events` is everything that was told."""

    def __init__(self, broker: Broker, text: str) -> None:
        self.broker = broker
        self.topology = compile_topology(parse([("test.yaml", text)], {}))
        self.events: list[Event] = []
        self.transport = AioTransport(broker.url, name="test")
        self.publisher = Publisher(self.topology, self.transport)

    async def apply(self) -> None:
        """Create what is missing."""
        admin = ManagementAdmin(self.broker.api, vhost=self.broker.vhost)
        try:
            await apply(self.topology, admin)
        finally:
            await admin.close()

    @asynccontextmanager
    async def working(
        self, *consumers: Consumer[Any], url: str | None = None, heartbeat: int = 10, **settings: Any
    ) -> AsyncIterator[Worker]:
        """Run a worker that is ready when this is entered, and drained when it is left."""
        transport = AioTransport(url or self.broker.url, name="life", heartbeat=heartbeat, on_event=self.events.append)
        await transport.open()
        try:
            worker = Worker(
                self.topology, consumers, transport, on_event=self.events.append, **{"name": "life", **settings}
            )
            running = asyncio.create_task(worker.run())
            try:
                await until(lambda: worker.ready or running.done(), "the worker is ready")
                yield worker
            finally:
                worker.stop()
                await running
        finally:
            await transport.close()

    # --- what is sent --------------------------------------------------------------------------

    async def publish(self, **fields: Any) -> str:
        """Publish a note, confirmed; return its id."""
        return await self.publisher.publish(Note(**fields))

    async def send(self, queue: str, *messages: tuple[bytes, BasicProperties | None]) -> None:
        """Publish to a queue as a stranger does."""
        await asyncio.to_thread(ledger.send, self.broker.url, queue, messages)

    # --- what is seen --------------------------------------------------------------------------

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def settled(self) -> list[tuple[str | None, str]]:
        """Message id and outcome of every delivery that ended."""
        return [(event.message_id, event.outcome.value) for event in self.told(Settled)]

    async def ready(self, queue: str) -> int:
        """How many messages wait in a queue, undelivered."""
        return await self.transport.depth(queue)

    async def statistics(self, queue: str) -> dict[str, Any]:
        """What the management API says of a queue: about a second old."""
        path = f"queues/{quote(self.broker.vhost, safe='')}/{quote(queue, safe='')}"
        _, answer = await asyncio.to_thread(self.broker.http, "GET", path)
        return dict(answer)

    async def in_thread(self, read: Callable[..., T], *arguments: Any) -> T:
        """Call something blocking with the broker's URL and further arguments."""
        return await asyncio.to_thread(read, self.broker.url, *arguments)

    async def take(self) -> list[Letter]:
        """Take every message out of every queue."""
        names = [queue.name for queue in self.topology.queues]
        return await asyncio.to_thread(ledger.take, self.broker.url, names)

    async def ledger(self) -> dict[str, Counter[str | None]]:
        """Say where every message is: queue to message ids. Empty queues are left out; nothing is left in any."""
        return by_queue(await self.take())


def by_queue(letters: list[Letter]) -> dict[str, Counter[str | None]]:
    """Count message ids by queue."""
    found: dict[str, Counter[str | None]] = {}
    for letter in letters:
        found.setdefault(letter.queue, Counter())[letter.message_id] += 1
    return found


@asynccontextmanager
async def applied(broker: Broker, text: str = ONE_QUEUE) -> AsyncIterator[Rig]:
    """Apply a topology in the test's virtual host, and be able to publish."""
    rig = Rig(broker, text)
    await rig.apply()
    await rig.transport.open()
    try:
        yield rig
    finally:
        await rig.transport.close()
