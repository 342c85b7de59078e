"""A letter as one line of JSON, and back: every byte, every header, every type.

Pure. What JSON says unmistakably is written plainly; the rest is an object with one key that begins with `$`:
`{"$int32": 5}`, `{"$bytes": "AP8="}`; a time that its producer did not send in seconds is the number that it sent,
`{"$stamp": "1772366400000"}`. A table with such a key of its own is written as `{"$table": …}`. Numbers that other
programs round are written as text.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from amqpkit.model import (
    SECONDS_MAX,
    Float32,
    Int8,
    Int16,
    Int32,
    Message,
    Narrow,
    Properties,
    Received,
    Stamp,
    Text,
    UInt8,
    UInt16,
    UInt32,
    nothing,
)

FORMAT: Final = "amqpkit-letter"
VERSION: Final = 1
DEPTH_MAX: Final = 200

_SAFE: Final = 2**53
_NARROW: Final[Mapping[str, type[Narrow]]] = {
    "$int8": Int8,
    "$uint8": UInt8,
    "$int16": Int16,
    "$uint16": UInt16,
    "$int32": Int32,
    "$uint32": UInt32,
}
_NAMES: Final[Mapping[type, str]] = {cls: name for name, cls in _NARROW.items()}
_PROPERTIES: Final = tuple(each.name for each in fields(Properties))
_NUMBERS: Final = frozenset({"delivery_mode", "priority"})
_KEYS: Final = frozenset(
    {"format", "version", "queue", "exchange", "routing_key", "properties", "body", "body_base64", "extra"}
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A letter that was kept in a file: where it was, what it is, and what else was noted."""

    queue: str
    exchange: str
    routing_key: str
    message: Message
    extra: Mapping[str, Any] = field(default_factory=nothing)


def to_line(received: Received, **extra: Any) -> str:
    """Write a letter as one line of ASCII, without the line break; `extra` are notes, of what JSON has.

    Raises ValueError when its headers are nested deeper than anybody could read again.
    """
    body = received.body
    line: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "queue": received.queue,
        "exchange": received.exchange,
        "routing_key": received.routing_key,
        "properties": _properties(received.properties),
    }
    try:
        line["body"] = bytes(body).decode()
    except UnicodeDecodeError:
        line["body_base64"] = b64encode(body).decode()
    if extra:
        line["extra"] = extra
    return json.dumps(line, separators=(",", ":"), allow_nan=False)


def _properties(properties: Properties) -> dict[str, Any]:
    told = {}
    for name in _PROPERTIES:
        value = getattr(properties, name)
        if value is None or (name == "headers" and not value):
            continue
        told[name] = written(value)
    return told


def written(value: Any, depth: int = 0) -> Any:
    """A header's value in JSON, its type kept; raises ValueError when it is nested too deeply."""
    if depth > DEPTH_MAX:
        raise _wrong(f"headers are nested deeper than {DEPTH_MAX} levels")
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return _number(value)
        case bytes() | bytearray():
            return {"$text" if isinstance(value, Text) else "$bytes": b64encode(value).decode()}
        case Stamp(sent=int(sent)):
            return {"$stamp": str(sent)}
        case datetime():
            return {"$time": value.astimezone(UTC).isoformat()}
        case Decimal():
            return {"$decimal": str(value)}
        case list() | tuple():
            return [written(item, depth + 1) for item in value]
        case Mapping():
            table = {str(name): written(item, depth + 1) for name, item in value.items()}
            return {"$table": table} if any(name.startswith("$") for name in table) else table
        case _:
            raise _wrong(f"a header holds a {type(value).__name__}, which no broker sends")


def _number(value: float) -> Any:
    if isinstance(value, int):
        if (name := _NAMES.get(type(value))) is not None:
            return {name: int(value)}
        return int(value) if -_SAFE < value < _SAFE else {"$int64": str(int(value))}
    # as text: 1.0 becomes 1 in many a program, and JSON has no infinity
    return {"$float" if isinstance(value, Float32) else "$double": repr(float(value))}


# --- and back --------------------------------------------------------------------------------------


def from_line(text: str) -> Kept:
    """Read a line; raises ValueError that says what is wrong with it."""
    line = _document(text)
    for name in ("queue", "exchange", "routing_key"):
        if not isinstance(line.get(name), str):
            raise _wrong(f'"{name}" is missing or no text')
    extra = line.get("extra", {})
    if not isinstance(extra, dict):
        raise _wrong('"extra" is no object')
    message = Message(_body(line), _read_properties(line.get("properties")))
    return Kept(line["queue"], line["exchange"], line["routing_key"], message, extra)


def _wrong(what: str) -> ValueError:
    return ValueError(what)


def _document(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _wrong("it is nested too deeply") from None
    except ValueError as error:
        raise _wrong(f"it is not JSON: {error}") from None
    if not isinstance(line, dict) or line.get("format") != FORMAT:
        raise _wrong(f'it is no letter: "format" must be "{FORMAT}"')
    if line.get("version") != VERSION or isinstance(line["version"], bool):
        raise _wrong(
            f"version {json.dumps(line.get('version'))[:40]} is unknown here: this amqpkit reads version {VERSION}"
        )
    if unknown := sorted(line.keys() - _KEYS):
        raise _wrong(f'"{unknown[0][:80]}" is unknown: notes belong into "extra"')
    return line


def _refuse_constant(name: str) -> None:
    raise _wrong(f"{name} is not JSON")


def _body(line: Mapping[str, Any]) -> bytes:
    text, encoded = line.get("body"), line.get("body_base64")
    if isinstance(text, str) and encoded is None:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise _wrong('"body" holds a lone surrogate: bytes that are no UTF-8 belong into "body_base64"') from None
    if isinstance(encoded, str) and text is None:
        return _bytes(encoded)
    raise _wrong('there must be "body" or "body_base64", one of them, and text')


def _read_properties(told: object) -> Properties:
    if not isinstance(told, dict):
        raise _wrong('"properties" is missing or no object')
    if unknown := sorted(told.keys() - set(_PROPERTIES)):
        raise _wrong(f'there is no property "{unknown[0][:80]}"')
    values = {name: read(value) for name, value in told.items()}
    for name, value in values.items():
        if not _fits(name, value):
            raise _wrong(f'the property "{name}" cannot be {json.dumps(told[name])[:80]}')
    return Properties(**values)


def _fits(name: str, value: object) -> bool:
    if name == "headers":
        return isinstance(value, dict)
    if name == "timestamp":
        return isinstance(value, datetime)
    if name in _NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255  # noqa: PLR2004 - an octet
    return isinstance(value, str)


def read(value: Any, depth: int = 0) -> Any:
    """A header's value from JSON; raises ValueError for a type or a value that there is not."""
    if depth > 2 * DEPTH_MAX:  # each table may be written as two objects
        raise _wrong("it is nested too deeply")
    match value:
        case None | bool() | str() | int():
            return value
        case list():
            return [read(item, depth + 1) for item in value]
        case dict():
            return _read_object(value, depth + 1)
        case _:
            raise _wrong(f'{json.dumps(value)[:80]} has no type: write {{"$double": "…"}}')


def _read_object(value: dict[str, Any], depth: int) -> Any:
    name = next(iter(value), "")
    if not any(key.startswith("$") for key in value):
        return {key: read(item, depth) for key, item in value.items()}
    if len(value) > 1 or (name not in _READERS and name not in _NARROW and name != "$table"):
        raise _wrong(f'"{name[:80]}" is no type: a table with such a key is written as {{"$table": …}}')
    if name == "$table":
        return _read_table(value[name], depth)
    try:
        return _narrow(name, value[name]) if name in _NARROW else _READERS[name](value[name])
    except (ValueError, TypeError, ArithmeticError):
        raise _wrong(f"{json.dumps(value[name])[:80]} is no {name.removeprefix('$')}") from None


def _read_table(table: object, depth: int) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise _wrong('"$table" is no object')
    return {key: read(item, depth) for key, item in table.items()}


def _narrow(name: str, value: Any) -> Narrow:
    bits, signed = int(name.removeprefix("$").lstrip("uint")), not name.startswith("$u")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
        raise ValueError
    return _NARROW[name](value)


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _wrong("base64 is damaged") from None


def _time(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError
    return instant.astimezone(UTC)


def _stamp(text: str) -> Stamp:
    sent = int(text)
    if not SECONDS_MAX < sent < 2**64:
        raise ValueError
    return Stamp.of(sent)


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$int64": int,
    "$float": Float32,
    "$double": float,
    "$bytes": _bytes,
    "$text": lambda text: Text(_bytes(text)),
    "$time": _time,
    "$stamp": _stamp,
    "$decimal": Decimal,
}
