"""A broker in memory with a dead-letter queue, and letters in it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.model import Message, Properties, Queue

T = TypeVar("T")


class Lab:
    """A broker in virtual time with a dead-letter queue and the queue that its letters failed in."""

    def __init__(self, version: str) -> None:
        self.clock = VirtualClock()
        self.broker = MemoryBroker(self.clock, version=version)
        self.transport = MemoryTransport(self.broker)
        self.queue("work.dlq", x_delivery_limit=-1)
        self.queue("work")

    def queue(self, name: str, kind: str = "quorum", **arguments: Any) -> None:
        """Declare a queue."""
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.broker.declare(Queue(name, kind, arguments={"x-queue-type": kind, **named}))

    async def bury(self, count: int, *, queue: str = "work.dlq", size: int = 10, **properties: Any) -> list[str]:
        """Put letters into a queue; return their ids."""
        ids = [f"m-{n}" for n in range(count)]
        for each in ids:
            message = Message(b"x" * size, Properties(message_id=each, **properties))
            await self.transport.publish("", queue, message)
        return ids

    def ids(self, queue: str = "work.dlq") -> list[str]:
        """The ids in a queue, in order."""
        return self.broker.ledger().get(queue, [])

    async def live(self, deed: Coroutine[Any, Any, T], *, within: float = 600.0) -> T:
        """Let time pass until something is done."""
        task = asyncio.ensure_future(deed)
        deadline = self.clock.now().timestamp() + within
        await self.clock.settle()
        while not task.done():
            assert self.clock.now().timestamp() < deadline, "it does not end"
            await self.clock.advance(0.5)
        return task.result()


@pytest.fixture(params=["4.3", "4.0"])
async def lab(request):
    here = Lab(request.param)
    await here.transport.open()
    yield here
    await here.transport.close()
