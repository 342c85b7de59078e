"""An operator's command in a process of its own, to be killed on the way.

`python -m tests.broker.letters.victim` forks one for each line of settings, waits for its end and says how it ended:
it has imported everything before, so that a start costs milliseconds instead of a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.model import Message, WorkQueue
from amqpkit.operate.dead_letters.audit import AuditFile
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.discard import Grounds, discard
from amqpkit.operate.dead_letters.imports import Standing, import_letters
from amqpkit.operate.dead_letters.replay import replay
from amqpkit.operate.dead_letters.verdicts import Order
from amqpkit.ports import BrokerInfo, Delivery, Subscription, Transport

WORK = WorkQueue("work", ("note",), "work.retry", "work.dlx", "work.dlq", (), ())


class Point(StrEnum):
    """When the process dies, or is told to stop."""

    SENT = "as a letter is sent"
    CONFIRMED = "when a letter is confirmed"
    ACKED = "after an ack"
    SEEN = "when a letter is seen"
    WRITTEN = "when letters are written down"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process is told: it ends at the n-th time of a point, by a signal that is sent so often."""

    url: str
    deed: str
    out: str
    kill_at: str | None = None
    after: int = 1
    signal: int = signal.SIGKILL
    times: int = 1
    limit: int | None = None
    run: str = "r"
    file: str = ""
    skip: int = 0


class Fuse:
    """Ends the process when its point has come so often."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._left = settings, settings.after

    def burn(self, point: Point) -> None:
        """This point has come."""
        if self._settings.kill_at != point:
            return
        self._left -= 1
        if self._left == 0:
            for _ in range(self._settings.times):
                os.kill(os.getpid(), self._settings.signal)


class WatchedDelivery:
    """A delivery whose ack is counted."""

    def __init__(self, inner: Delivery, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        self._inner.ack()
        # it leaves within the loop's turn
        asyncio.get_running_loop().call_later(0.01, self._fuse.burn, Point.ACKED)


class FatalTransport:
    """A transport whose process ends at a point."""

    def __init__(self, inner: Transport, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    @property
    def broker(self) -> BrokerInfo:
        return self._inner.broker

    async def open(self) -> None:
        await self._inner.open()

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> asyncio.Future[None]:
        future = self._inner.publish(exchange, routing_key, message, mandatory=mandatory, timeout=timeout)
        future.add_done_callback(lambda _: self._fuse.burn(Point.CONFIRMED))
        self._fuse.burn(Point.SENT)
        return future

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> Subscription:
        return await self._inner.consume(
            queue, prefetch=prefetch, deliver=lambda delivery: deliver(WatchedDelivery(delivery, self._fuse))
        )

    async def depth(self, queue: str) -> int:
        return await self._inner.depth(queue)

    async def close(self) -> None:
        await self._inner.close()


async def act(settings: Settings) -> dict[str, Any]:
    """Do what is told, and say what came of it."""
    fuse, clock = Fuse(settings), SystemClock()
    transport: Transport = AioTransport(settings.url, name="victim")
    if settings.kill_at in (Point.SENT, Point.CONFIRMED, Point.ACKED):
        transport = FatalTransport(transport, fuse)
    await transport.open()
    try:
        match settings.deed:
            case "replay":
                order = Order(settings.run, limit=settings.limit)
                replayed = await replay(transport, "work.dlq", order, work=WORK, clock=clock)
                return asdict(replayed)
            case "browse":
                browsed = await browse(transport, "work.dlq", lambda _: fuse.burn(Point.SEEN), clock=clock)
                return asdict(browsed)
            case "discard":
                return await _discard(settings, transport, fuse)
            case "import":
                return await _import(settings, transport)
            case _:
                raise AssertionError(settings.deed)
    finally:
        await transport.close()


async def _discard(settings: Settings, transport: Transport, fuse: Fuse) -> dict[str, Any]:
    audit = AuditFile(Path(settings.file))

    def write(lines: list[str]) -> None:
        audit.append(lines)
        fuse.burn(Point.WRITTEN)

    grounds = Grounds("victim", "to see it die")
    return asdict(await discard(transport, "work.dlq", grounds, write, clock=SystemClock()))


async def _import(settings: Settings, transport: Transport) -> dict[str, Any]:
    out = Path(settings.out)

    def note(standing: Standing) -> None:
        out.with_suffix(".safe").write_text(str(standing.safe))

    with Path(settings.file).open("rb") as lines:  # noqa: ASYNC230 - nothing else runs in this process
        return asdict(await import_letters(transport, lines, skip=settings.skip, clock=SystemClock(), on_progress=note))


def child(settings: Settings) -> None:
    """Live, and perhaps die."""
    # what is shared with the parent would be read by both
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        told = asyncio.run(act(settings))
        Path(settings.out).write_text(json.dumps(told))
        os._exit(0)
    os._exit(130)


def main() -> None:
    """Fork a process for each line of settings; say how it ended."""
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            try:
                child(Settings(**json.loads(line)))
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
