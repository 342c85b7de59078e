"""What the tests of the blocking transport share: queues, what is in them, and a fault proxy with a loop of its own."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import pika

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.events import Event
from amqpkit.model import Message, Properties
from amqpkit.testing.proxy import FaultProxy
from tests.containers.brokers import Broker


def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Wait until a condition holds; raises AssertionError when it does not in time."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def message(body: bytes = b"hello", **properties: Any) -> Message:
    """Make a persistent message."""
    return Message(body, Properties(delivery_mode=2, **properties))


class Rig:
    """A transport, its events and its broker."""

    def __init__(self, broker: Broker, url: str | None = None, **settings: Any) -> None:
        self.broker = broker
        self.events: list[Event] = []
        self.transport = PikaTransport(url or broker.url, on_event=self.events.append, **settings)

    def told(self, kind: type[Event]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the management API about this virtual host; a path like `queues//name` has its vhost filled in."""
        path = path.replace("//", f"/{quote(self.broker.vhost, safe='')}/", 1)
        status, answer = self.broker.http(method, path, body)
        assert status < 400, (status, answer)
        return answer

    def queue(self, name: str, kind: str = "quorum", **arguments: Any) -> str:
        """Declare a queue."""
        arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
        body = {"durable": True, "arguments": {"x-queue-type": kind, **arguments}}
        self.api("PUT", f"queues//{quote(name, safe='')}", body)
        return name

    def exchange(self, name: str, kind: str = "topic", **settings: Any) -> str:
        """Declare an exchange."""
        self.api("PUT", f"exchanges//{quote(name, safe='')}", {"type": kind, "durable": True, **settings})
        return name

    def bind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Bind a queue."""
        self.api(
            "POST", f"bindings//e/{quote(exchange, safe='')}/q/{quote(queue, safe='')}", {"routing_key": routing_key}
        )

    def send(self, key: str, body: bytes = b"hello", *, timeout: float = 30.0, exchange: str = "", **said: Any) -> Any:
        """Publish and wait: what came of it, an error or None."""
        return self.transport.publish(exchange, key, message(body, **said), timeout=timeout).exception()

    def forget(self) -> None:
        """Drop the transport, unclosed."""
        del self.transport
        gc.collect()

    def taken(self, queue: str, at_least: int = 0) -> list[Any]:
        """Take all messages out of a queue, at least so many, by a client of its own: their ids."""
        return taken(self.broker.url, queue, at_least)


def taken(url: str, queue: str, at_least: int = 0, within: float = 20.0) -> list[Any]:
    """Take all messages out of a queue: their ids, in order. Waits until at least so many have come."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel, ids = connection.channel(), []
        deadline = time.monotonic() + within
        while True:
            frame, properties, _ = channel.basic_get(queue, auto_ack=True)
            if frame is not None:
                ids.append(properties.message_id)
            elif len(ids) >= at_least:
                return ids
            else:
                assert time.monotonic() < deadline, f"{len(ids)} messages came, not {at_least}"
                connection.sleep(0.05)
    finally:
        connection.close()


class ThreadedProxy:
    """A FaultProxy for blocking tests; its verbs are called in its loop."""

    def __init__(self, proxy: FaultProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy, self._loop = proxy, loop

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any) -> Any:
            return getattr(self._proxy, verb)(*args)

        return lambda *args: asyncio.run_coroutine_threadsafe(call(*args), self._loop).result(10)

    @property
    def accepted(self) -> int:
        """How many connections have been passed on so far."""
        return self._proxy.accepted


@contextmanager
def proxied(broker: Broker) -> Iterator[tuple[ThreadedProxy, str]]:
    """A proxy before the broker, and the URL that leads through it."""
    parts = urlsplit(broker.url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultProxy(parts.hostname or "", parts.port or 5672)
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
    try:
        yield ThreadedProxy(proxy, loop), proxy.redirect(broker.url)
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
