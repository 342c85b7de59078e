"""Listeners that do what they should not: a producer tells them so, and serves everybody else."""

from __future__ import annotations

import threading

import pytest

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.deliver.blocking import BlockingPublisher
from amqpkit.events import Connected
from tests.broker.producers.rig import Gated, Plain, applied, contents
from tests.containers.brokers import Broker


@pytest.mark.parametrize("payload", [Plain(), Gated()])
async def test_a_listener_that_publishes_in_the_thread_that_it_would_wait_for_is_told_so(
    broker: Broker, caplog: pytest.LogCaptureFixture, payload: Plain | Gated
):
    topology, ids = await applied(broker), list[str]()

    def publish(event: object) -> None:
        if isinstance(event, Connected):
            publisher.publish(payload)

    transport = PikaTransport(broker.url, on_event=publish)
    publisher = BlockingPublisher(topology, transport, timeout=10.0)

    def program() -> None:
        with transport:
            ids.append(publisher.publish(Plain()))

    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for a thread that waits for itself"
    assert await contents(broker, "plain") == ids
    assert "this is the transport's own thread" in caplog.text
