"""`ports.Subscription` and `ports.Delivery` on the in-memory broker."""

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Final

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Connection, Consumer, Outstanding
from amqpkit.brokers.memory.stored import delivered_properties
from amqpkit.errors import QueueMissing
from amqpkit.events import ConsumerLost, Consuming, OnEvent
from amqpkit.model import Properties
from amqpkit.ports import Delivery

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0


class MemoryDelivery:
    """One delivery and its three ends; an end does nothing once the channel is gone."""

    def __init__(self, broker: MemoryBroker, out: Outstanding) -> None:
        """Look at what the broker handed out."""
        self._broker = broker
        self._out = out
        self.queue = out.queue.name
        self.exchange = out.stored.exchange
        self.routing_key = out.stored.routing_keys[0]
        self.redelivered = out.stored.redelivered
        self.body = out.stored.body

    @cached_property
    def properties(self) -> Properties:
        """The properties with the broker's own headers, made when first asked for."""
        return delivered_properties(self._out.stored, self._broker.profile, quorum=self._out.queue.quorum)

    @property
    def alive(self) -> bool:
        """Whether the channel that it came on still stands."""
        return self._out.consumer.channel.alive

    def forget(self) -> None:
        """Let go of what it says; it can still be settled."""
        del self.body
        self.__dict__.pop("properties", None)

    def ack(self) -> None:
        """Settle: the broker forgets the message."""
        self._broker.ack(self._out)

    def requeue(self) -> None:
        """`basic.nack(requeue=True)`."""
        self._broker.requeue(self._out)

    def refuse(self) -> None:
        """`basic.nack(requeue=False)`."""
        self._broker.refuse(self._out)


class MemorySubscription:
    """A consumer that comes back by itself on a new channel, whatever ended the last one."""

    def __init__(
        self,
        broker: MemoryBroker,
        queue: str,
        *,
        prefetch: int,
        deliver: Callable[[Delivery], None],
        on_event: OnEvent,
    ) -> None:
        """Keep what is asked for; `start` begins."""
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._deliver = deliver
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._consumer: Consumer | None = None
        self._paused = False
        self._wait = 0.0
        self._forget_retry: Callable[[], None] = lambda: None
        self.ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def ready(self) -> bool:
        """Whether the broker delivers to us now."""
        return self._consumer is not None

    @property
    def tag(self) -> str:
        """The consumer tag under which the broker lists us."""
        return self._consumer.tag if self._consumer else ""

    def start(self, connection: Connection) -> None:
        """Consume on a new channel; raises QueueMissing."""
        self._connection = connection
        channel = self._broker.open_channel(connection, self._channel_closed)
        try:
            self._consumer = self._broker.consume(
                channel,
                self._queue,
                prefetch=self._prefetch,
                deliver=self._receive,
                cancelled=self._cancelled,
            )
        except QueueMissing:
            self._broker.close_channel(channel)
            raise
        self._channel = channel
        self._wait = 0.0
        self._on_event(Consuming(self._queue))

    def _receive(self, out: Outstanding) -> None:
        # Never inside the call that made the message move: a network would not either.
        self._loop.call_soon(self._hand_over, out)

    def _hand_over(self, out: Outstanding) -> None:
        if out.consumer.channel.alive:
            self._deliver(MemoryDelivery(self._broker, out))

    # --- losing and coming back ------------------------------------------------------------------

    def _channel_closed(self, reason: str) -> None:
        # When the whole connection went, the transport says so itself.
        if self._connection and self._connection.alive:
            self._loop.call_soon(self._lost, self._consumer, reason)

    def _cancelled(self, reason: str) -> None:
        self._loop.call_soon(self._lost, self._consumer, reason)

    def _lost(self, consumer: Consumer | None, reason: str) -> None:
        """Leave the old channel, once for each consumer: a cancelled one may only be replaced on a new channel."""
        if consumer is None or consumer is not self._consumer:
            return
        self._leave()
        self._on_event(ConsumerLost(self._queue, reason, self._wait))
        self._retry()

    def _leave(self) -> None:
        channel, self._channel, self._consumer = self._channel, None, None
        if channel:
            self._broker.close_channel(channel)

    def _retry(self) -> None:
        """Consume again, now or after a wait that doubles while the queue is missing."""
        connection = self._connection
        if self._paused or connection is None or not connection.alive or self._consumer:
            return
        try:
            self.start(connection)
        except QueueMissing as error:
            self._wait = min(_LONGEST_WAIT, self._wait * 2 or _FIRST_WAIT)
            self._on_event(ConsumerLost(self._queue, str(error), self._wait))
            self._forget_retry = self._broker.clock.call_later(self._wait, self._retry)

    def disconnected(self, reason: str) -> None:
        """The transport lost its connection."""
        if self._consumer:
            self._channel = self._consumer = None
            self._on_event(ConsumerLost(self._queue, reason, 0.0))

    def reconnected(self, connection: Connection) -> None:
        """The transport has a connection again."""
        self._forget_retry()
        self._connection = connection
        self._retry()

    # --- ending ----------------------------------------------------------------------------------

    async def pause(self) -> None:
        """Stop deliveries for good; what was delivered can still be settled."""
        self._paused = True
        self._forget_retry()
        if self._consumer:
            self._broker.cancel(self._consumer)
            self._consumer = None
        await asyncio.sleep(0)  # what is on its way arrives before this returns

    async def close(self) -> None:
        """End the channel; what is unsettled goes back and counts."""
        await self.pause()
        self._leave()
