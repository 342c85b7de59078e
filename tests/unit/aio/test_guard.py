"""The guard's stream: what pamqp can read passes as it is, what it cannot is mended, frame by frame."""

from __future__ import annotations

import asyncio
import struct
from datetime import UTC, datetime

import pytest
from aiormq.connection import TCPTransportFactory, TLSTransportFactory
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.exceptions import UnmarshalingException
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat
from yarl import URL

from amqpkit.brokers.aio import codec
from amqpkit.brokers.aio.guard import GuardedConnection, GuardedReader, GuardedTransport, mended_delivery, mended_header
from amqpkit.brokers.encoding import encode
from amqpkit.brokers.tables import SEALED, STAMPED
from amqpkit.model import Properties, Stamp
from tests.broker.foreign.raw import raw, short, table

FIXED = struct.pack(">HHQ", 60, 0, 2)
DELIVER = commands.Basic.Deliver(consumer_tag="c", delivery_tag=200, exchange="", routing_key="work")


def header(properties) -> bytes:
    return FIXED + properties.raw


def wire(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


async def through(data: bytes) -> list[object]:
    """The frames that aiormq would see."""
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    reader, found = GuardedReader(stream), []
    while not reader.at_eof():
        head = await reader.readexactly(1) + await reader.readexactly(6)
        rest = await reader.readexactly(struct.unpack(">I", head[3:])[0] + 1)
        found.append(frame.unmarshal(head + rest)[2])
    return found


def reads(payload: bytes) -> Properties:
    read = ContentHeader()
    read.unmarshal(payload)
    return codec.decode(read.properties)


def test_a_header_without_a_table_is_left_alone() -> None:
    properties = commands.Basic.Properties(message_id="m" * 200, timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    payload = ContentHeader(body_size=2, properties=properties).marshal()

    assert mended_header(payload) == payload


def test_a_table_is_handed_on_unread_and_a_forged_seal_opens_to_what_it_was() -> None:
    forged = commands.Basic.Properties(headers={SEALED: bytearray(b"xx"), "a": 1}, priority=7)
    mended = reads(mended_header(ContentHeader(body_size=2, properties=forged).marshal()))

    assert mended == Properties(headers={SEALED: b"xx", "a": 1}, priority=7)


def test_a_flag_that_stands_for_nothing_is_taken_away() -> None:
    properties = commands.Basic.Properties(message_id="m")
    payload = bytearray(ContentHeader(body_size=2, properties=properties).marshal())
    payload[13] |= 3

    assert reads(mended_header(bytes(payload))).message_id == "m"


@pytest.mark.parametrize(
    "front", [b"", short(b"a/b"), short(b"\xff")], ids=["first", "behind a text", "behind a bad one"]
)
@pytest.mark.parametrize("headers", [None, table(), table((b"a", b"t\x01"))], ids=["none", "empty", "some"])
@pytest.mark.parametrize("sent", [2**32, 1_772_366_400_000, 1_772_366_400_123_456, 253402300800000, 2**63, 2**64 - 1])
def test_a_timestamp_that_is_no_seconds_is_sent_on_as_it_came(sent: int, headers: bytes | None, front: bytes) -> None:
    flags = bool(front) << 15 | (headers is not None) << 13 | 1 << 7 | 1 << 6 | 1 << 5
    rest = (headers or b"") + short(b"m") + struct.pack(">Q", sent) + short(b"t")
    mended = reads(mended_header(FIXED + struct.pack(">H", flags) + front + rest))

    assert (mended.message_id, mended.type) == ("m", "t")
    assert mended.headers == ({"a": True} if headers and len(headers) > 4 else {})
    assert mended.content_type == (None if front != short(b"a/b") else "a/b")
    assert isinstance(mended.timestamp, Stamp)
    assert mended.timestamp.sent == sent
    assert struct.pack(">Q", sent) in encode(mended)


def test_seconds_stay_seconds() -> None:
    mended = reads(mended_header(header(raw(headers=table((b"a", b"t\x01")), message_id=b"m", timestamp=2**32 - 1))))

    assert type(mended.timestamp) is datetime
    assert mended.timestamp == datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)


def test_a_forged_seal_is_no_timestamp() -> None:
    forged = commands.Basic.Properties(headers={STAMPED: bytearray(b"\x01" * 8)}, message_id="m")
    mended = reads(mended_header(ContentHeader(body_size=2, properties=forged).marshal()))

    assert (mended.timestamp, mended.headers) == (None, {STAMPED: b"\x01" * 8})


def test_a_text_that_is_no_utf8_is_left_out() -> None:
    mended = reads(mended_header(header(raw(message_id=b"\xff", timestamp=5))))

    assert mended.message_id is None
    assert mended.timestamp == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


def deep() -> bytes:
    inner = table()
    for _ in range(3000):
        inner = table((b"t", b"F" + inner))
    return inner


@pytest.mark.parametrize(
    "headers",
    [
        table((b"a", b"?")),
        table((b"\xff", b"t\x01")),
        struct.pack(">I", 4) + b"\x09abc",
        deep(),
    ],
    ids=["unknown type", "name", "cut off", "too deep"],
)
def test_a_table_that_cannot_be_read_is_replaced_by_the_reason(headers: bytes) -> None:
    mended = reads(mended_header(header(raw(headers=headers, message_id=b"m", timestamp=5))))

    assert mended.message_id == "m"
    assert list(mended.headers or {}) == ["amqpkit-unreadable"]
    assert mended.timestamp is not None


def test_a_routing_key_that_is_no_utf8_gets_marks_of_the_same_length_or_shorter() -> None:
    start = b"\x00\x3c\x00\x3c" + short(b"c") + struct.pack(">QB", 200, 0)
    odd = start + short(b"events") + short(b"\xff" * 255)

    plain = start.replace(b"\xc8", b"\x05") + short(b"events") + short(b"note.made")
    assert mended_delivery(plain) is plain
    assert mended_delivery(odd) == start + short(b"events") + short(b"?" * 255)
    assert mended_delivery(start + short(b"\xe9") + short("é".encode())) == start + short(b"?") + short("é".encode())


async def test_only_the_headers_of_deliveries_are_mended() -> None:
    bad = wire(2, header(raw(message_id=b"m", timestamp=2**63)))
    good = frame.marshal(ContentBody(b"{}"), 1)
    deliver = frame.marshal(DELIVER, 1)

    found = await through(deliver + bad + good + frame.marshal(Heartbeat(), 0) + deliver + bad + good)

    kinds = ["Basic.Deliver", "ContentHeader", "ContentBody"]
    assert [each.name for each in found] == [*kinds, "Heartbeat", *kinds]
    returned = frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "", "k"), 1)
    with pytest.raises(UnmarshalingException, match="out of range"):
        await through(deliver + bad + good + returned + bad)


async def test_another_protocol_and_an_end_in_the_middle_are_told_as_they_are() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"AMQP\x00\x00\x09\x01rest")
    stream.feed_eof()
    reader = GuardedReader(stream)
    assert await reader.readexactly(1) + await reader.readexactly(6) == b"AMQP\x00\x00\x09"
    assert await reader.read() == b"\x01rest"
    assert reader.at_eof()

    stream = asyncio.StreamReader()
    stream.feed_data(frame.marshal(DELIVER, 1)[:-3])
    stream.feed_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await GuardedReader(stream).readexactly(1)


@pytest.mark.parametrize(("scheme", "factory"), [("amqp", TCPTransportFactory), ("amqps", TLSTransportFactory)])
async def test_it_connects_as_aiormq_does(monkeypatch: pytest.MonkeyPatch, scheme: str, factory: type) -> None:
    stream = asyncio.StreamReader()

    async def create(_self: object, _url: URL, **_: object) -> tuple[object, str]:
        return stream, "writer"

    monkeypatch.setattr(factory, "create", create)

    reader, writer = await GuardedTransport().create(URL(f"{scheme}://localhost/"))

    assert isinstance(reader, GuardedReader)
    assert writer == "writer"


async def test_a_connection_is_guarded() -> None:
    connection = GuardedConnection(URL("amqp://localhost/"))

    assert isinstance(connection.kwargs["transport_factory"], GuardedTransport)
