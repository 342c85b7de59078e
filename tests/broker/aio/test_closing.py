"""How a transport closes while its broker is stuck or somebody asks, and how it opens again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.errors import ConnectionFailed, PublishUncertain
from amqpkit.testing.proxy import FaultProxy
from tests.broker.aio.rig import Rig, message, until
from tests.containers.brokers import Broker


@pytest.fixture
async def proxy(broker: Broker) -> AsyncIterator[FaultProxy]:
    place = urlsplit(broker.url)
    async with FaultProxy(place.hostname or "", place.port or 0) as proxy:
        yield proxy


@pytest.mark.parametrize("under_way", [0, 3])
async def test_a_stuck_broker_is_not_waited_for_once_on_each_channel_and_connection(
    rig: Rig, proxy: FaultProxy, under_way: int
):
    transport = AioTransport(proxy.redirect(rig.broker.url))
    await transport.open()
    await rig.queue("q")
    await transport.depth("q")
    await transport.publish("", "q", message())
    proxy.stall()
    futures = [transport.publish("", "q", message()) for _ in range(under_way)]
    await until(lambda: transport._outbox is not None and len(transport._outbox._under_way) == under_way)

    began = time.monotonic()
    await transport.close()

    assert time.monotonic() - began < 7.5, "two seconds for the messages, five for a goodbye"
    assert all(isinstance(future.exception(), PublishUncertain) for future in futures)


async def test_who_asks_while_it_closes_or_afterwards_leaves_no_connection(rig: Rig, proxy: FaultProxy):
    transport = AioTransport(proxy.redirect(rig.broker.url))
    await transport.open()
    await rig.queue("q")
    proxy.stall()
    asking = asyncio.create_task(transport.depth("q"))
    await until(lambda: proxy.accepted == 2)

    await transport.close()
    proxy.resume()

    with pytest.raises(ConnectionFailed, match="the transport is closed"):
        await asking
    with pytest.raises(ConnectionFailed, match="the transport is closed"):
        await transport.depth("q")
    await until(lambda: proxy.connections == 0)
    assert proxy.accepted == 2


async def test_it_can_be_opened_again(rig: Rig):
    transport = AioTransport(rig.broker.url)
    await rig.queue("q")
    for depth in (0, 1):
        await transport.open()
        assert await transport.depth("q") == depth
        await transport.publish("", "q", message())
        await rig.stays("q", depth + 1)
        await transport.close()
