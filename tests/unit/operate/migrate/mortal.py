"""A broker in memory, a migration on it that dies when it is told to, and people who go on using the queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Consumer, Fate, Outstanding
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.declare.migration.steps import Seen, Step
from amqpkit.model import Binding, Exchange, Message, Policy, Properties, Queue, Topology
from amqpkit.operate.migrate.prepare import prepare
from amqpkit.operate.migrate.report import Report
from amqpkit.operate.migrate.run import Tools, migrate
from amqpkit.operate.prune import Pruning

NAME = "work"
BINDINGS = (Binding("x", NAME, "a.#"), Binding("x", NAME, "b"))


class Killed(BaseException):
    """The process is gone."""


def classic(**arguments: Any) -> Queue:
    return Queue(NAME, "classic", arguments={"x-queue-type": "classic", **arguments})


def quorum(**arguments: Any) -> Queue:
    return Queue(NAME, arguments={"x-queue-type": "quorum", **arguments})


def topology(queue: Queue, *more: Queue, policies: tuple[Policy, ...] = ()) -> Topology:
    return Topology((Exchange("x", "topic"),), (queue, *more), BINDINGS, policies, owns=(NAME, "x"))


class People:
    """One who publishes, confirmed and mandatory, through the exchange; one who consumes, two at a time."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.connection = broker.connect()
        self.sending = broker.open_channel(self.connection)
        self.confirmed: list[str] = []
        self.refused: list[tuple[str, Fate]] = []
        self.handled: list[str] = []
        self.cancels = 0
        self.inbox: list[Outstanding] = []
        self.channel: Channel | None = None
        self.consumer: Consumer | None = None
        self.number = 0
        self.consuming = True

    def publish(self, exchange: str = "x", key: str = "a.1", **properties: Any) -> None:
        self.number += 1
        name = f"m{self.number}"

        def told(fate: Fate, _reason: str) -> None:
            if fate is Fate.CONFIRMED:
                self.confirmed.append(name)
            else:
                self.refused.append((name, fate))

        message = Message(name.encode(), Properties(message_id=name, **properties))
        self.broker.publish(self.sending, exchange, key, message, mandatory=True, told=told)

    def act(self) -> None:
        """Publish one, handle one."""
        self.publish(key="b" if self.number % 2 else "a.1")
        if not self.consuming:
            return
        if self.consumer is None and NAME in self.broker.vhost.queues:
            self.channel = self.broker.open_channel(self.connection)
            self.consumer = self.broker.consume(
                self.channel, NAME, prefetch=2, deliver=self.inbox.append, cancelled=self._cancelled
            )
        if self.inbox:
            self.settle()

    def settle(self) -> None:
        out = self.inbox.pop(0)
        self.handled.append(out.stored.id)
        self.broker.ack(out)

    def _cancelled(self, _reason: str) -> None:
        self.cancels += 1
        self.consumer = None
        self.inbox.clear()


class Life:
    """Counts the effects of a process; when it has had enough of them, nothing of it has any effect any more."""

    def __init__(self, effects: int | None, people: People) -> None:
        self.left, self.people = effects, people
        self.used = 0
        self.dead = False

    def effect(self) -> bool:
        """Say whether one more effect is granted."""
        if self.left is not None and self.used >= self.left:
            self.dead = True
            return False
        self.used += 1
        return True

    def demand(self) -> None:
        if self.dead or not self.effect():
            raise Killed

    async def sleep(self, _seconds: float) -> None:
        if self.dead:
            raise Killed
        self.people.act()
        for _ in range(8):  # what is under way in the loop arrives
            await asyncio.sleep(0)
        if self.dead:
            raise Killed


class MortalAdmin:
    """An Admin, Surveyor and Sentry whose changes are effects."""

    def __init__(self, inner: MemoryAdmin, life: Life) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def surroundings(self) -> Any:
        return await self._inner.surroundings()

    async def holdings(self, queues: Any) -> Any:
        return await self._inner.holdings(queues)

    async def create(self, wanted: Any) -> None:
        self._life.demand()
        self._life.people.act()
        await self._inner.create(wanted)
        self._life.people.act()

    async def delete(self, unwanted: Any) -> None:
        self._life.demand()
        self._life.people.act()
        await self._inner.delete(unwanted)
        self._life.people.act()

    async def delete_empty(self, queue: Queue, *, in_use: bool = False) -> bool:
        self._life.demand()
        return await self._inner.delete_empty(queue, in_use=in_use)


class MortalDelivery:
    """A delivery whose ack is an effect."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ack(self) -> None:
        if not self._life.dead and self._life.effect():
            self._inner.ack()

    def requeue(self) -> None:
        if not self._life.dead:
            self._inner.requeue()


class MortalTransport(MemoryTransport):
    """A transport whose publishes are effects, and whose connections can be cut."""

    life: Life

    def publish(self, *arguments: Any, **options: Any) -> asyncio.Future[None]:
        if self.life.dead or not self.life.effect():
            return asyncio.get_running_loop().create_future()
        return super().publish(*arguments, **options)

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Any], None]) -> Any:
        return await super().consume(
            queue, prefetch=prefetch, deliver=lambda delivery: deliver(MortalDelivery(delivery, self.life))
        )

    def cut(self) -> None:
        self._closed = True
        for connection in (self._publishing and self._publishing.connection, self._consuming):
            if connection:
                self._memory.close_connection(connection)


class World:
    """A vhost with the old queue, and its people."""

    def __init__(self, old: Queue, wanted: Topology, *, backlog: int = 5, version: str = "4.3") -> None:
        self.broker = MemoryBroker(VirtualClock(), version=version)
        self.admin = MemoryAdmin(self.broker)
        self.wanted = wanted
        before = replace(wanted, queues=(old, *wanted.queues[1:]))
        for each in (*before.exchanges, *before.queues, *before.bindings, *before.policies):
            self.broker.declare(each)
        self.people = People(self.broker)
        for _ in range(backlog):
            self.people.publish()
        self.steps: list[Step] = []

    async def migrate(self, effects: int | None = None) -> tuple[Report | None, int]:
        """Run a migration that has so many effects; give its report, None when it was killed, and its effects."""
        life = Life(effects, self.people)
        admin: Any = MortalAdmin(self.admin, life)
        transport = MortalTransport(self.broker)
        transport.life = life
        await transport.open()

        def on_step(step: Step, _seen: Seen) -> None:
            self.steps.append(step)

        try:
            migration = (await prepare(NAME, self.wanted, admin)).migration
            tools = Tools(admin, Pruning(admin, life.sleep), transport, on_step=on_step)
            report = await migrate(migration, tools)
        except Killed:
            transport.cut()
            return None, life.used
        await transport.close()
        return report, life.used

    def everything(self) -> Counter[str]:
        """Handle what is left, and count how often each message was handled."""
        reader = self.broker.open_channel(self.broker.connect())
        self.broker.consume(reader, NAME, prefetch=10_000, deliver=self.people.inbox.append)
        while self.people.inbox or self.broker.depth(NAME):
            self.people.settle()
        return Counter(self.people.handled)
