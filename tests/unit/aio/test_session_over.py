"""A session whose keeper is gone says so: whoever waited for the next connection would turn the loop for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from amqpkit.brokers.aio.session import Address, Session, SessionOver
from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.url import BrokerURL
from amqpkit.events import ignore


async def test_a_lost_connection_that_nobody_will_mend_is_not_waited_for():
    loop = asyncio.get_running_loop()
    session = Session("consume", Address(BrokerURL.parse("amqp://127.0.0.1:1"), "test", 10, 1.0), ignore, SystemClock())
    lost = loop.create_future()
    lost.set_result("closed")
    session._current = loop.create_future()
    session._current.set_result(SimpleNamespace(lost=lost))
    session._keeper = loop.create_task(asyncio.Event().wait())
    session._keeper.cancel()

    with pytest.raises(SessionOver, match="the transport is closed"):
        await asyncio.wait_for(session.link(), 5)
