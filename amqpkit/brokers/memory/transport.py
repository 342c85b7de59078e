"""`ports.Transport` on the in-memory broker: the same promises and the same events as a real connection's.

Only asyncio lives here; what messages do is the broker's.
"""

import asyncio
from collections.abc import Callable

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Connection, Fate
from amqpkit.brokers.memory.parcel import Parcel
from amqpkit.brokers.memory.subscription import MemorySubscription
from amqpkit.brokers.memory.wire import carried
from amqpkit.errors import (
    BrokerBlocked,
    ConnectionFailed,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unsendable,
)
from amqpkit.events import Connected, ConnectionLost, OnEvent, ignore
from amqpkit.model import Message
from amqpkit.ports import BrokerInfo, Delivery


class _Publish(Parcel):
    """One message on its way: waiting for a connection, then for its confirm."""

    def __init__(self, exchange: str, routing_key: str, message: Message, *, mandatory: bool) -> None:
        super().__init__(exchange, routing_key, message, mandatory=mandatory)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.forget_timeout: Callable[[], None] = lambda: None

    def told(self, fate: Fate, reason: str) -> None:
        """Hear the broker's answer, and tell it in a later turn, as a network would."""
        self.loop.call_soon(self.end, self.error_of(fate, reason))

    def end(self, error: PublishError | None) -> None:
        """Say how it ended, once."""
        self.forget_timeout()
        if self.future.done():
            return
        if error:
            self.future.set_exception(error)
        else:
            self.future.set_result(None)


class MemoryTransport:
    """A client of a MemoryBroker with two connections, one to publish and one to consume.

    Comes back by itself after `drop_connections`, in a later turn of the loop.
    """

    def __init__(self, broker: MemoryBroker, *, on_event: OnEvent = ignore) -> None:
        """Keep the broker; `open` connects."""
        self._memory = broker
        self._on_event = on_event
        self._publishing: Channel | None = None
        self._consuming: Connection | None = None
        self._subscriptions: list[MemorySubscription] = []
        self._waiting: list[_Publish] = []
        self._closed = False

    @property
    def broker(self) -> BrokerInfo:
        """Who answered."""
        return self._memory.info

    @property
    def blocked(self) -> bool:
        """Whether an alarm blocks our publishes."""
        return self._publishing is not None and self._publishing.connection.blocked

    async def open(self) -> None:
        """Connect; an in-memory broker always answers."""
        self._connect_to_publish()
        self._connect_to_consume()

    def _connect_to_publish(self) -> None:
        connection = self._memory.connect(lost=self._publisher_lost, unblocked=self._flush)
        self._publishing = self._memory.open_channel(connection, self._publish_channel_closed)
        self._on_event(Connected("publish", self._memory.info.cluster_name))
        self._flush()

    def _connect_to_consume(self) -> Connection:
        self._consuming = self._memory.connect(lost=self._consumer_lost)
        self._on_event(Connected("consume", self._memory.info.cluster_name))
        return self._consuming

    # --- publishing ------------------------------------------------------------------------------

    def publish(
        self,
        exchange: str,
        routing_key: str,
        message: Message,
        *,
        mandatory: bool = True,
        timeout: float = 30.0,
    ) -> asyncio.Future[None]:
        """Send now, or as soon as a connection stands and no alarm blocks it; see `ports.Transport.publish`."""
        publish = _Publish(exchange, routing_key, message, mandatory=mandatory)
        if self._closed:
            publish.end(publish.failure(PublishTimeout, "the transport is closed"))
            return publish.future
        try:
            publish.message = carried(message, exchange, routing_key)
        except Unsendable as error:
            publish.end(error)
            return publish.future
        publish.forget_timeout = self._memory.clock.call_later(timeout, lambda: self._time_out(publish, timeout))
        self._waiting.append(publish)
        self._flush()
        return publish.future

    def _flush(self) -> None:
        """Send what waits, in order, while the connection stands and is not blocked."""
        while self._waiting and (channel := self._publishing) and channel.alive and not channel.connection.blocked:
            publish = self._waiting.pop(0)
            publish.sent = True
            self._memory.publish(
                channel,
                publish.exchange,
                publish.routing_key,
                publish.message,
                mandatory=publish.mandatory,
                told=publish.told,
            )

    def _time_out(self, publish: _Publish, timeout: float) -> None:
        if publish.sent:
            publish.end(publish.failure(PublishUncertain, f"no confirm within {timeout:g} s"))
            return
        self._waiting.remove(publish)
        if self._memory.blocked:
            publish.end(publish.failure(BrokerBlocked, f"a memory alarm for {timeout:g} s"))
        else:
            publish.end(publish.failure(PublishTimeout, f"no connection for {timeout:g} s"))

    def _publisher_lost(self, reason: str) -> None:
        self._publishing = None
        self._on_event(ConnectionLost("publish", reason, 0.0))
        asyncio.get_running_loop().call_soon(self._reconnect_to_publish)

    def _publish_channel_closed(self, reason: str) -> None:
        """Open another channel when only the channel went, as after a publish to a missing exchange."""
        channel = self._publishing
        if channel and channel.connection.alive:
            self._memory.close_connection(channel.connection)
            self._publisher_lost(reason)

    def _reconnect_to_publish(self) -> None:
        if not self._closed:
            self._connect_to_publish()

    # --- consuming -------------------------------------------------------------------------------

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> MemorySubscription:
        """Start a consumer; raises QueueMissing; see `ports.Transport.consume`."""
        if self._consuming is None:
            msg = "the transport is not open"
            raise ConnectionFailed(msg)
        subscription = MemorySubscription(
            self._memory,
            queue,
            prefetch=prefetch,
            deliver=deliver,
            on_event=self._on_event,
        )
        subscription.start(self._consuming)
        self._subscriptions.append(subscription)
        return subscription

    def _consumer_lost(self, reason: str) -> None:
        self._consuming = None
        self._on_event(ConnectionLost("consume", reason, 0.0))
        for subscription in self._subscriptions:
            subscription.disconnected(reason)
        asyncio.get_running_loop().call_soon(self._reconnect_to_consume)

    def _reconnect_to_consume(self) -> None:
        if self._closed:
            return
        connection = self._connect_to_consume()
        for subscription in self._subscriptions:
            subscription.reconnected(connection)

    async def depth(self, queue: str) -> int:
        """How many messages are ready there; raises QueueMissing."""
        return self._memory.depth(queue)

    async def close(self) -> None:
        """Close both connections; what was sent and not confirmed becomes PublishUncertain."""
        self._closed = True
        for subscription in self._subscriptions:
            await subscription.close()
        for publish in self._waiting:
            publish.end(publish.failure(PublishTimeout, "the transport was closed before it was sent"))
        self._waiting.clear()
        for connection in (
            self._publishing and self._publishing.connection,
            self._consuming,
        ):
            if connection:
                self._memory.close_connection(connection)
        self._publishing = self._consuming = None
        await asyncio.sleep(0)
