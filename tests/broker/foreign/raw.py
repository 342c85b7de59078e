"""Messages whose property bytes are written by hand, as a broken or hostile client would."""

from __future__ import annotations

import struct

from pika.spec import BasicProperties


class RawProperties(BasicProperties):
    """Properties that are the bytes they are."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw

    def encode(self) -> list[bytes]:
        return [self.raw]


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def table(*fields: tuple[bytes, bytes]) -> bytes:
    content = b"".join(short(name) + value for name, value in fields)
    return struct.pack(">I", len(content)) + content


def raw(*, headers: bytes | None = None, message_id: bytes = b"", timestamp: int | None = None) -> RawProperties:
    """Properties in their order: headers, message id, timestamp."""
    flags = (headers is not None) << 13 | bool(message_id) << 7 | (timestamp is not None) << 6
    pieces = [struct.pack(">H", flags), headers or b"", short(message_id) if message_id else b""]
    return RawProperties(b"".join(pieces) + (struct.pack(">Q", timestamp) if timestamp is not None else b""))
