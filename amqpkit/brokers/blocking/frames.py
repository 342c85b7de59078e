"""The frames of a publisher, out and in, as bytes.

Out: one publish is three frames or more, which pika would write one by one; here they are one piece. In: confirms and
returned messages are taken out of the stream before pika sees them, because it makes several objects of each confirm,
and because it would decode all headers of a returned message and lose the connection over what it does not know.
Pure.
"""

import struct
from dataclasses import dataclass
from typing import Final

from amqpkit.brokers.encoding import HEADER_FIXED

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_KINDS: Final = frozenset((_METHOD, _HEADER, _BODY, _HEARTBEAT))
_FRAME = struct.Struct(">BHI")
_END: Final = b"\xce"
OVERHEAD: Final = 8
"""What a frame adds to what it carries."""
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
_CONTENT = struct.Struct(">HHQ")
_BASIC: Final = 60
_CONFIRM = struct.Struct(">HHQB")
_ACK, _RETURN, _NACK = 80, 50, 120
_FLAGS = struct.Struct(">H")


def publish(  # noqa: PLR0913 - what a publish consists of
    channel: int, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes, *, mandatory: bool, room: int
) -> list[bytes]:
    """Give the frames of a publish in pieces to be sent in order; names as short strings, properties encoded.

    `room` is how much of the body a frame may carry.
    """
    method = _frame(_METHOD, channel, b"".join((_PUBLISH, exchange, routing_key, b"\x01" if mandatory else b"\x00")))
    header = _frame(_HEADER, channel, _CONTENT.pack(_BASIC, 0, len(body)) + properties)
    if len(body) <= room:
        return [method + header + _frame(_BODY, channel, body) if body else method + header]
    parts = [_frame(_BODY, channel, body[at : at + room]) for at in range(0, len(body), room)]
    return [method + header, *parts]


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"".join((_FRAME.pack(kind, channel, len(payload)), payload, _END))


@dataclass(frozen=True, slots=True)
class Confirm:
    """The broker took a message or (`taken` is false) refused it; with `multiple` all up to that tag."""

    tag: int
    multiple: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class Returned:
    """The broker found no queue for a message; a confirm follows all the same."""

    message_id: str


class Sieve:
    """Takes a publisher's frames out of what the broker sends, frame by whole frame."""

    def __init__(self) -> None:
        """Take nothing before a channel is claimed."""
        self._kept = b""
        self._channel = -1
        self._foreign = False
        self.taken = 0
        """Bytes that the last `sift` took."""

    def claim(self, channel: int) -> None:
        """Take the frames of this channel from now on; a channel number is used again after a channel was lost."""
        self._channel = channel

    def sift(self, data: bytes) -> tuple[list[Confirm | Returned], bytes]:
        """Give what the broker said to us, and the bytes that are for others."""
        self.taken = 0
        if self._foreign:
            return [], data
        data = self._kept + data
        words: list[Confirm | Returned] = []
        rest: list[bytes] = []
        at, size = 0, len(data)
        while size - at >= OVERHEAD:
            kind, channel, length = _FRAME.unpack_from(data, at)
            if kind not in _KINDS:  # another protocol, or its version: pika says what is wrong
                self._foreign = True
                break
            end = at + OVERHEAD + length
            if end > size:
                break
            if channel == self._channel and self._takes(kind, data[at + OVERHEAD - 1 : end - 1], words):
                self.taken += end - at
            else:
                rest.append(data[at:end])
            at = end
        self._kept = b"" if self._foreign else data[at:]
        if self._foreign:
            rest.append(data[at:])
        return words, b"".join(rest)

    def _takes(self, kind: int, payload: bytes, words: list[Confirm | Returned]) -> bool:
        if kind != _METHOD:
            # On this channel nothing but a returned message has a content; its body is of no interest.
            if kind == _HEADER:
                words.append(Returned(message_id(payload)))
            return True
        method = int.from_bytes(payload[2:4], "big") if payload[:2] == b"\x00\x3c" else 0
        if method in {_ACK, _NACK}:
            _, _, tag, bits = _CONFIRM.unpack_from(payload)
            words.append(Confirm(tag, bool(bits & 1), method == _ACK))
            return True
        return method == _RETURN


def message_id(payload: bytes) -> str:
    """Find the message id in a content header without decoding anything else; empty when it has none."""
    (flags,) = _FLAGS.unpack_from(payload, HEADER_FIXED)
    at = HEADER_FIXED + 2
    for bit, kind in ((15, "s"), (14, "s"), (13, "t"), (12, "o"), (11, "o"), (10, "s"), (9, "s"), (8, "s")):
        if flags & 1 << bit:
            at += {"s": 1 + payload[at], "t": 4 + int.from_bytes(payload[at : at + 4], "big"), "o": 1}[kind]
    if not flags & 1 << 7:
        return ""
    return payload[at + 1 : at + 1 + payload[at]].decode(errors="replace")
