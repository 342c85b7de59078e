"""Frames that aiormq cannot read are mended before it sees them.

A message whose timestamp lies after the year 9999 (as one in microseconds does), whose header table holds what pamqp
does not know, or whose routing key is no UTF-8, makes aiormq's reader raise: the connection is lost, the message is
delivered again, and so on until the broker's delivery limit (measured). The broker passes such messages on, so any
producer can send one. Here the reader's stream is looked through: what cannot be read is left out, the rest of the
message stays as it is. Header tables are passed on sealed, for the codec to read when it is asked, and with them
timestamps that are no seconds. Only content headers of deliveries are looked at, and routing keys; any other frame is
passed on untouched.
"""

import asyncio
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

import aio_pika
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from pamqp import decode
from yarl import URL

from amqpkit.brokers.aio.alarm import Alarm
from amqpkit.brokers.tables import is_stamp, sealed

_METHOD, _HEADER = 1, 2
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_KNOWN: Final = frozenset((b"\x01", b"\x02", b"\x03", b"\x08"))
_FRAME = struct.Struct(">BHI")
_FLAGS = struct.Struct(">H")
_TABLE: Final = 13
"""The bit of the headers."""
_FIXED: Final = 12
"""Class, weight and body size, before a content header's flags."""

# The order of the AMQP 0-9-1 specification; how many bytes each takes, or how it says its own length.
_PROPERTIES: Final = (
    *((15, "short"), (14, "short"), (13, "table"), (12, 1), (11, 1), (10, "short"), (9, "short"), (8, "short")),
    *((7, "short"), (6, 8), (5, "short"), (4, "short"), (3, "short"), (2, "short")),
)


def mended_header(payload: bytes) -> bytes:
    """A content header's payload as pamqp can read it: headers sealed, what it could not read left out.

    A timestamp that is no seconds goes into the seal, or it would be rounded, and seconds when it is sent on.
    """
    (flags,) = _FLAGS.unpack_from(payload, _FIXED)
    at, kept_flags, kept = _FIXED + 2, flags, list[bytes]()
    place, headers = 0, None
    for bit, kind in _present(flags):
        if kind == "short":
            end = at + 1 + payload[at]
            piece = payload[at:end]
            # a length byte above 127 looks foreign and only costs the second question
            reads = piece.isascii() or _reads(piece, decode.short_str)
        elif kind == "table":
            end = at + 4 + int.from_bytes(payload[at : at + 4], "big")
            headers = payload[at:end]
            piece, reads = sealed(headers), True
        else:
            end = at + (8 if kind == 8 else 1)  # noqa: PLR2004 - the one of eight bytes, and octets
            piece = payload[at:end]
            reads = kind == 1 or not is_stamp(piece)
            if not reads:
                kept[place : place + (headers is not None)] = [sealed(headers, piece)]
                kept_flags |= 1 << _TABLE
        at = end
        if reads:
            kept.append(piece)
            place += bit > _TABLE
        else:
            kept_flags &= ~(1 << bit)
    return payload[:_FIXED] + _FLAGS.pack(kept_flags & 0xFFFC) + b"".join(kept)


@lru_cache(maxsize=64)
def _present(flags: int) -> tuple[tuple[int, int | str], ...]:
    return tuple((bit, kind) for bit, kind in _PROPERTIES if flags & 1 << bit)


def _reads(piece: bytes, read: Callable[[bytes], object]) -> bool:
    try:
        read(piece)
    except Exception:  # noqa: BLE001 - the question is only whether it does
        return False
    return True


def mended_delivery(payload: bytes) -> bytes:
    """The payload of a `basic.deliver` whose exchange and routing key are UTF-8; each byte that is none becomes `?`."""
    if payload.isascii():
        return payload
    at = 5 + payload[4] + 9
    mended = payload[:at]
    for _ in ("exchange", "routing key"):
        word = payload[at + 1 : at + 1 + payload[at]]
        text = word.decode(errors="replace").replace("\ufffd", "?").encode()
        mended += bytes((len(text),)) + text
        at += 1 + len(word)
    return mended


class GuardedReader:
    """A StreamReader as aiormq uses it, which reads frame by frame and mends them."""

    def __init__(self, reader: asyncio.StreamReader, alarm: Alarm | None = None) -> None:
        """Start at the beginning of a frame; `alarm` hears what is said of the whole connection."""
        self._reader, self._frame = reader, b""
        self._alarm = alarm or Alarm()
        self._delivered: set[int] = set()

    def at_eof(self) -> bool:
        """Whether nothing is left."""
        return not self._frame and self._reader.at_eof()

    async def read(self, size: int = -1) -> bytes:
        """What is left, as it is."""
        rest, self._frame = self._frame, b""
        return rest + await self._reader.read(size)

    async def readexactly(self, size: int) -> bytes:
        """The next bytes of the mended stream; raises IncompleteReadError."""
        if not self._frame:
            self._frame = await self._next()
        if len(self._frame) < size:  # no frame: what a server says that speaks another protocol
            self._frame += await self._reader.readexactly(size - len(self._frame))
        taken, self._frame = self._frame[:size], self._frame[size:]
        return taken

    async def _next(self) -> bytes:
        first = await self._reader.readexactly(1)
        if first not in _KNOWN:
            return first
        head = first + await self._reader.readexactly(6)
        kind, channel, size = _FRAME.unpack(head)
        body = await self._reader.readexactly(size + 1)
        payload = self._mended(kind, channel, body[:-1]) if kind in (_METHOD, _HEADER) else None
        if payload is None or payload == body[:-1]:
            return head + body
        return _FRAME.pack(kind, channel, len(payload)) + payload + body[-1:]

    def _mended(self, kind: int, channel: int, payload: bytes) -> bytes | None:
        if kind == _METHOD:
            if payload[:4] != _DELIVER:
                if channel == 0:
                    self._alarm.hear(payload)
                self._delivered.discard(channel)
                return None
            self._delivered.add(channel)
            return mended_delivery(payload)
        # a returned message's header is matched with its publish, and was written by ourselves
        return mended_header(payload) if channel in self._delivered else None


class GuardedTransport(TransportFactory):
    """Connects as aiormq does, over TCP or TLS, and guards what is read."""

    def __init__(self, alarm: Alarm | None = None) -> None:
        """Keep who hears of alarms."""
        self._alarm = alarm

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open the connection; raises as aiormq's own factories do."""
        factory = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await factory.create(url, **kwargs)
        return cast("asyncio.StreamReader", GuardedReader(reader, self._alarm)), writer


class GuardedConnection(aio_pika.Connection):
    """aio-pika's plain connection on a guarded transport."""

    def __init__(self, url: URL, **kwargs: Any) -> None:
        """Hand aiormq the transport; aio-pika has no argument for it."""
        super().__init__(url, **kwargs)
        self.alarm = Alarm()
        self.kwargs["transport_factory"] = GuardedTransport(self.alarm)
