"""A worker in a process of its own, to be killed: `python -m tests.broker.life.victim` forks one for each line."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.worker import Worker
from amqpkit.events import Consuming, DuplicateWindow, Event
from amqpkit.model import Message, Topology
from amqpkit.ports import BrokerInfo, Delivery, Subscription, Transport
from tests.broker.life.notes import Note, fail_as_told


class Point(StrEnum):
    """Where around the copy of a failed message the worker is killed."""

    BEFORE_COPY = "before the copy"
    SENDING_COPY = "as the copy is sent"
    COPY_CONFIRMED = "when the copy is confirmed"
    ACKED = "after the ack"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker process is told."""

    url: str
    topology: str
    effects: str
    queue: str = "work"
    prefetch: int = 10
    kill_at: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a worker process did; `pid` says which."""

    what: str
    message_id: str | None
    attempt: int
    pid: int


class Effects:
    """The file that outlives every process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._seen: dict[str, list[Effect]] = {}

    def add(self, what: str, message_id: str | None = None, attempt: int = 0, pid: int | None = None) -> None:
        """Append a line: one write, so that it is there whole or not at all."""
        line = json.dumps([what, message_id, attempt, pid or os.getpid()]) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def read(self, what: str) -> list[Effect]:
        """Give all effects of a kind, in order; only what is new is read from the file."""
        self._catch_up()
        return self._seen.get(what, [])

    def count(self, what: str) -> Counter[str | None]:
        """Count the effects of a kind by message id."""
        return Counter(effect.message_id for effect in self.read(what))

    def _catch_up(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._offset += len(whole) + 1
        for line in whole.decode().splitlines():
            # half a line, cut off by its writer's death, is followed by somebody's whole one
            effect = Effect(*json.loads(line[line.rindex('["') :]))
            self._seen.setdefault(effect.what, []).append(effect)


def die() -> None:
    """End this process without a goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)


class FatalDelivery:
    """A delivery whose ack is the worker's last deed."""

    def __init__(self, inner: Delivery) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        self._inner.ack()
        # the ack leaves within the loop turn; what is proven is that nothing after it is needed
        asyncio.get_running_loop().call_later(0.2, die)


class FatalTransport:
    """A transport that kills its process at a point around the first copy."""

    def __init__(self, inner: Transport, point: Point) -> None:
        self._inner, self._point = inner, point

    @property
    def broker(self) -> BrokerInfo:
        return self._inner.broker

    async def open(self) -> None:
        await self._inner.open()

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> asyncio.Future[None]:
        if self._point is Point.BEFORE_COPY:
            die()
        future = self._inner.publish(exchange, routing_key, message, mandatory=mandatory, timeout=timeout)
        if self._point is Point.SENDING_COPY:
            _after_turns(5, die)
        if self._point is Point.COPY_CONFIRMED:
            future.add_done_callback(lambda _: die())
        return future

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> Subscription:
        if self._point is Point.ACKED:
            return await self._inner.consume(
                queue, prefetch=prefetch, deliver=lambda delivery: deliver(FatalDelivery(delivery))
            )
        return await self._inner.consume(queue, prefetch=prefetch, deliver=deliver)

    async def depth(self, queue: str) -> int:
        return await self._inner.depth(queue)

    async def close(self) -> None:
        await self._inner.close()


def _after_turns(turns: int, callback: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if turns == 0:
        callback()
    else:
        loop.call_soon(_after_turns, turns - 1, callback)


def consumer_of(settings: Settings, effects: Effects) -> Consumer[Note]:
    """Make a consumer that writes down what it does."""

    class Scribe(Consumer[Note], queue=settings.queue):
        async def handle(self, payload: Note, context: Context) -> None:
            effects.add("begun", context.message_id, context.attempt)
            if payload.deadly:
                os._exit(1)
            await asyncio.sleep(payload.seconds)
            fail_as_told(payload, context)
            effects.add("handled", context.message_id, context.attempt)

    return Scribe()


async def work(settings: Settings, topology: Topology) -> None:
    """Run the worker until SIGTERM."""
    effects = Effects(Path(settings.effects))

    def on_event(event: Event) -> None:
        match event:
            case Consuming():
                effects.add("consuming")
            case DuplicateWindow(message_id=message_id):
                effects.add("window", message_id)
            case _:
                pass

    transport: Transport = AioTransport(settings.url, name="process", on_event=on_event)
    if settings.kill_at is not None:
        transport = FatalTransport(transport, Point(settings.kill_at))
    await transport.open()
    worker = Worker(
        topology,
        [consumer_of(settings, effects)],
        transport,
        on_event=on_event,
        overrides={"prefetch": settings.prefetch},
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    finally:
        await transport.close()


def fork(settings: Settings) -> int:
    """Fork a worker, and somebody who waits for its end and writes it down; return the worker's pid."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader) as pid:
            return int(pid.read())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if worker == 0:
        # what is shared with the parent would be read by both, and kept open beyond its end
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.close(reader)
        os.close(writer)
        topology = pickle.loads(Path(settings.topology).read_bytes())  # noqa: S301 - written by the test
        asyncio.run(work(settings, topology))
        os._exit(0)
    os.write(writer, str(worker).encode())
    os.close(writer)
    _, status = os.waitpid(worker, 0)
    Effects(Path(settings.effects)).add("ended", attempt=os.waitstatus_to_exitcode(status), pid=worker)
    os._exit(0)


def main() -> None:
    """Fork a worker for each line of settings, until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for those who wait
    for line in iter(sys.stdin.readline, ""):
        print(fork(Settings(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
