import asyncio

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.model import Binding, Exchange, Message, Properties, Queue


async def test_smoke():
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    admin = MemoryAdmin(broker)
    for wanted in (
        Exchange("retry"),
        Exchange("dlx", "fanout"),
        Exchange("mail", "topic"),
        Queue(
            "work",
            arguments={
                "x-queue-type": "quorum",
                "x-dead-letter-exchange": "dlx",
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
            },
        ),
        Queue(
            "work.retry.10m",
            arguments={
                "x-queue-type": "quorum",
                "x-message-ttl": 600000,
                "x-dead-letter-exchange": "retry",
                "x-dead-letter-routing-key": "return",
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
                "x-delivery-limit": -1,
            },
        ),
        Queue("work.dlq"),
        Binding("retry", "work.retry.10m", "10m"),
        Binding("retry", "work", "return"),
        Binding("dlx", "work.dlq"),
        Binding("mail", "work", "mail.#"),
    ):
        await admin.create(wanted)
    events = []
    transport = MemoryTransport(broker, on_event=events.append)
    await transport.open()
    got = []
    sub = await transport.consume("work", prefetch=2, deliver=got.append)
    sent = transport.publish("mail", "mail.x", Message(b"hi", Properties(message_id="m")))
    await sent
    await clock.settle()
    assert len(got) == 1
    await transport.publish("retry", "10m", Message(b"hi", Properties(message_id="m")))
    got.pop().ack()
    await clock.advance("9m")
    assert broker.ledger() == {"work.retry.10m": ["m"]}
    await clock.advance("1m")
    back = got.pop()
    assert back.properties.headers["x-death"][0]["queue"] == "work.retry.10m"
    back.refuse()
    await clock.settle()
    assert broker.ledger() == {"work.dlq": ["m"]}
    assert broker.journey("m") == ["work", "work.retry.10m", "work", "work.dlq"]
    broker.drop_connections()
    await clock.settle()
    assert sub.ready
    await transport.close()
    print(events, await admin.read())
