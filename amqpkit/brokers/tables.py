"""Header tables as they came: every number keeps its width, and what cannot be read says so.

The client libraries' readers forget whether a number had 8, 32 or 64 bits, and pamqp's takes quadratic time for a table
with many entries. So a delivery's table is handed on unread, as the one entry of another, and read here when asked for.
Pure.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from amqpkit.deliver.headers import UNREADABLE
from amqpkit.model import NOTHING, SECONDS_MAX, Float32, Int8, Int16, Int32, Narrow, Stamp, Text, UInt8, UInt16, UInt32

SEALED: Final = "amqpkit-sealed-table"
"""The one entry of a table that stands for another. The guard seals every table, so nobody else can write this."""

STAMPED: Final = "amqpkit-sealed-timestamp"
"""The entry beside it, or alone, for a timestamp property that pamqp would round or refuse."""

_NAME: Final = bytes((len(SEALED),)) + SEALED.encode() + b"x"
_STAMP: Final = bytes((len(STAMPED),)) + STAMPED.encode() + b"x" + (8).to_bytes(4, "big")
_SIZE: Final = struct.Struct(">I").unpack_from
_Reader = Callable[[bytes, int], tuple[Any, int]]


def sealed(table: bytes | None, stamp: bytes = b"") -> bytes:
    """Put a whole table, its size included, and the eight bytes of a timestamp into another as bytes."""
    entries = _NAME + len(table).to_bytes(4, "big") + table if table is not None else b""
    if stamp:
        entries += _STAMP + stamp
    return len(entries).to_bytes(4, "big") + entries


def is_stamp(timestamp: bytes) -> bool:
    """Whether the eight bytes of a timestamp are no seconds."""
    return timestamp[:4] != b"\0\0\0\0"


def stamp_of(headers: Mapping[str, Any] | None) -> Stamp | None:
    """The timestamp that was sealed, if one was."""
    data = headers.get(STAMPED) if headers else None
    return None if data is None else Stamp.of(int.from_bytes(data, "big"))


def opened(headers: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Read the sealed table; one that was never sealed is given back. Never raises."""
    if not headers:
        return NOTHING
    table = headers.get(SEALED)
    if table is None:
        return NOTHING if STAMPED in headers else headers
    data = bytes(table)
    try:
        found, end = _table(data, 0)
        if end != len(data):
            return _unreadable("there are bytes behind its end")
    except RecursionError:
        return _unreadable("RecursionError: it is nested too deeply")
    except (ValueError, OverflowError, OSError, ArithmeticError, IndexError, struct.error) as error:
        return _unreadable(f"{type(error).__name__}: {error}")
    return found or NOTHING


def _unreadable(why: str) -> Mapping[str, Any]:
    return {UNREADABLE: why[:200]}


def _table(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end, found = _end(data, at), dict[str, Any]()
    at += 4
    while at < end:
        name_end = at + 1 + data[at]
        name = data[at + 1 : name_end].decode()
        found[name], at = _value(data, name_end)
    if at != end:
        msg = "an entry is longer than its table"
        raise ValueError(msg)
    return found, end


def _array(data: bytes, at: int) -> tuple[list[Any], int]:
    end, found = _end(data, at), []
    at += 4
    while at < end:
        item, at = _value(data, at)
        found.append(item)
    if at != end:
        msg = "an item is longer than its array"
        raise ValueError(msg)
    return found, end


def _value(data: bytes, at: int) -> tuple[Any, int]:
    read = _READERS.get(data[at])
    if read is None:
        msg = f"unknown type {data[at : at + 1]!r}"
        raise ValueError(msg)
    return read(data, at + 1)


def _end(data: bytes, at: int) -> int:
    end: int = at + 4 + _SIZE(data, at)[0]
    if end > len(data):
        msg = f"{end - len(data)} bytes are missing"
        raise ValueError(msg)
    return end


def _text(data: bytes, at: int) -> tuple[str | Text, int]:
    end = _end(data, at)
    piece = data[at + 4 : end]
    try:
        return piece.decode(), end
    except UnicodeDecodeError:
        return Text(piece), end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    end = _end(data, at)
    return data[at + 4 : end], end


def _bool(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _void(_data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _time(data: bytes, at: int) -> tuple[datetime, int]:
    seconds = int.from_bytes(data[at : at + 8], "big")
    if len(data) < at + 8:
        raise IndexError
    return Stamp.of(seconds) if seconds > SECONDS_MAX else datetime.fromtimestamp(seconds, UTC), at + 8


def _decimal(data: bytes, at: int) -> tuple[Decimal, int]:
    scale, mantissa = struct.unpack_from(">Bi", data, at)
    return Decimal(mantissa).scaleb(-scale), at + 5


def _number(layout: str) -> _Reader:
    form = struct.Struct(layout)
    unpack, size = form.unpack_from, form.size
    return lambda data, at: (unpack(data, at)[0], at + size)


def _narrow(layout: str, kind: Callable[[Any], Any]) -> _Reader:
    form = struct.Struct(layout)
    unpack, size = form.unpack_from, form.size
    return lambda data, at: (kind(unpack(data, at)[0]), at + size)


_WIDTHS: Final[Mapping[type[Narrow], str]] = {
    Int8: ">b",
    UInt8: ">B",
    Int16: ">h",
    UInt16: ">H",
    Int32: ">i",
    UInt32: ">I",
}
_READERS: Final[Mapping[int, _Reader]] = {
    **{ord(kind.code): _narrow(layout, kind) for kind, layout in _WIDTHS.items()},
    ord("S"): _text,
    ord("l"): _number(">q"),
    ord("L"): _number(">q"),
    ord("t"): _bool,
    ord("F"): _table,
    ord("A"): _array,
    ord("V"): _void,
    ord("d"): _number(">d"),
    ord("f"): _narrow(">f", Float32),
    ord("T"): _time,
    ord("D"): _decimal,
    ord("x"): _bytes,
    0: _void,  # some clients write it for null
}
WRITERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    kind: struct.Struct(layout).pack for kind, layout in _WIDTHS.items()
}
"""How a number of each width is written, without the letter of its type."""
