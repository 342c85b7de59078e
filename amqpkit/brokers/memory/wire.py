"""What AMQP 0-9-1 can carry, and what becomes of it on the way. Pure.

A value that passes here passes on a real connection, and the reverse.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from amqpkit.deliver.headers import FRAME_MAX, encoded_size, properties_size
from amqpkit.errors import MessageTooLarge, Unsendable
from amqpkit.model import Message, Properties, Stamp

BODY_MAX: Final = 16 * 1024 * 1024
_SHORT: Final = 255
_TTL_MAX: Final = 315_360_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
)


def carried(message: Message, exchange: str, routing_key: str) -> Message:
    """Give the message as it arrives; raises MessageTooLarge or Unsendable for one that cannot be sent."""
    properties = message.properties
    try:
        _check_texts(properties, exchange, routing_key)
        headers = _headers(properties.headers)
        timestamp = properties.timestamp and _instant(properties.timestamp, "timestamp")
    except (ValueError, UnicodeEncodeError) as error:
        raise Unsendable(str(error), **_place(message, exchange, routing_key)) from error
    size = encoded_size(headers) + properties_size(properties)
    if size > FRAME_MAX:
        reason = f"its headers take {size} bytes, one frame holds {FRAME_MAX}"
        raise MessageTooLarge(reason, **_place(message, exchange, routing_key))
    if len(message.body) > BODY_MAX:
        reason = f"its body has {len(message.body)} bytes, the broker takes {BODY_MAX}"
        raise MessageTooLarge(reason, **_place(message, exchange, routing_key))
    return Message(bytes(message.body), replace(properties, headers=headers, timestamp=timestamp))


def _place(message: Message, exchange: str, routing_key: str) -> dict[str, str]:
    identity = message.properties.message_id
    return {
        "exchange": exchange,
        "routing_key": routing_key,
        "message_id": identity or "",
    }


def _check_texts(properties: Properties, exchange: str, routing_key: str) -> None:
    named = {name: getattr(properties, name) for name in _TEXTS}
    for name, text in {
        **named,
        "exchange": exchange,
        "routing_key": routing_key,
    }.items():
        if text is not None:
            _check_short(text, name)
    own = properties.expiration
    if own is not None and not (own.isascii() and own.isdigit() and int(own) <= _TTL_MAX):
        msg = f"expiration must be whole milliseconds as text, ten years at most, not {own!r}"
        raise ValueError(msg)
    priority = properties.priority
    if priority is not None and not 0 <= priority <= 255:  # noqa: PLR2004 - one octet
        msg = f"priority {priority} is not between 0 and 255"
        raise ValueError(msg)


def _check_short(text: object, name: str) -> None:
    if not isinstance(text, str):
        msg = f"{name} must be text, not {type(text).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one exception for all that cannot be sent
    if len(text.encode()) > _SHORT:
        msg = f"{name} is longer than {_SHORT} bytes"
        raise ValueError(msg)


def _headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("CC", "BCC"):
        keys = headers.get(name, [])
        # Anything but a list of text closes the channel with 406 (measured).
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            msg = f"header {name} must be a list of str"
            raise ValueError(msg)
    return _table(headers, "headers")


def _table(table: Mapping[Any, Any], where: str) -> dict[str, Any]:
    for name in table:
        _check_short(name, f"a key in {where}")
    return {name: _value(value, f"{where}[{name!r}]") for name, value in table.items()}


def _value(value: Any, where: str) -> Any:
    match value:
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**63:
            return int(value)
        case str():
            return value.encode().decode()  # a lone surrogate fails here, as it does in the client
        case float() if math.isfinite(value):  # for NaN and infinity RabbitMQ closes the connection (measured)
            return float(value)
        case bytes() | bytearray():
            return bytearray(value)
        case datetime():
            return _instant(value, where)
        case Decimal() if value.is_finite():
            return _decimal(value, where)
        case list():
            return [_value(each, f"{where}[{at}]") for at, each in enumerate(value)]
        case Mapping():
            return _table(value, where)
        case _:
            msg = f"{where} is {value!r:.80}, which AMQP cannot carry"
            raise ValueError(msg)


def _decimal(value: Decimal, where: str) -> Decimal:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    if scale > _SHORT or not -(2**31) <= int(value.scaleb(scale)) < 2**31:
        msg = f"{where} does not fit AMQP's 32-bit decimal: {value}"
        raise ValueError(msg)
    return value


def _instant(when: datetime, where: str) -> datetime:
    """AMQP has whole seconds since 1970, without a zone; what came otherwise goes on as it came."""
    if isinstance(when, Stamp) and when.sent is not None:
        return when
    if when.tzinfo is None:
        msg = f"{where} needs a time zone"
        raise ValueError(msg)
    instant = when.astimezone(UTC).replace(microsecond=0)
    if instant < _EPOCH:
        msg = f"{where} is before 1970"
        raise ValueError(msg)
    return instant
