"""Properties to bytes and back, with pamqp's decoder as the second opinion."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from amqpkit.brokers.aio import codec
from amqpkit.brokers.aio.codec import Encoded
from amqpkit.brokers.encoding import UnencodableError, encode
from amqpkit.model import Properties


def through_the_wire(properties: Properties) -> Properties:
    """Encode as the transport does and decode as aiormq does."""
    header = ContentHeader()
    header.unmarshal(ContentHeader(properties=Encoded(encode(properties))).marshal())
    return codec.decode(header.properties)


def header(value: Any) -> Any:
    return through_the_wire(Properties(headers={"h": value})).headers["h"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=60), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_comes_back_equal(value: Any):
    assert header(value) == value


@given(
    st.builds(
        Properties,
        content_type=st.none() | st.text(min_size=1, max_size=60),
        delivery_mode=st.none() | st.integers(0, 255),
        priority=st.none() | st.integers(0, 255),
        correlation_id=st.none() | st.text(min_size=1, max_size=60),
        reply_to=st.none() | st.text(min_size=1, max_size=60),
        expiration=st.none() | st.integers(0, 2**32).map(str),
        message_id=st.none() | st.text(min_size=1, max_size=60),
        # pamqp reads seconds beyond 2106 as milliseconds: the guard keeps those from it.
        timestamp=st.none() | st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
        type=st.none() | st.text(min_size=1, max_size=60),
        user_id=st.none() | st.text(min_size=1, max_size=60),
        app_id=st.none() | st.text(min_size=1, max_size=60),
    )
)
def test_every_property_comes_back_equal_and_absent_ones_stay_absent(properties: Properties):
    assert through_the_wire(properties) == properties


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1.25"), Decimal("1.25")),
        (Decimal("1E+3"), Decimal(1000)),
        (datetime(2026, 1, 2, 3, 4, 5, 678, UTC), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), datetime(2026, 1, 2, 2, tzinfo=UTC)),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (bytearray(b"\xff"), b"\xff"),
    ],
)
def test_some_values_come_back_in_a_simpler_form(value: Any, expected: Any):
    assert header(value) == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Decimal("12345678901234567890.12"), "32-bit decimal"),
        (Decimal("NaN"), "32-bit decimal"),
        (Decimal("1E-256"), "32-bit decimal"),
        ((1, 2), "tuple"),
        ({1}, "set"),
        (UUID(int=5), "UUID"),
        (object(), "object"),
        (datetime(2026, 1, 1), "time zone"),  # noqa: DTZ001 - the very point
        (datetime(1969, 1, 1, tzinfo=UTC), "1970"),
        ("\ud800", "surrogate"),
        ({1: "a"}, "must be a str"),
        ({"k" * 256: 1}, "256 bytes"),
        ([[{"deep": float("nan")}]], "header h deep"),
    ],
)
def test_what_cannot_be_encoded_says_where_and_why(value: Any, why: str):
    with pytest.raises(UnencodableError, match=why):
        encode(Properties(headers={"h": value}))


def test_endless_headers_are_refused():
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(UnencodableError, match="nested"):
        encode(Properties(headers={"h": endless}))


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (Properties(headers=[]), None),
        (Properties(headers=["not", "a", "mapping"]), "mapping"),  # type: ignore[arg-type]
        (Properties(headers={"CC": ["a", "b"]}), None),
        (Properties(headers={"CC": "a"}), "CC"),
        (Properties(headers={"BCC": [1]}), "BCC"),
        (Properties(priority=256), "priority"),
        (Properties(delivery_mode=-1), "delivery_mode"),
        (Properties(expiration=""), "expiration"),
        (Properties(expiration="1.5"), "expiration"),
        (Properties(expiration="-1"), "expiration"),
        (Properties(expiration="٣"), "expiration"),
        (Properties(expiration="315360000000"), None),
        (Properties(expiration="315360000001"), "expiration"),
        (Properties(type="ü" * 127), None),
        (Properties(type="ü" * 128), "256 bytes"),
        (Properties(message_id=7), "message_id"),  # type: ignore[arg-type]
        (Properties(timestamp="now"), "timestamp"),  # type: ignore[arg-type]
    ],
)
def test_properties_are_checked_as_the_broker_would(properties: Properties, why: str | None):
    if why is None:
        assert encode(properties)
    else:
        with pytest.raises(UnencodableError, match=why):
            encode(properties)


def test_what_pamqp_encodes_is_decoded_the_same():
    raw = Basic.Properties(content_type="text/plain", headers={"a": [1, {"b": 1.5}]}, message_type="t")

    assert codec.decode(raw) == Properties(content_type="text/plain", headers={"a": [1, {"b": 1.5}]}, type="t")
