"""Workers of one job that are killed, each at another moment: `python -m tests.broker.once.jobvictim`, told by JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy.ext.asyncio import AsyncEngine

from amqpkit import Consumer, Context, Payload
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.deliver.worker import Worker
from amqpkit.events import Event, Outcome, Settled
from amqpkit.stores import open_jobs, open_steps
from tests.broker.once.place import Place, entry, load
from tests.broker.once.victim import FatalTransport, Point

FILE = """
version: 1
work_queues:
  work:
    accepts: [csv.import]
    retry: none
"""

MOMENTS = (
    "written, before the commit",
    "written, after the commit",
    "mailed, before that is recorded",
    "charged, before the commit",
    "charged, after the commit",
    "refunded, before the commit",
    "refunded, after the commit",
    "apologised, before that is recorded",
    "unwritten, before the commit",
    "unwritten, after the commit",
    "the letter is placed, before the ack",
)


class ImportCsv(Payload, type="csv.import", track=True):
    """A job."""

    file: str = "a.csv"


def die() -> NoReturn:
    """End as a lost machine does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Imports(Consumer[ImportCsv], queue="work"):
    """Three steps, of which one has no transaction, and a failure for good."""

    def __init__(self, engine: AsyncEngine, notes: str, moment: str | None) -> None:
        self.engine, self.notes, self.moment = engine, notes, moment

    def reached(self, moment: str) -> None:
        if moment == self.moment:
            die()

    def note(self, what: str) -> None:
        with Path(self.notes).open("a") as file:
            file.write(f"{what}\n")

    async def handle(self, payload: ImportCsv, context: Context) -> None:
        await context.step("write", self.write, inside=self.engine, compensate=self.unwrite)
        self.reached("written, after the commit")
        await context.step("mail", self.mail, compensate=self.apologise)
        await context.step("charge", self.charge, inside=self.engine, compensate=self.refund)
        self.reached("charged, after the commit")
        context.progress(0.9, "almost")
        raise ConnectionError("the bank is down")

    async def write(self, connection: Any) -> str:
        await connection.execute(entry("wrote", os.getpid()))
        self.reached("written, before the commit")
        return "rows"

    def mail(self) -> str:
        self.note("mailed")
        self.reached("mailed, before that is recorded")
        return "mail"

    async def charge(self, connection: Any) -> str:
        await connection.execute(entry("charged", os.getpid()))
        self.reached("charged, before the commit")
        return "charge"

    async def unwrite(self, rows: str, context: Context) -> None:
        async with context.transaction(self.engine) as connection:
            await connection.execute(entry(f"un{rows}", os.getpid()))
            self.reached("unwritten, before the commit")
        self.reached("unwritten, after the commit")

    def apologise(self, mail: str, context: Context) -> None:
        self.note(f"sorry for the {mail}")
        self.reached("apologised, before that is recorded")

    async def refund(self, charge: str, context: Context) -> None:
        async with context.transaction(self.engine) as connection:
            await connection.execute(entry(f"refunded {charge}", os.getpid()))
            self.reached("refunded, before the commit")
        self.reached("refunded, after the commit")


async def work(told: dict[str, str], moment: str | None) -> None:
    """Run a worker until its job has ended, or its moment has come."""
    place = Place(told["database"])
    engine, jobs, steps = place.async_engine(), open_jobs(place.url), open_steps(place.url)
    plain = AioTransport(told["url"], name="job victim")
    await plain.open()
    transport = FatalTransport(plain, Point.COMPLETED) if moment == MOMENTS[-1] else plain
    worker: Worker

    def on_event(event: Event) -> None:
        if isinstance(event, Settled) and event.outcome is Outcome.DEAD:
            worker.stop()

    consumer = Imports(engine, told["notes"], moment)
    topology = compile_topology(parse([("test.yaml", FILE)], {}))
    worker = Worker(topology, [consumer], transport, jobs=jobs, steps=steps, on_event=on_event)
    await worker.run()
    await plain.close()
    await jobs.close()
    await steps.close()
    await engine.dispose()


def fork(run: Callable[[], object]) -> int:
    """Run it in a process of its own; return its end, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(0)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Let one worker after the other die, and the last come to the end."""
    told = json.loads(sys.argv[1])
    load()
    for moment in (*MOMENTS, None):
        print(fork(lambda moment=moment: asyncio.run(work(told, moment))), flush=True)  # type: ignore[misc]


if __name__ == "__main__":
    main()
