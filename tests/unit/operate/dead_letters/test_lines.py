"""A letter as a line of JSON comes back as it was, and a line that is none says why."""

import contextlib
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.model import Float32, Int8, Int16, Int32, Properties, Stamp, Text, UInt8, UInt16, UInt32
from amqpkit.operate.dead_letters.lines import DEPTH_MAX, from_line, to_line
from tests.unit.operate.dead_letters.letters import Found

NARROW = {Int8: (-128, 127), UInt8: (0, 255), Int16: (-(2**15), 2**15 - 1), UInt16: (0, 2**16 - 1)} | {
    Int32: (-(2**31), 2**31 - 1),
    UInt32: (0, 2**32 - 1),
}
TIMES = st.datetimes(timezones=st.just(UTC)) | st.integers(2**32, 2**64 - 1).map(Stamp.of)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([kind(bound) for kind, bounds in NARROW.items() for bound in bounds])
    | st.floats(allow_nan=False)
    | st.floats(width=32, allow_nan=False).map(Float32)
    | st.text()
    | st.binary()
    | st.binary().map(Text)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | TIMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.just("$int32"), inner),
    max_leaves=12,
)
SHORT = st.none() | st.text(max_size=30)


def typed(value: Any) -> Any:
    """A value that is equal to another only when all its types are."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, Stamp):
        return (Stamp, value.sent)
    return (type(value), str(value)) if isinstance(value, Decimal | float) else (type(value), value)


@settings(max_examples=60)
@given(
    st.binary(max_size=40) | st.text(max_size=40).map(str.encode),
    st.builds(
        Properties,
        content_type=SHORT,
        content_encoding=SHORT,
        headers=st.dictionaries(st.text(max_size=12), VALUES, max_size=4),
        delivery_mode=st.none() | st.integers(0, 255),
        priority=st.none() | st.integers(0, 255),
        correlation_id=SHORT,
        reply_to=SHORT,
        expiration=SHORT,
        message_id=SHORT,
        timestamp=st.none() | TIMES,
        type=SHORT,
        user_id=SHORT,
        app_id=SHORT,
    ),
    st.text(max_size=12),
)
def test_a_letter_comes_back_as_it_was(body: bytes, properties: Properties, key: str) -> None:
    line = to_line(Found(body=body, properties=properties, routing_key=key), reason="a\nb")
    kept = from_line(line)

    assert line.isascii()
    assert "\n" not in line
    assert (kept.queue, kept.exchange, kept.routing_key) == ("orders.dlq", "orders.dlx", key)
    assert kept.message.body == body
    assert kept.message.properties == properties
    assert typed(kept.message.properties.timestamp) == typed(properties.timestamp)
    assert typed(dict(kept.message.properties.headers)) == typed(dict(properties.headers))
    assert kept.extra == {"reason": "a\nb"}


def test_what_is_no_number_is_kept_too() -> None:
    kept = from_line(to_line(Found(properties=Properties(headers={"a": math.nan, "b": -math.inf}))))

    assert math.isnan(kept.message.properties.headers["a"])
    assert kept.message.properties.headers["b"] == -math.inf


def test_a_line_can_be_read_by_people() -> None:
    properties = Properties(
        headers={"n": Int32(5), "text": "é", "big": 2**60}, timestamp=datetime(2026, 1, 1, tzinfo=UTC)
    )

    assert json.loads(to_line(Found(properties=properties))) == {
        "format": "amqpkit-letter",
        "version": 1,
        "queue": "orders.dlq",
        "exchange": "orders.dlx",
        "routing_key": "orders",
        "properties": {
            "headers": {"n": {"$int32": 5}, "text": "é", "big": {"$int64": str(2**60)}},
            "timestamp": {"$time": "2026-01-01T00:00:00+00:00"},
        },
        "body": '{"id": "o-1"}',
    }


def test_headers_nested_beyond_all_reading_are_not_written() -> None:
    deep: Any = 1
    for _ in range(DEPTH_MAX + 2):
        deep = [deep]

    with pytest.raises(ValueError, match="nested deeper"):
        to_line(Found(properties=Properties(headers={"a": deep})))


GOOD: dict[str, Any] = {
    "format": "amqpkit-letter",
    "version": 1,
    "queue": "q",
    "exchange": "",
    "routing_key": "k",
    "properties": {},
    "body": "x",
}


def header(value: Any) -> dict[str, Any]:
    return {"properties": {"headers": {"h": value}}}


@pytest.mark.parametrize(
    ("difference", "why"),
    [
        ({"format": "other"}, "it is no letter"),
        ({"version": 2}, "version 2 is unknown"),
        ({"version": True}, "version true is unknown"),
        ({"version": "1"}, "unknown"),
        ({"more": 1}, '"more" is unknown'),
        ({"queue": 1}, '"queue" is missing'),
        ({"routing_key": None}, '"routing_key" is missing'),
        ({"properties": []}, '"properties" is missing'),
        ({"properties": {"colour": "x"}}, 'no property "colour"'),
        ({"properties": {"priority": 256}}, '"priority" cannot be 256'),
        ({"properties": {"priority": True}}, '"priority" cannot be true'),
        ({"properties": {"type": 5}}, '"type" cannot be 5'),
        ({"properties": {"headers": []}}, '"headers" cannot be'),
        ({"properties": {"timestamp": "2026"}}, '"timestamp" cannot be'),
        ({"properties": {"timestamp": {"$time": "2026-01-01T00:00:00"}}}, "is no time"),
        ({"properties": {"timestamp": {"$stamp": "5"}}}, "is no stamp"),
        ({"properties": {"timestamp": {"$stamp": str(2**64)}}}, "is no stamp"),
        ({"body": None}, "one of them"),
        ({"body_base64": "eA=="}, "one of them"),
        ({"body": None, "body_base64": "*"}, "base64 is damaged"),
        ({"body": "\ud800"}, "lone surrogate"),
        ({"extra": []}, '"extra"'),
        (header({"$int32": 2**31}), "is no int32"),
        (header({"$uint8": -1}), "is no uint8"),
        (header({"$int8": "5"}), "is no int8"),
        (header({"$int64": "x"}), "is no int64"),
        (header({"$double": "x"}), "is no double"),
        (header({"$decimal": "x"}), "is no decimal"),
        (header({"$bytes": 5}), "is no bytes"),
        (header({"$bytes": "*"}), "is no bytes"),
        (header({"$colour": 5}), r'"\$colour" is no type'),
        (header({"$int8": 5, "b": 1}), "is no type"),
        (header({"b": 5, "$int8": 1}), "is no type"),
        (header({"$table": 1}), r'"\$table" is no object'),
        (header(1.5), "has no type"),
    ],
)
def test_a_line_that_is_none_says_why(difference: dict[str, Any], why: str) -> None:
    line = {name: value for name, value in {**GOOD, **difference}.items() if value is not None or name == "routing_key"}

    assert from_line(json.dumps(GOOD))
    with pytest.raises(ValueError, match=why):
        from_line(json.dumps(line))


def test_a_line_nested_beyond_all_reading_is_refused() -> None:
    deep: Any = 1
    for _ in range(600):
        deep = [deep]

    with pytest.raises(ValueError, match="nested too deeply"):
        from_line(json.dumps({**GOOD, **header(deep)}))


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "NaN", '{"a": Infinity}', "[" * 100_000, "\x00", "9" * 5000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is"):
        from_line(text)


@settings(max_examples=25)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_document_is_a_letter_or_a_value_error(document: Any) -> None:
    for line in (document, {**GOOD, **header(document)}, {**GOOD, "properties": document}):
        with contextlib.suppress(ValueError):
            assert from_line(json.dumps(line)).queue == "q"
