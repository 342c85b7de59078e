"""Header tables keep every type through a guarded connection: what is sent on is byte for byte what came."""

import json
import pickle
import struct
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.header import ContentHeader

from amqpkit.brokers import encoding
from amqpkit.brokers.aio import codec
from amqpkit.brokers.aio.guard import mended_header
from amqpkit.model import Float32, Int8, Int16, Int32, Properties, Stamp, Text, UInt8, UInt16, UInt32
from tests.broker.foreign.raw import raw, table

FIXED = struct.pack(">HHQ", 60, 0, 2)


def received(headers: bytes) -> Properties:
    """What a delivery says whose table is these bytes."""
    read = ContentHeader()
    read.unmarshal(mended_header(FIXED + raw(headers=headers).raw))
    return codec.decode(read.properties)


VALUES = {
    "Java's Integer": (b"I\xff\xff\xff\xfe", -2, Int32),
    "unsigned": (b"i\xff\xff\xff\xfe", 2**32 - 2, UInt32),
    "short": (b"s\xff\xfe", -2, Int16),
    "unsigned short": (b"u\xff\xfe", 65534, UInt16),
    "byte": (b"b\xfe", -2, Int8),
    "unsigned byte": (b"B\xfe", 254, UInt8),
    "long": (b"l" + struct.pack(">q", -5), -5, int),
    "float": (b"f" + struct.pack(">f", 0.5), 0.5, Float32),
    "double": (b"d" + struct.pack(">d", 0.1), 0.1, float),
    "text": (b"S\x00\x00\x00\x02\xc3\xa9", "é", str),
    "text that is none": (b"S\x00\x00\x00\x01\xff", b"\xff", Text),
    "bytes": (b"x\x00\x00\x00\x01\xff", b"\xff", bytes),
    "true": (b"t\x01", True, bool),
    "none": (b"V", None, type(None)),
    "time": (b"T" + struct.pack(">Q", 5), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), datetime),
    "time in milliseconds": (
        b"T" + struct.pack(">Q", 1_772_366_400_500),
        datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC),
        Stamp,
    ),
    "time that no calendar has": (b"T" + struct.pack(">Q", 2**63), Stamp.of(2**63), Stamp),
    "decimal": (b"D\x02\x00\x00\x00\x78", Decimal("1.20"), Decimal),
    "negative decimal": (b"D\x02\xff\xff\xff\xff", Decimal("-0.01"), Decimal),
    "array": (b"A\x00\x00\x00\x07I\x00\x00\x00\x01t\x00", [1, False], list),
    "table": (b"F" + table((b"b", b"I\x00\x00\x00\x01")), {"b": 1}, dict),
}


@pytest.mark.parametrize(("wire", "value", "kind"), VALUES.values(), ids=VALUES)
def test_a_value_is_read_equal_and_sent_on_as_it_came(wire: bytes, value: Any, kind: type) -> None:
    headers = table((b"a", wire), (b"z", b"t\x01"))
    properties = received(headers)

    assert properties.headers == {"a": value, "z": True}
    assert type(properties.headers["a"]) is kind
    assert encoding.encode(properties)[2:] == headers


def test_a_number_of_a_class_of_its_own_is_a_number() -> None:
    class Level(IntEnum):
        HIGH = 3

    assert encoding.encode(Properties(headers={"a": Level.HIGH}))[2:] == table((b"a", b"l" + struct.pack(">q", 3)))


def test_narrow_numbers_are_numbers_everywhere_else() -> None:
    number, real = Int32(7), Float32(0.5)

    assert json.dumps([number, real]) == "[7, 0.5]"
    assert pickle.loads(pickle.dumps(number)) == 7  # noqa: S301 - our own
    assert f"{number} {number!r} {real}" == "7 7 0.5"
    assert type(number + 1) is int


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x01aI\x00\x00", "struct.error|error"),
        (b"\x01aS\x00\x00\x00\x09abc", "bytes are missing"),
        (b"\x01aT\x00", "IndexError"),
        (b"\x01a", "IndexError"),
        (b"\x01aA\x00\x00\x00\x02I\x00", "error"),
        (b"\x01aF\x00\x00\x00\x03\x01aI\x00\x00\x00\x01", "longer than its table"),
        (b"\x01aA\x00\x00\x00\x01I\x00\x00\x00\x01", "longer than its array"),
        (b"\x01a?", "unknown type"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(content: bytes, why: str) -> None:
    headers = received(len(content).to_bytes(4, "big") + content).headers

    assert list(headers) == ["amqpkit-unreadable"]
    assert any(each in headers["amqpkit-unreadable"] for each in why.split("|"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_or_say_why_not(content: bytes) -> None:
    headers = received(len(content).to_bytes(4, "big") + content).headers

    for name in headers:
        assert isinstance(name, str)


def test_a_table_with_ten_thousand_entries_is_read_at_once() -> None:
    headers = table(*((b"%05d" % number, b"t\x01") for number in range(10_000)))

    assert len(received(headers).headers) == 10_000
