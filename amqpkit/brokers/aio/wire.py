"""The only module that knows how frames get into aiormq and out of it; a faster wire may take its place.

What is used beyond the documented calls are aiormq's public attributes (`write_queue`, `confirmations`,
`delivery_tag`, `message_id_delivery_tag`, `connection.channels`): its `basic_publish` costs a task for each
outstanding message and one send() for each frame, where frames joined here leave in one.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Self, cast

import aiormq
import pamqp.frame
from aio_pika.abc import AbstractChannel
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.exceptions import DeliveryError, PublishError
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Exchange, Queue
from pamqp.header import ContentHeader

from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.codec import Encoded
from amqpkit.brokers.aio.session import Link
from amqpkit.brokers.aio.tasks import guarded
from amqpkit.brokers.blame import Loss

RPC_TIMEOUT = 30.0
"""For a question to a broker that is there; aiormq closes the channel on a timeout."""

CANCEL_TIMEOUT = 10.0
"""Shorter: whoever stops to consume is about to leave."""
LAST_OF_ALL = -(2**31)
"""A consumer priority that gets a message only when nobody else wants it."""

Deliver = Callable[[DeliveredMessage], None]


class Fate(Enum):
    """What the broker said of a publish."""

    CONFIRMED = auto()
    NACKED = auto()
    RETURNED = auto()


@dataclass(frozen=True, slots=True)
class Publish:
    """One publish, encoded; `settled` is called once with the broker's word, or never if the channel ends first."""

    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    message_id: str | None
    body: bytes
    settled: Callable[[Fate], None]


class Unchecked:
    """A frame without pamqp's check of names: RabbitMQ allows any 255 bytes, pamqp a few characters of ASCII."""

    def validate(self) -> None:
        """Let the broker judge."""


class PublishFrame(Unchecked, Basic.Publish):
    """`basic.publish`."""


class ConsumeFrame(Unchecked, Basic.Consume):
    """`basic.consume`."""


class QueueDeclareFrame(Unchecked, Queue.Declare):
    """`queue.declare`."""


class ExchangeDeclareFrame(Unchecked, Exchange.Declare):
    """`exchange.declare`."""


class Channel:
    """An aiormq channel and how it ends; `lost` is done then and never carries an exception."""

    def __init__(self, outer: AbstractChannel, inner: aiormq.Channel, link: Link) -> None:
        """Watch it from the beginning."""
        self._outer, self._inner, self._link = outer, inner, link
        self.lost: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()
        outer.close_callbacks.add(lambda _sender, error: self.end(faults.loss(error)))

    @classmethod
    @guarded
    async def open(cls, link: Link, *, confirms: bool = False) -> Self:
        """Open a channel; raises one of faults.TROUBLE."""
        async with asyncio.timeout(RPC_TIMEOUT):
            outer = await link.connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
            return cls(outer, cast("aiormq.Channel", await outer.get_underlay_channel()), link)

    @classmethod
    @asynccontextmanager
    async def aside(cls, link: Link) -> AsyncIterator[Self]:
        """Lend a channel for a question, which may cost it; few at a time. Raises one of faults.TROUBLE."""
        async with link.asides:
            channel = await cls.open(link)
            try:
                yield channel
            finally:
                await channel.close()

    def end(self, cause: Loss) -> None:
        """Count it as lost from now on."""
        if not self.lost.done():
            self.lost.set_result(cause)

    @property
    def stands(self) -> bool:
        """Whether a frame may still be sent.

        aiormq forgets the number when Channel.Close arrives, some turns before it calls the channel closed.
        A frame sent in between would reach a closed channel, and cost the whole connection (504).
        """
        inner = self._inner
        return not self.lost.done() and not inner.is_closed and inner.connection.channels.get(inner.number) is inner

    async def write(self, payload: bytes) -> None:
        """Send frames as they are, in one piece, and wait until the socket has taken them."""
        drained = asyncio.get_running_loop().create_future()
        await self._inner.write_queue.put(ChannelFrame(payload=payload, should_close=False, drain_future=drained))
        await drained

    @guarded
    async def close(self) -> None:
        """Close it politely, unless it is lost or the broker is stuck."""
        self.end(Loss(0, "closed"))
        with suppress(*faults.TROUBLE):
            try:
                async with asyncio.timeout(self._link.goodbye):
                    await self._outer.close()
            except TimeoutError:
                self._link.deaf.set()

    @guarded
    async def ask(self, frame: Frame) -> None:
        """Send a question whose answer may cost the channel; raises one of faults.TROUBLE."""
        await self._inner.rpc(frame, timeout=RPC_TIMEOUT)

    @guarded
    async def has_exchange(self, name: str) -> bool:
        """Ask by a passive declare, which a wrong name answers by closing the channel; raises one of faults.TROUBLE."""
        try:
            await self._inner.rpc(ExchangeDeclareFrame(exchange=name, passive=True), timeout=RPC_TIMEOUT)
        except aiormq.ChannelNotFoundEntity:
            return False
        except aiormq.ChannelAccessRefused:
            # On 4.3 the question needs a permission that publishing does not (measured).
            return True
        return True

    @guarded
    async def messages_ready(self, queue: str) -> int:
        """Ask by a passive declare; raises one of faults.TROUBLE."""
        answer = await self._inner.rpc(QueueDeclareFrame(queue=queue, passive=True), timeout=RPC_TIMEOUT)
        return answer.message_count or 0

    def _frame(self, frame: Frame | ContentHeader | ContentBody) -> bytes:
        return pamqp.frame.marshal(frame, self._inner.number)


class Outlet(Channel):
    """A channel in confirm mode."""

    def frames(self, publish: Publish) -> bytes:
        """Take the next sequence number for a publish and give its frames, which must then be sent in this order."""
        inner = self._inner
        inner.delivery_tag += 1
        tag = inner.delivery_tag
        confirmation: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        inner.confirmations[tag] = confirmation
        if publish.message_id is not None:
            # By the id, and by nothing else, does aiormq know what a basic.return is about.
            inner.message_id_delivery_tag[publish.message_id] = tag

        def told(answer: asyncio.Future[object]) -> None:
            if publish.message_id is not None:
                inner.message_id_delivery_tag.pop(publish.message_id, None)
            publish.settled(_fate(answer.exception()))

        confirmation.add_done_callback(told)
        room = inner.max_content_size
        parts = [
            self._frame(PublishFrame(0, publish.exchange, publish.routing_key, publish.mandatory)),
            self._frame(ContentHeader(body_size=len(publish.body), properties=Encoded(publish.properties))),
        ]
        parts += (self._frame(ContentBody(publish.body[at : at + room])) for at in range(0, len(publish.body), room))
        return b"".join(parts)


def _fate(error: BaseException | None) -> Fate:
    match error:
        case None:
            return Fate.CONFIRMED
        case PublishError():
            return Fate.RETURNED
        case DeliveryError():
            return Fate.NACKED
        case _:
            raise error


class Inlet(Channel):
    """A channel with one consumer."""

    _queue = _tag = ""

    async def consume(self, queue: str, prefetch: int, deliver: Deliver) -> None:
        """Start the consumer; raises one of faults.TROUBLE."""
        self._queue = queue
        # Called by the channel's own reader: an RPC on this channel would wait for itself (measured).
        cancelled = Loss(0, "the broker cancelled the consumer")
        self._inner.on_consumer_cancel_callbacks.add(lambda _frame: self.end(cancelled))
        self._tag = await self._consume(prefetch, deliver)

    @property
    def tag(self) -> str:
        """The consumer's tag."""
        return self._tag

    @guarded
    async def cancel(self) -> None:
        """Stop deliveries; what was delivered can still be settled. Raises one of faults.TROUBLE."""
        await self._inner.basic_cancel(self._tag, timeout=CANCEL_TIMEOUT)

    @guarded
    async def catch_up(self) -> None:
        """Let the queue catch up with this channel, by a consumer that comes and goes; raises one of faults.TROUBLE."""
        extra: list[DeliveredMessage] = []
        tag = await self._consume(1, extra.append, {"x-priority": LAST_OF_ALL})
        await self._inner.basic_cancel(tag, timeout=CANCEL_TIMEOUT)
        if extra:
            # It was given one after all. On 4.3 a nack does not count as a failed delivery, a closed channel does.
            await self.write(self.nacks(0, ((message.delivery_tag or 0, True) for message in extra)))

    @guarded
    async def _consume(self, prefetch: int, deliver: Deliver, arguments: dict[str, Any] | None = None) -> str:
        async def callback(message: DeliveredMessage) -> None:
            # aiormq makes a task of this for each delivery; there is no public way around.
            deliver(message)

        # Before the consumer: it keeps the limit that it was started with, and the default is none.
        await self._inner.basic_qos(prefetch_count=prefetch, timeout=RPC_TIMEOUT)
        tag = f"amqpkit-{self._inner.number}-{secrets.token_hex(4)}"
        self._inner.consumers[tag] = callback
        frame = ConsumeFrame(queue=self._queue, consumer_tag=tag, arguments=arguments)
        await self._inner.rpc(frame, timeout=RPC_TIMEOUT)
        return tag

    def acks(self, tag: int, singly: Iterable[int]) -> bytes:
        """Frames for an ack of all up to a tag (unless it is 0), which must be outstanding, and of some after it."""
        parts = [self._frame(Basic.Ack(delivery_tag=tag, multiple=True))] if tag else []
        parts += (self._frame(Basic.Ack(delivery_tag=each)) for each in singly)
        return b"".join(parts)

    def nacks(self, tag: int, singly: Iterable[tuple[int, bool]]) -> bytes:
        """Frames to give back all up to a tag (unless it is 0), and for single nacks, each with whether to requeue."""
        parts = [self._frame(Basic.Nack(delivery_tag=tag, multiple=True, requeue=True))] if tag else []
        parts += (self._frame(Basic.Nack(delivery_tag=each, requeue=requeue)) for each, requeue in singly)
        return b"".join(parts)
