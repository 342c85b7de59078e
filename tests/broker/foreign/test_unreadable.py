"""What the client library cannot read does not cost the connection: the message ends, the others are handled."""

from __future__ import annotations

import struct

import pytest

from amqpkit.events import ConnectionLost, ConsumerLost
from tests.broker.foreign.raw import raw, table
from tests.broker.life.ledger import open_channel
from tests.broker.life.rig import applied, handling, until

TIMES = [2**63, 2**64 - 1, 253402300800000]
"""Far future, the greatest there is, and the year 10000 in milliseconds."""


@pytest.mark.parametrize("timestamp", TIMES)
async def test_a_timestamp_beyond_every_calendar_keeps_nobody_from_the_message(broker, timestamp):
    inner = table((b"when", b"T" + struct.pack(">Q", timestamp)))
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer) as worker:
            for name, headers in ((b"bare", None), (b"odd", inner), (b"deep", table((b"inner", b"F" + inner)))):
                await rig.send("work", (b"{}", raw(message_id=name, timestamp=timestamp, headers=headers)))
            good = await rig.publish()
            await until(lambda: len(rig.settled()) == 4, "all are settled")
            assert worker.ready
        assert sorted(calls.handled) == sorted(["bare", "odd", "deep", good])
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []
        assert await rig.ledger() == {}


@pytest.mark.parametrize("timestamp", [1_772_366_400_500, *TIMES])
async def test_a_copy_says_the_time_as_its_producer_did(broker, timestamp):
    async with applied(broker) as rig:
        consumer, _ = handling("work")
        async with rig.working(consumer):
            await rig.send("work", (b"{", raw(message_id=b"odd", timestamp=timestamp)))
            await until(lambda: len(rig.settled()) == 1, "it is settled")
        (letter,) = await rig.take()
        assert (letter.fate, letter.properties.timestamp) == ("invalid", timestamp)


def nested(depth: int) -> bytes:
    """Tables in tables, each a byte longer than the last."""
    inner = table()
    for _ in range(depth):
        inner = table((b"t", b"F" + inner))
    return inner


@pytest.mark.parametrize(
    "headers",
    [
        table((b"\xff", b"t\x01")),
        nested(3000),
        table((b"inner", b"F" + table((b"\xff", b"t\x01")))),
    ],
    ids=["name", "too deep", "name inside"],
)
async def test_headers_that_cannot_be_read_make_the_message_invalid(broker, headers):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send("work", (b'{"failures": 0}', raw(headers=headers, message_id=b"odd")))
            good = await rig.publish()
            await until(lambda: len(rig.settled()) == 2, "both are settled")
        assert calls.handled == [good]
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []
        (letter,) = await rig.take()
        assert (letter.queue, letter.message_id, letter.body, letter.fate) == (
            "work.dlq",
            "odd",
            b'{"failures": 0}',
            "invalid",
        )
        assert "headers cannot be read" in letter.headers["amqpkit-error"]["message"]


async def test_a_message_id_that_is_no_utf8_is_left_out(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send("work", (b"{}", raw(message_id=b"\xff\xfe", timestamp=1)))
            good = await rig.publish()
            await until(lambda: len(rig.settled()) == 2, "both are settled")
        assert set(calls.handled) == {None, good}
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []


async def test_a_routing_key_that_is_no_utf8_is_read_with_marks(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.in_thread(send_by_key, b"note.caf\xe9")
            await until(lambda: len(rig.settled()) == 1, "it is settled")
        assert [call.routing_key for call in calls.begun] == ["note.caf?"]
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []


def send_by_key(url, key):
    channel = open_channel(url)
    try:
        channel.basic_publish("events", key, b"{}", mandatory=True)
    finally:
        channel.connection.close()
