"""Questions on channels that come and go: aiormq counts channels without the limit that was agreed upon."""

import asyncio

from amqpkit.brokers.aio.session import ASIDES, Address, Session
from amqpkit.brokers.aio.wire import Channel
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.url import BrokerURL
from amqpkit.events import ignore
from tests.containers.brokers import Broker


async def test_however_many_ask_few_channels_are_open_at_once(broker: Broker):
    # at its 2,047th channel the broker would end the connection (measured)
    session = Session("ask", Address(BrokerURL.parse(broker.url), "asides", 10, 10.0), ignore, SystemClock())
    link = await session.open()
    most = 0

    async def ask() -> bool:
        nonlocal most
        async with Channel.aside(link) as channel:
            underlay = link.connection.transport
            assert underlay is not None
            most = max(most, len(underlay.connection.channels) - 1)  # without channel 0
            return await channel.has_exchange("amq.direct")

    assert await asyncio.gather(*(ask() for _ in range(100))) == [True] * 100
    await session.close()
    assert 1 < most <= ASIDES
