"""A queue in use: published to through an exchange, confirmed and mandatory, and consumed, while it is migrated."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.errors import PublishUncertain
from amqpkit.model import Binding, Exchange, Message, Properties, Queue, Topology
from amqpkit.operate.apply import apply
from amqpkit.operate.migrate.report import Report
from amqpkit.ports import Delivery
from tests.broker.life.rig import until
from tests.broker.migrate.victim import Settings
from tests.containers.brokers import Broker

ROOT = Path(__file__).parents[3]
NAME = "orders/ü% .in"
BINDINGS = (Binding("shop", NAME, "order.#"), Binding("shop", NAME, "refund"))
WANTED = """
version: 1
exchanges:
  shop: {type: topic}
  dead: {type: fanout}
queues:
  "orders/ü% .in":
    type: quorum
    arguments: {x-dead-letter-exchange: dead}
    bindings: [{source: shop, routing_key: "order.#"}, {source: shop, routing_key: refund}]
  dead:
    type: quorum
    bindings: [{source: dead}]
"""


class People:
    """A publisher and a consumer."""

    def __init__(self, url: str) -> None:
        self.transport = AioTransport(url, name="people")
        self.confirmed: list[str] = []
        self.uncertain: list[str] = []
        self.handled: Counter[str] = Counter()
        self.origins: Counter[tuple[str, str]] = Counter()
        self.number = 0
        self._stop = asyncio.Event()

    async def publish(self, key: str = "order.new", **properties: Any) -> None:
        self.number += 1
        name = f"m{self.number}"
        message = Message(name.encode(), Properties(message_id=name, delivery_mode=2, **properties))
        await self.transport.publish("shop", key, message)
        self.confirmed.append(name)

    async def keep_publishing(self) -> None:
        """Publish about 50 a second until told to stop; every failure but an unknown fate is one."""
        while not self._stop.is_set():
            try:
                await self.publish("refund" if self.number % 3 == 0 else "order.new")
            except PublishUncertain:
                self.uncertain.append(f"m{self.number}")
            await asyncio.sleep(0.02)

    def take(self, delivery: Delivery) -> None:
        self.handled[delivery.body.decode()] += 1
        headers = delivery.properties.headers
        self.origins[headers.get("amqpkit-exchange", delivery.exchange), delivery.routing_key] += 1
        if self._stop.is_set():
            delivery.ack()
        else:  # slower than the publisher
            asyncio.get_running_loop().call_later(0.04, delivery.ack)

    @property
    def doubled(self) -> int:
        return self.handled.total() - len(self.handled)

    @asynccontextmanager
    async def at_work(self, *, consuming: bool = True) -> AsyncIterator[None]:
        """Publish while this is entered; consume to the end of it."""
        subscription = await self.transport.consume(NAME, prefetch=1, deliver=self.take) if consuming else None
        publisher = asyncio.create_task(self.keep_publishing())
        try:
            yield
        finally:
            self._stop.set()
            await publisher
        if subscription is None:
            await self.transport.consume(NAME, prefetch=50, deliver=self.take)
        await until(lambda: set(self.confirmed) <= set(self.handled), "every confirmed message is handled")


class Migrations:
    """The process that forks migrations."""

    def __init__(self, broker: Broker, notes: Path, text: str = WANTED, queue: str = NAME) -> None:
        self._settings = Settings(broker.url, broker.api, broker.vhost, queue, text, str(notes))
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.migrate.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    async def run(self, **kill: int) -> Report | int:
        """Run one; give its report, or how it was killed."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps({**asdict(self._settings), **kill}) + "\n")
        answer = json.loads(await asyncio.to_thread(self._parent.stdout.readline))
        return int(answer["status"]) if answer["status"] else Report(**json.loads(answer["report"]))

    def close(self) -> None:
        self._parent.communicate()


@asynccontextmanager
async def in_use(broker: Broker, old: Queue, *, backlog: int) -> AsyncIterator[tuple[People, ManagementAdmin]]:
    """Declare the old queue with its backlog."""
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(Topology((Exchange("shop", "topic"),), (old,), BINDINGS), admin)
        people = People(broker.url)
        await people.transport.open()
        try:
            await asyncio.gather(*(people.publish() for _ in range(backlog)))
            yield people, admin
        finally:
            await people.transport.close()
