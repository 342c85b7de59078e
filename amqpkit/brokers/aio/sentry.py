"""Eyes and hands on AMQP for who changes a vhost: a lock, counts that do not lag, deletions that take nothing along."""

import asyncio
import secrets
from contextlib import suppress
from typing import Final, Self, cast

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.commands import Queue as QueueClass
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.session import Address, Link, connect, hang_up
from amqpkit.brokers.aio.tasks import guarded
from amqpkit.brokers.aio.wire import RPC_TIMEOUT, QueueDeclareFrame, Unchecked
from amqpkit.brokers.blame import Loss
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed, Locked
from amqpkit.model import Holding, Queue

LOCK: Final = "amqpkit.lock"
"""The exclusive queue that whoever changes a vhost holds; it goes with the connection, so a crash frees it."""
_PLUG: Final = b"amqpkit fills an empty queue with this message before deleting it, so that no other can get in"
_IN_USE, _LOCKED, _REFUSED = 406, 405, 403


class QueueDeleteFrame(Unchecked, QueueClass.Delete):
    """`queue.delete`."""


class GetFrame(Unchecked, Basic.Get):
    """`basic.get`."""


class AioSentry:
    """One connection; a `ports.Sentry`, and the holder of the vhost's lock."""

    def __init__(self, link: Link) -> None:
        """Keep the connection; `open` makes one."""
        self._link = link
        self._locked = False

    @classmethod
    async def open(cls, url: BrokerURL, name: str, *, timeout: float = 10.0) -> Self:  # noqa: ASYNC109 - the client has its own
        """Connect; raises AccessRefused, ConnectionFailed within `timeout` seconds."""
        return cls(await connect(Address(url, name, heartbeat=10, timeout=timeout)))

    async def lock(self) -> None:
        """Take the vhost's lock until `close`; raises Locked when somebody else keeps it, AccessRefused.

        A connection that ends takes its exclusive queues along a moment later, so a lock that is taken is asked for
        again for two seconds.
        """
        again = AsyncRetrying(
            retry=retry_if_exception_type(Locked), stop=stop_after_delay(2), wait=wait_fixed(0.2), reraise=True
        )
        await again(self._lock)

    async def _lock(self) -> None:
        channel = await self._channel()
        # A vhost's default type may be quorum, which cannot be exclusive.
        frame = QueueDeclareFrame(queue=LOCK, exclusive=True, auto_delete=True, arguments={"x-queue-type": "classic"})
        try:
            await guarded(channel.rpc)(frame, timeout=RPC_TIMEOUT)
        except faults.TROUBLE as error:
            raise _unlocked(faults.loss(error)) from error
        self._locked = True

    @property
    def trouble(self) -> BrokerError | None:
        """Say why what needs the lock must stop: it went with the connection."""
        if self._link.lost.done():
            reason = self._link.lost.result().reason
            return ConnectionFailed(
                f"the connection that holds the lock {LOCK} is lost ({reason}): another may have it"
            )
        return None

    async def look(self, queue: str) -> Holding | None:
        """Count what is ready and who consumes, by a passive declare; None: it is missing."""
        channel = await self._channel()
        try:
            answer = await guarded(channel.rpc)(QueueDeclareFrame(queue=queue, passive=True), timeout=RPC_TIMEOUT)
        except aiormq.ChannelNotFoundEntity:
            return None
        except faults.TROUBLE as error:
            raise faults.at_queue(faults.loss(error), queue, "look at") from error
        await _close(channel)
        return Holding(answer.message_count or 0, answer.consumer_count or 0)

    async def delete_empty(self, queue: Queue, *, in_use: bool = False) -> bool:
        """Delete a queue that holds nothing, and that nobody consumes unless `in_use`; say whether it is gone.

        A classic queue has `if-empty`. Of a quorum queue behind a fence RabbitMQ still takes one message, while it is
        empty (measured): that one is ours, and behind it nothing gets in. A consumer would be given it, so in use such
        a queue is only looked at. Raises BrokerError.
        """
        try:
            if queue.type == "classic":
                return await self._delete(queue.name, if_empty=True, if_unused=not in_use)
            if queue.type == "quorum" and not await self._ends(queue.name, in_use=in_use):
                return False
            return await self._delete(queue.name)
        except faults.TROUBLE as error:
            raise faults.at_queue(faults.loss(error), queue.name, "delete") from error

    async def _ends(self, name: str, *, in_use: bool) -> bool:
        if in_use and (found := await self.look(name)) and found.consumers:
            return not found.messages
        return await self._plugged(name)

    async def close(self) -> None:
        """Give back the lock, and hang up."""
        if self._locked and not self._link.lost.done():
            self._locked = False
            with suppress(BrokerError, *faults.TROUBLE):  # it goes with the connection anyway
                await self._delete(LOCK)
        await hang_up(self._link)

    async def _delete(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> bool:
        channel = await self._channel()
        frame = QueueDeleteFrame(queue=name, if_empty=if_empty, if_unused=if_unused)
        try:
            await guarded(channel.rpc)(frame, timeout=RPC_TIMEOUT)
        except aiormq.ChannelPreconditionFailed:
            return False
        await _close(channel)
        return True

    async def _plugged(self, name: str) -> bool:
        """Put our message into an empty queue; False when somebody else's was first, or came along."""
        channel = await self._channel(confirms=True)
        plug = secrets.token_hex(16)
        properties = Basic.Properties(message_id=plug, message_type="amqpkit.plug", delivery_mode=2)
        try:
            sent = guarded(channel.basic_publish)(
                _PLUG, routing_key=name, properties=properties, mandatory=True, timeout=RPC_TIMEOUT
            )
            await sent
        except aiormq.exceptions.DeliveryError:
            return False
        alone = await self.look(name) == Holding(1, 0)
        if not alone:
            await _take_back(channel, name, plug)
        await _close(channel)
        return alone

    async def _channel(self, *, confirms: bool = False) -> aiormq.Channel:
        try:
            outer = await guarded(self._link.connection.channel)(publisher_confirms=confirms, on_return_raises=confirms)
            return cast("aiormq.Channel", await outer.get_underlay_channel())
        except faults.TROUBLE as error:
            raise ConnectionFailed(f"the connection to the broker is lost: {faults.loss(error).reason}") from error


async def _take_back(channel: aiormq.Channel, queue: str, plug: str) -> None:
    """Take our message out of a queue that turned out to be in use; the others go back where they were."""
    others: list[DeliveredMessage] = []
    while (message := await _get(channel, queue)) is not None:
        if message.header.properties.message_id == plug:
            await channel.basic_ack(message.delivery_tag or 0)
            break
        others.append(message)
    for message in others:
        await channel.basic_nack(message.delivery_tag or 0, requeue=True)


async def _get(channel: aiormq.Channel, queue: str) -> DeliveredMessage | None:
    """Get one message, as `Channel.basic_get` does, but for a queue of any name."""
    async with channel.getter_lock:
        channel.getter = asyncio.get_running_loop().create_future()
        try:
            await guarded(channel.rpc)(GetFrame(queue=queue), timeout=RPC_TIMEOUT)
            frame, message = await channel.getter
        finally:
            channel.getter = None
    return None if isinstance(frame, Basic.GetEmpty) else message


async def _close(channel: aiormq.Channel) -> None:
    with suppress(*faults.TROUBLE):
        await guarded(channel.close)()


def _unlocked(loss: Loss) -> BrokerError:
    if loss.code == _LOCKED:
        return Locked(f'somebody else is changing this vhost: the lock, queue "{LOCK}", is taken; try again later')
    if loss.code == _REFUSED:
        return AccessRefused(f'the user needs configure permission on the lock, queue "{LOCK}"')
    return ConnectionFailed(f'the lock, queue "{LOCK}", cannot be taken: {loss.reason}')
