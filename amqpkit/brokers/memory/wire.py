"""What AMQP 0-9-1 can carry, and what becomes of it on the way. Pure.

The rules are those that the asynchronous client was measured to have, so that a value which survives here
survives there.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from amqpkit.deliver.headers import FRAME_MAX, encoded_size, properties_size
from amqpkit.errors import MessageTooLarge, Unsendable
from amqpkit.model import Message, Properties

BODY_MAX: Final = 16 * 1024 * 1024
_SHORT: Final = 255
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
        headers = _table(properties.headers, "headers")
    except (ValueError, UnicodeEncodeError) as error:
        raise Unsendable(str(error), **_place(message, exchange, routing_key)) from error
    size = encoded_size(headers) + properties_size(properties)
    if size > FRAME_MAX:
        reason = f"its headers take {size} bytes, one frame holds {FRAME_MAX}"
        raise MessageTooLarge(reason, **_place(message, exchange, routing_key))
    if len(message.body) > BODY_MAX:
        reason = f"its body has {len(message.body)} bytes, the broker takes {BODY_MAX}"
        raise MessageTooLarge(reason, **_place(message, exchange, routing_key))
    when = properties.timestamp
    timestamp = None if when is None else _instant(when)
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
        case float() if math.isfinite(value):
            return _single(value, where)
        case bytes() | bytearray():
            return bytearray(value)
        case datetime():
            return _instant(value)
        case Decimal() if value.is_finite():
            return value
        case list():
            return [_value(each, f"{where}[{at}]") for at, each in enumerate(value)]
        case Mapping():
            return _table(value, where)
        case _:
            msg = f"{where} is {value!r:.80}, which AMQP cannot carry"
            raise ValueError(msg)


def _single(value: float, where: str) -> float:
    """Round as the client does: it writes single precision."""
    try:
        single: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError as error:
        msg = f"{where} is {value!r}, too large for a single-precision float"
        raise ValueError(msg) from error
    return single


def _instant(when: datetime) -> datetime:
    """AMQP has whole seconds; a naive datetime is taken as UTC (measured)."""
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(microsecond=0)
