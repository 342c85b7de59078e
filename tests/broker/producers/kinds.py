"""The publishers that the tests of this folder run, each behind the same few verbs.

A new kind is a class with these verbs and a line in KINDS; every test here then runs on it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.deliver.blocking import BlockingPublisher
from amqpkit.deliver.outgoing import Outcome
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.publisher import Publisher
from amqpkit.model import Topology

Progress = Callable[[Outcome], None]


class Producer(Protocol):
    """A publisher with the transport under it, as a test uses it."""

    async def publish(self, payload: Payload, **options: Any) -> str:
        """Publish one message; raises a PublishError."""

    async def publish_many(
        self, payloads: Iterable[Payload], *, progress: Progress | None = None, **options: Any
    ) -> list[Outcome]:
        """Publish many; `progress` may be called in any thread."""

    async def depth(self, queue: str) -> int:
        """How many messages are ready there, asked by the producer's own transport."""

    @property
    def pressure(self) -> float:
        """How hard the brakes are on."""

    async def close(self) -> None:
        """Close the transport."""


class AsyncProducer:
    """`amqpkit.Publisher` on aio-pika."""

    def __init__(self, transport: AioTransport, publisher: Publisher) -> None:
        self._transport, self._publisher = transport, publisher

    @classmethod
    async def open(cls, topology: Topology, url: str, *, heartbeat: int = 10, **settings: Any) -> AsyncProducer:
        transport = AioTransport(url, heartbeat=heartbeat)
        await transport.open()
        return cls(transport, Publisher(topology, transport, **settings))

    async def publish(self, payload: Payload, **options: Any) -> str:
        return await self._publisher.publish(payload, **options)

    async def publish_many(
        self, payloads: Iterable[Payload], *, progress: Progress | None = None, **options: Any
    ) -> list[Outcome]:
        return await self._publisher.publish_many(payloads, progress=progress, **options)

    async def depth(self, queue: str) -> int:
        return await self._transport.depth(queue)

    @property
    def pressure(self) -> float:
        return self._publisher.pressure

    async def close(self) -> None:
        await self._transport.close()


class BlockingProducer:
    """`amqpkit.BlockingPublisher` on pika, each call in a thread."""

    def __init__(self, transport: PikaTransport, publisher: BlockingPublisher) -> None:
        self._transport, self._publisher = transport, publisher

    @classmethod
    async def open(cls, topology: Topology, url: str, *, heartbeat: int = 10, **settings: Any) -> BlockingProducer:
        transport = PikaTransport(url, heartbeat=heartbeat)
        await asyncio.to_thread(transport.open)
        return cls(transport, BlockingPublisher(topology, transport, **settings))

    async def publish(self, payload: Payload, **options: Any) -> str:
        return await asyncio.to_thread(self._publisher.publish, payload, **options)

    async def publish_many(
        self, payloads: Iterable[Payload], *, progress: Progress | None = None, **options: Any
    ) -> list[Outcome]:
        return await asyncio.to_thread(self._publisher.publish_many, payloads, progress=progress, **options)

    async def depth(self, queue: str) -> int:
        return await asyncio.to_thread(self._transport.depth, queue)

    @property
    def pressure(self) -> float:
        return self._publisher.pressure

    async def close(self) -> None:
        await asyncio.to_thread(self._transport.close)


KINDS: dict[str, Callable[..., Awaitable[Producer]]] = {
    "async": AsyncProducer.open,
    "blocking": BlockingProducer.open,
}
"""What makes each kind: called with a topology, a URL, and `heartbeat=` and settings of the publisher."""
