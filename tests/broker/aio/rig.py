"""What the tests of the aio transport share: a transport with its events, queues, and waits for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.url import BrokerURL
from amqpkit.events import Event
from amqpkit.model import Message, Properties
from amqpkit.ports import Delivery, Subscription
from tests.containers.brokers import Broker


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Wait until a condition holds; raises AssertionError when it does not in time."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


def message(body: bytes = b"hello", **properties: Any) -> Message:
    """Make a message."""
    return Message(body, Properties(**properties))


def with_user(url: str, user: str, password: str) -> str:
    """The same broker and virtual host, as somebody else."""
    parsed = BrokerURL.parse(url)
    location = parsed.location
    return BrokerURL(type(location)(location.host, location.port, location.tls, user, password), parsed.vhost).text


class Inbox:
    """Takes deliveries; acks each at once when told so."""

    def __init__(self, *, ack: bool = False) -> None:
        self.deliveries: list[Delivery] = []
        self._ack = ack

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        if self._ack:
            delivery.ack()

    @property
    def bodies(self) -> list[bytes]:
        """What came, in order."""
        return [delivery.body for delivery in self.deliveries]


class Rig:
    """A transport, its events and its broker."""

    def __init__(self, broker: Broker, **settings: Any) -> None:
        self.broker = broker
        self.events: list[Event] = []
        self.transport = AioTransport(broker.url, on_event=self.events.append, **settings)

    def told(self, kind: type[Event]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the management API about this virtual host; a path like `queues//name` has its vhost filled in."""
        path = path.replace("//", f"/{quote(self.broker.vhost, safe='')}/", 1)
        status, answer = await asyncio.to_thread(self.broker.http, method, path, body)
        assert status < 400, (status, answer)
        return answer

    async def queue(self, name: str, kind: str = "quorum", **arguments: Any) -> str:
        """Declare a queue."""
        arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
        body = {"durable": True, "arguments": {"x-queue-type": kind, **arguments}}
        await self.api("PUT", f"queues//{quote(name, safe='')}", body)
        return name

    async def exchange(self, name: str, kind: str = "topic", **settings: Any) -> str:
        """Declare an exchange."""
        await self.api("PUT", f"exchanges//{quote(name, safe='')}", {"type": kind, "durable": True, **settings})
        return name

    async def bind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Bind a queue."""
        await self.api(
            "POST", f"bindings//e/{quote(exchange, safe='')}/q/{quote(queue, safe='')}", {"routing_key": routing_key}
        )

    async def fill(self, queue: str, count: int) -> None:
        """Publish numbered messages to a queue."""
        await asyncio.gather(
            *(self.transport.publish("", queue, message(b"%d" % n, message_id=f"m-{n}")) for n in range(count))
        )

    async def consume(self, queue: str, inbox: Inbox, prefetch: int = 10) -> Subscription:
        """Consume."""
        return await self.transport.consume(queue, prefetch=prefetch, deliver=inbox)

    async def stays(self, queue: str, depth: int, within: float = 20.0) -> None:
        """Wait until so many messages are ready, and see that it stays so: what the broker gives back comes late."""
        deadline = time.monotonic() + within
        seen = 0
        while seen < 5:
            ready = await self.transport.depth(queue)
            seen = seen + 1 if ready == depth else 0
            assert time.monotonic() < deadline, f"{ready} messages are ready, not {depth}"
            await asyncio.sleep(0.05)
