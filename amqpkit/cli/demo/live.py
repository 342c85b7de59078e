"""The demo's stage on a real broker: what it makes it deletes, what was there it leaves."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Self, cast

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.cli.connect import Place, administered
from amqpkit.cli.demo.shop import Shop
from amqpkit.cli.demo.story import Line, Story
from amqpkit.cli.demo.worker import read
from amqpkit.declare.plan.changes import Change, before, subject
from amqpkit.deliver.publisher import Publisher
from amqpkit.errors import AmqpkitError, BrokerError
from amqpkit.events import Consuming, Event
from amqpkit.operate.apply import perform, prepare
from amqpkit.ports import Admin, Transport

_LIMIT: Final = 60.0
_LOOK: Final = 0.1
_RESTARTS: Final = 10


class LiveStage:
    """A stage on a broker, with a worker process that is started again when it dies."""

    def __init__(self, shop: Shop, place: Place, tell: Callable[[Line], None]) -> None:
        self._shop, self._place = shop, place
        self._files = [str(file) for file in shop.files(short_delays=True)]
        self.topology = shop.topology(short_delays=True)
        self.transport: Transport = AioTransport(place.url, name="amqpkit demo")
        self.publisher = Publisher(self.topology, self.transport)
        self.story = Story(self.topology, shop.readers, self._seconds, self._told)
        self._tell, self._began = tell, time.monotonic()
        self._run = secrets.token_hex(3)
        self._news = asyncio.Event()
        self._consuming: set[str] = set()
        self._worker: asyncio.Task[None] | None = None
        self._database, self._books = "", cast("Any", None)

    @property
    def booked(self) -> list[str]:
        """The invoices in the books that the worker process writes."""
        booked: list[str] = self._shop.books.booked(self._books)
        return booked

    def message_id(self, name: str) -> str:
        """Make the name unlike that of another run: a broker remembers."""
        return f"{name}-{self._run}"

    async def until(self, done: Callable[[], bool]) -> bool:
        """Wait for the worker's news, and for a minute at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIMIT):
                while not done():
                    if self._worker is not None and self._worker.done():
                        self._worker.result()
                        return done()
                    self._news.clear()
                    # not wait_for: before Python 3.12 it loses a cancellation that comes together with the news
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK):
                            await self._news.wait()
        return done()

    @asynccontextmanager
    async def running(self, *, use_existing: bool) -> AsyncIterator[Self]:
        """Apply the topology, run the worker, and leave the broker as it was.

        Raises AmqpkitError when queues of these names exist, unless they may be used.
        """
        async with AsyncExitStack() as stack:
            admin, _ = await stack.enter_async_context(administered(self._place))
            await stack.enter_async_context(_opened(self.transport))
            self._database, self._books = stack.enter_context(self._shop.new_books())
            if not use_existing:
                await self._refuse_existing(admin)
            todo = await prepare(self.topology, admin)
            try:
                report = await perform(todo, self.topology, admin)
                for warning in report.warnings:
                    print(f"warning: {warning}", file=sys.stderr)
                async with self._working():
                    await self.until(lambda: len(self._consuming) == len(self._shop.readers))
                    self._began = time.monotonic()
                    yield self
            finally:
                await asyncio.shield(_undo(admin, todo.steps))

    async def _refuse_existing(self, admin: Admin) -> None:
        wanted = {queue.name for queue in self.topology.queues}
        found = sorted(wanted & {queue.name for queue in (await admin.read()).queues})
        if not found:
            return
        holding = [f"{name} ({depth})" for name in found if (depth := await self.transport.depth(name))]
        messages = f"; messages wait in {', '.join(holding)}" if holding else "; none holds a message"
        msg = (
            f"{self._place} has queues of the demo's names already: {_some(found)}{messages}.\n"
            "The demo would send its messages to whoever reads from them. Play in another vhost (--vhost), or say\n"
            "--yes: then these queues are used, and are still there afterwards"
        )
        raise AmqpkitError(msg)

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        self._worker = asyncio.create_task(self._keep_working(stopping))
        try:
            yield
        finally:
            stopping.set()
            worker, self._worker = self._worker, None
            await asyncio.gather(worker, return_exceptions=True)

    async def _keep_working(self, stopping: asyncio.Event) -> None:
        """Start a worker process, and another one when it dies."""
        for _ in range(_RESTARTS):
            code = await self._work(stopping)
            if stopping.is_set():
                return
            if not any(journey.running for journey in self.story.journeys.values()):
                msg = f"the demo's worker process ended with code {code} while it had nothing to do"
                raise BrokerError(msg)
            self.story.died()
        msg = f"the demo's worker process died {_RESTARTS} times"
        raise BrokerError(msg)

    async def _work(self, stopping: asyncio.Event) -> int:
        """Run one worker process to its end and give its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "amqpkit.cli.demo.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours; the worker ends when its input does
        )
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        orders = {"url": self._place.url.text, "files": self._files, "database": self._database}
        process.stdin.write(json.dumps(orders).encode() + b"\n")
        stop = asyncio.create_task(_close_when(stopping, process.stdin))
        try:
            async for line in process.stdout:
                self._hear(read(line))
            return await process.wait()
        finally:
            stop.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _hear(self, event: Event) -> None:
        if isinstance(event, Consuming):
            self._consuming.add(event.queue)
            self._news.set()
        else:
            self.story.happened(event)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _told(self, line: Line) -> None:
        self._tell(line)
        self._news.set()


async def _close_when(stopping: asyncio.Event, stdin: asyncio.StreamWriter) -> None:
    await stopping.wait()
    stdin.close()


@asynccontextmanager
async def _opened(transport: Transport) -> AsyncIterator[None]:
    await transport.open()
    try:
        yield
    finally:
        await transport.close()


async def _undo(admin: Admin, steps: tuple[Change, ...]) -> None:
    """Delete what was made, and put back the policies that were overwritten; a step not done is no harm."""
    for step in reversed(steps):
        found = before(step)
        if found is None:
            await admin.delete(subject(step))
        else:
            await admin.create(found)


def _some(names: list[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
