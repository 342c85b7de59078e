"""A worker with a store in a process of its own, to be killed: `python -m tests.broker.once.victim`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.deliver import worker as worker_module
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.worker import Worker
from amqpkit.events import Begun, ClaimLost, Consuming, DuplicateWindow, Event, Settled, StoreDown
from amqpkit.model import Message, Topology
from amqpkit.ports import BrokerInfo, Delivery, Subscription
from tests.broker.life import victim as life
from tests.broker.life.notes import Note
from tests.broker.life.victim import Effects, FatalDelivery, die
from tests.broker.once.place import Place, entry, load


class Point(StrEnum):
    """Where around the effect the worker is killed."""

    EFFECT = "after the effect, before its end"
    COMMITTED = "after the commit"
    COMPLETED = "after the claim is completed, before the ack"
    ACKED = "after the ack"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker process is told; `lease` in seconds, `transact` says that the effect completes the claim."""

    url: str
    topology: str
    effects: str
    store: str
    prefix: str = ""
    lease: float = 1.0
    transact: bool = False
    threads: bool = False
    prefetch: int = 10
    kill_at: str | None = None

    @property
    def place(self) -> Place:
        """Where its claims are."""
        return Place(self.store, self.prefix)


class FatalTransport:
    """A transport that kills its process around its first ack."""

    def __init__(self, inner: AioTransport, point: Point) -> None:
        self._inner, self._point = inner, point

    @property
    def broker(self) -> BrokerInfo:
        return self._inner.broker

    async def open(self) -> None:
        await self._inner.open()

    def publish(self, exchange: str, routing_key: str, message: Message, **more: Any) -> asyncio.Future[None]:
        return self._inner.publish(exchange, routing_key, message, **more)

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> Subscription:
        kind = FatalDelivery if self._point is Point.ACKED else DeliveryNeverAcked
        return await self._inner.consume(queue, prefetch=prefetch, deliver=lambda delivery: deliver(kind(delivery)))

    async def depth(self, queue: str) -> int:
        return await self._inner.depth(queue)

    async def close(self) -> None:
        await self._inner.close()


class DeliveryNeverAcked:
    """A delivery whose worker dies instead of acking it."""

    def __init__(self, inner: Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        die()


def consumer_of(settings: Settings, effects: Effects) -> Consumer[Note]:
    """Make a consumer whose effect is a row beside its claim, or without a transaction a line in a file."""

    def reached(point: Point) -> None:
        if settings.kill_at == point.value:
            die()

    def begin(note: Note) -> None:
        if note.deadly:
            die()

    def write(context: Context) -> None:
        effects.add("effect", context.message_id, context.attempt)

    class Awaits(Consumer[Note], queue="work"):
        engine = settings.place.async_engine() if settings.transact else None

        async def handle(self, payload: Note, context: Context) -> None:
            begin(payload)
            await asyncio.sleep(payload.seconds)
            if settings.transact:
                async with context.transaction(self.engine) as connection:
                    await connection.execute(entry(context.message_id, os.getpid()))
                    reached(Point.EFFECT)
            else:
                write(context)
                reached(Point.EFFECT)
            reached(Point.COMMITTED)

    class InThread(Consumer[Note], queue="work"):
        engine = settings.place.engine() if settings.transact else None

        def handle(self, payload: Note, context: Context) -> None:
            begin(payload)
            time.sleep(payload.seconds)
            if settings.transact:
                with context.transaction(self.engine) as connection:
                    connection.execute(entry(context.message_id, os.getpid()))
                    reached(Point.EFFECT)
            else:
                write(context)
                reached(Point.EFFECT)
            reached(Point.COMMITTED)

    return InThread() if settings.threads else Awaits()


def note_down(effects: Effects, pid: int | None = None) -> Callable[[Event], None]:
    """Write down what is told, as far as a process that is killed can tell."""

    def add(what: str, message_id: str | None = None, attempt: int = 0) -> None:
        effects.add(what, message_id, attempt, pid)

    def on_event(event: Event) -> None:
        match event:
            case Consuming():
                add("consuming")
            case Begun(message_id=message_id, attempt=attempt):
                add("begun", message_id, attempt)
            case Settled(message_id=message_id, attempt=attempt, outcome=outcome):
                add(outcome.value, message_id, attempt)
            case ClaimLost(message_id=message_id):
                add("lost", message_id)
            case DuplicateWindow(message_id=message_id):
                add("window", message_id)
            case StoreDown(message_id=message_id):
                add("down", message_id)
            case _:
                pass

    return on_event


async def work(settings: Settings, topology: Topology) -> None:
    """Run the worker until SIGTERM."""
    shorten_leases(settings.lease)
    effects = Effects(Path(settings.effects))
    on_event = note_down(effects)
    plain = AioTransport(settings.url, name="process", on_event=on_event)
    point = Point(settings.kill_at) if settings.kill_at else None
    transport = FatalTransport(plain, point) if point in (Point.COMPLETED, Point.ACKED) else plain
    await transport.open()
    store = settings.place.open()
    worker = Worker(
        topology,
        [consumer_of(settings, effects)],
        transport,
        store=store,
        on_event=on_event,
        overrides={"prefetch": settings.prefetch},
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    finally:
        await store.close()
        await transport.close()


def shorten_leases(seconds: float) -> None:
    """Let a claim last so long without a renewal; a worker without a timeout takes its slack twice."""
    vars(worker_module)["LEASE_SLACK"] = seconds / 2


if __name__ == "__main__":
    # the same forking as for workers without a store
    vars(life).update(Settings=Settings, work=work)
    load()
    life.main()
