"""Migrations in processes of their own, to be killed: `python -m tests.broker.migrate.victim` forks one for a line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.migration.steps import Seen, Step
from amqpkit.declare.spec.parsing import parse
from amqpkit.operate.migrate.prepare import prepare
from amqpkit.operate.migrate.report import Report
from amqpkit.operate.migrate.run import Tools, migrate
from amqpkit.operate.prune import Pruning

SETTLE = 1.0
"""An interval of the test brokers' statistics; the consumer here holds nothing for as long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to migrate to what, and when to die: before the step of that number, or when so many have been moved."""

    url: str
    api: str
    vhost: str
    queue: str
    text: str
    notes: str
    kill_before_step: int | None = None
    kill_at_message: int | None = None


class Notes:
    """The steps that were taken, in a file that outlives every process."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def add(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")

    def read(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def die() -> None:
    """End this process without a goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)


async def work(settings: Settings, notes: Notes | None = None) -> Report:
    """Migrate."""
    steps = moved = 0

    def on_step(step: Step, _seen: Seen) -> None:
        nonlocal steps
        steps += 1
        if steps == settings.kill_before_step:
            die()
        if notes:
            notes.add(type(step).__name__)

    def on_moved() -> None:
        nonlocal moved
        moved += 1
        if moved == settings.kill_at_message:
            die()

    topology = compile_topology(parse([("test.yaml", settings.text)], {}))
    sentry = await AioSentry.open(BrokerURL.parse(settings.url), "migrate")
    transport = AioTransport(settings.url, name="migrate")
    async with ManagementAdmin(settings.api, vhost=settings.vhost) as admin:
        try:
            await sentry.lock()
            await transport.open()
            migration = (await prepare(settings.queue, topology, admin)).migration
            pruning = Pruning(sentry, settle=SETTLE, fenced=0.3)
            tools = Tools(admin, pruning, transport, patience=30.0, on_step=on_step, on_moved=on_moved)
            return await migrate(migration, tools)
        finally:
            await transport.close()
            await sentry.close()


def main() -> None:
    """Fork a migration for each line of settings, and answer how it ended: its report, or the signal."""
    for line in iter(sys.stdin.readline, ""):
        settings = Settings(**json.loads(line))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            report = asyncio.run(work(settings, Notes(settings.notes)))
            os.write(writer, json.dumps(asdict(report)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            report_text = answer.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), "report": report_text}), flush=True)


if __name__ == "__main__":
    main()
