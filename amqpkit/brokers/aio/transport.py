"""A ports.Transport on aio-pika."""

import asyncio
from collections.abc import Callable

from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.outbox import Outbox
from amqpkit.brokers.aio.session import Address, Session
from amqpkit.brokers.aio.subscription import AioSubscription, Order
from amqpkit.brokers.aio.wire import Channel
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import ConnectionFailed
from amqpkit.events import OnEvent, ignore
from amqpkit.model import Message
from amqpkit.ports import BrokerInfo, Clock, Delivery, Subscription


class AioTransport:
    """The way to a RabbitMQ for messages: one connection to publish, another to consume.

    Two, because a broker in a memory alarm stops reading from a connection that publishes, acks and all.
    Lost connections and channels come back by themselves. URLs with their passwords are never logged or shown.
    """

    def __init__(  # noqa: PLR0913 - keyword-only settings, each with its default
        self,
        url: str | BrokerURL,
        *,
        name: str = "amqpkit",
        heartbeat: int = 10,
        connect_timeout: float = 10.0,
        on_event: OnEvent = ignore,
        clock: Clock | None = None,
    ) -> None:
        """Store; raises BrokerError when the URL cannot be read. `name` is what the broker shows of us."""
        place = BrokerURL.parse(url) if isinstance(url, str) else url
        self._address = Address(place, name, heartbeat, connect_timeout)
        self._on_event = on_event
        self._clock: Clock = clock or SystemClock()
        self._publishing = Session("publish", self._address, on_event, self._clock)
        self._consuming: Session | None = None
        self._outbox: Outbox | None = None
        self._subscriptions: list[AioSubscription] = []
        self._opening = asyncio.Lock()
        self._broker: BrokerInfo | None = None
        self._closed = False

    @property
    def broker(self) -> BrokerInfo:
        """Who answered; only after `open`."""
        if self._broker is None:
            msg = "the transport is not open"
            raise ConnectionFailed(msg)
        return self._broker

    @property
    def blocked(self) -> bool:
        """Whether the broker has told us that it takes no publishes (`connection.blocked`)."""
        return self._outbox is not None and self._outbox.alarm is not None

    async def open(self) -> None:
        """Connect to publish; raises AccessRefused at once, ConnectionFailed when nobody answers within the timeout."""
        self._closed = False
        link = await self._publishing.open()
        self._broker = link.info
        self._outbox = Outbox(self._publishing, self._clock)
        self._outbox.start()

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> asyncio.Future[None]:
        """Send now or as soon as a connection stands; the future carries a PublishError when that fails.

        A message without an id gets a random one when it is mandatory: a returned message is known by nothing else.
        """
        if self._outbox is None:
            msg = "the transport is not open"
            raise ConnectionFailed(msg)
        return self._outbox.put(exchange, routing_key, message, mandatory=mandatory, timeout=timeout)

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> Subscription:
        """Start a consumer; raises QueueMissing or AccessRefused when that is so from the start."""
        session = await self._consuming_session()
        subscription = AioSubscription(session, Order(queue, prefetch, deliver), self._on_event, self._clock)
        await subscription.start()
        # whoever looks into a queue now and then for weeks must not be remembered for each time
        self._subscriptions = [*(each for each in self._subscriptions if not each.closed), subscription]
        return subscription

    async def depth(self, queue: str) -> int:
        """How many messages are ready there; raises QueueMissing.

        Asked on the connection that consumes: in an alarm the broker does not read the one that publishes.
        """
        try:
            session = await self._consuming_session()
            async with Channel.aside(await session.link()) as channel:
                return await channel.messages_ready(queue)
        except faults.TROUBLE as error:
            raise faults.at_queue(faults.loss(error), queue, "look at") from error

    async def close(self) -> None:
        """Close the connections; unconfirmed publishes become PublishUncertain."""
        self._closed = True
        subscriptions, self._subscriptions = self._subscriptions, []
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))
        await asyncio.gather(self._close_publishing(), self._close_consuming())

    async def _close_publishing(self) -> None:
        if self._outbox is not None:
            await self._outbox.close()
        await self._publishing.close()

    async def _close_consuming(self) -> None:
        consuming, self._consuming = self._consuming, None
        if consuming is not None:
            await consuming.close()

    async def _consuming_session(self) -> Session:
        async with self._opening:
            if self._consuming is None and not self._closed:
                session = Session("consume", self._address, self._on_event, self._clock)
                await session.open()
                self._consuming = session
                if self._closed:  # meanwhile: nobody else would close it
                    await self._close_consuming()
            if self._consuming is None:
                msg = "the transport is closed"
                raise ConnectionFailed(msg)
            return self._consuming
