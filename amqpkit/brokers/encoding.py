"""Message properties to bytes, for every client library alike, and what a broker's limits make of them.

The libraries' own encoders lose what a copy of somebody else's message must keep: pamqp makes floats single precision
(0.1 is 0.10000000149 afterwards), cuts keys at 128 bytes and refuses bytes, pika refuses floats (all measured); both
give every number 64 bits, which breaks a Java reader that casts to Integer. So headers are encoded here, before
anything is sent, and handed over as properties that know their bytes already.
Pure.
"""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from amqpkit.brokers.tables import WRITERS
from amqpkit.model import Float32, Narrow, Properties, Stamp, Text

BODY_LIMIT: Final = 16_777_216
"""RabbitMQ's `max_message_size` by default; one byte more closes the channel with 406."""
FRAME_LIMIT: Final = 131_064
"""What a content header may hold at the default frame_max of 131,072; more closes the connection with 501."""
HEADER_FIXED: Final = 12
"""Class, weight and body size, which stand before the properties in the content header."""
SHORT: Final = 255

_MANTISSA: Final = range(-(2**31), 2**31)
_SIZE = struct.Struct(">I").pack
_INT = struct.Struct(">q").pack
_DOUBLE = struct.Struct(">d").pack
_FLOAT = struct.Struct(">f").pack
_TIME = struct.Struct(">Q").pack
_DECIMAL = struct.Struct(">Bi").pack
_FLAGS = struct.Struct(">H").pack
_TEN_YEARS: Final = 315_360_000_000
"""The longest TTL that RabbitMQ takes, in milliseconds."""


class UnencodableError(ValueError):
    """A property that no broker could take; says which one and why."""


def encode(properties: Properties) -> bytes:
    """Encode the properties of a message, flags first. Raises UnencodableError."""
    flags, parts = 0, []
    for bit, name, write in _LAYOUT:
        value = getattr(properties, name)
        if value is None or (name == "headers" and not value):
            continue
        flags |= bit
        parts.append(write(name, value))
    return _FLAGS(flags) + b"".join(parts)


def short(name: str, value: object) -> bytes:
    """Encode a short string, which holds 255 bytes at most. Raises UnencodableError."""
    data = _text(name, value)
    if len(data) > SHORT:
        msg = f"{name} is {len(data)} bytes long; AMQP allows {SHORT}"
        raise UnencodableError(msg)
    return bytes((len(data),)) + data


def too_large(body: bytes, properties: bytes, header_limit: int = FRAME_LIMIT) -> str:
    """Say why a message is too large for any broker, or for the frame size that was agreed upon; else nothing."""
    header = HEADER_FIXED + len(properties)
    if len(body) > BODY_LIMIT:
        return f"its body has {len(body)} bytes; {BODY_LIMIT} are allowed"
    if header > header_limit:
        return f"its properties and headers take {header} bytes; {header_limit} are allowed"
    return ""


def _text(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        msg = f"{name} must be a str, not {type(value).__name__}"
        raise UnencodableError(msg)
    try:
        return str(value).encode()
    except UnicodeEncodeError:
        msg = f"{name} holds a lone surrogate, which UTF-8 cannot say"
        raise UnencodableError(msg) from None


def _octet(name: str, value: object) -> bytes:
    if not isinstance(value, int) or not 0 <= value <= SHORT:
        msg = f"{name} must be a number from 0 to 255, not {value!r}"
        raise UnencodableError(msg)
    return bytes((value,))


def _expiration(name: str, value: object) -> bytes:
    if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or int(value) > _TEN_YEARS:
        msg = f"{name} must be whole milliseconds as text, ten years at most, not {value!r}"
        raise UnencodableError(msg)
    return short(name, value)


def _timestamp(name: str, value: object) -> bytes:
    if not isinstance(value, datetime):
        msg = f"{name} must be a datetime, not {type(value).__name__}"
        raise UnencodableError(msg)
    if isinstance(value, Stamp) and value.sent is not None:
        return _TIME(value.sent)
    if value.tzinfo is None:
        msg = f"{name} needs a time zone"
        raise UnencodableError(msg)
    seconds = int(value.astimezone(UTC).timestamp())
    if seconds < 0:
        msg = f"{name} is before 1970"
        raise UnencodableError(msg)
    return _TIME(seconds)


def _headers(name: str, value: object) -> bytes:
    if not isinstance(value, Mapping):
        msg = f"{name} must be a mapping, not {type(value).__name__}"
        raise UnencodableError(msg)
    for copies in ("CC", "BCC"):
        # Anything but a list of strings closes the channel with 406 (measured), and takes others with it.
        keys = value.get(copies, [])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            msg = f"header {copies} must be a list of str"
            raise UnencodableError(msg)
    try:
        return _table("header", value)
    except RecursionError:
        msg = "headers are nested too deeply"
        raise UnencodableError(msg) from None


def _table(where: str, table: Mapping[Any, Any]) -> bytes:
    parts = []
    for key, value in table.items():
        place = f"{where} {key}"
        parts.append(short(f"the name of {place}", key))
        parts.append(_value(place, value))
    return _sized(b"".join(parts))


def _value(where: str, value: Any) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\x01" if value else b"t\x00"
        case str():
            return b"S" + _sized(_text(where, value))
        case int() | float() | Decimal():
            return _number(where, value)
        case bytes() | bytearray():
            return (b"S" if isinstance(value, Text) else b"x") + _sized(value)
        case list():
            return b"A" + _sized(b"".join(_value(where, item) for item in value))
        case Mapping():
            return b"F" + _table(where, value)
        case datetime():
            return b"T" + _timestamp(where, value)
        case _:
            kinds = "None, bool, int, float, str, bytes, datetime, Decimal, list and dict"
            msg = f"{where} is a {type(value).__name__}; headers hold {kinds}"
            raise UnencodableError(msg)


def _sized(data: bytes | bytearray) -> bytes:
    return _SIZE(len(data)) + data


def _number(where: str, value: float | Decimal) -> bytes:
    if isinstance(value, Decimal):
        return b"D" + _decimal(where, value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:  # asked of a range, an IntEnum would be looked for number by number
            msg = f"{where} does not fit into 64 bits: {value}"
            raise UnencodableError(msg)
        return _integer(value)
    if not isfinite(value):
        msg = f"{where} is {value}, for which RabbitMQ would close the connection"
        raise UnencodableError(msg)
    return b"f" + _FLOAT(value) if isinstance(value, Float32) else b"d" + _DOUBLE(value)


def _integer(value: int) -> bytes:
    write = WRITERS.get(type(value))
    return value.code + write(value) if write and isinstance(value, Narrow) else b"l" + _INT(value)


def _decimal(where: str, value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    mantissa = int(value.scaleb(scale)) if isinstance(exponent, int) else _MANTISSA.stop
    if scale > SHORT or mantissa not in _MANTISSA:
        msg = f"{where} does not fit AMQP's 32-bit decimal: {value}"
        raise UnencodableError(msg)
    return _DECIMAL(scale, mantissa)


# The order and the flags of the AMQP 0-9-1 specification, section 4.2.6.1.
_LAYOUT: Final = (
    (1 << 15, "content_type", short),
    (1 << 14, "content_encoding", short),
    (1 << 13, "headers", _headers),
    (1 << 12, "delivery_mode", _octet),
    (1 << 11, "priority", _octet),
    (1 << 10, "correlation_id", short),
    (1 << 9, "reply_to", short),
    (1 << 8, "expiration", _expiration),
    (1 << 7, "message_id", short),
    (1 << 6, "timestamp", _timestamp),
    (1 << 5, "type", short),
    (1 << 4, "user_id", short),
    (1 << 3, "app_id", short),
)
