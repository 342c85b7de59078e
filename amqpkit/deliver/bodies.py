"""From a message's bytes to UTF-8 JSON text: its encoding undone, its charset read, its mark removed.

Pure. A stranger may have sent anything, so there is a cap on what is unpacked, and only charsets of text are read
(Python's own list of codecs has some that take for ever, or warn, or are no charsets).
"""

import codecs
import importlib
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from amqpkit.deliver.headers import sendable
from amqpkit.model import Received

BODY_MAX: Final = 16 * 1024 * 1024
"""Bytes of an unpacked body: what the broker allows a body that is not packed."""

_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)
_TEXT: Final = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-[rtu]|mac-[a-z-]+|tis-620|ptcp154|hp-roman8"
    r"|gb2312|gbk|gb18030|big5|big5hkscs|hz|johab|euc_\w+|shift_jis\w*|iso2022_\w+"
)
_PLAIN: Final = frozenset({"", "identity", "utf-8", "utf8", "binary", "us-ascii"})


class BodyError(Exception):
    """The bytes are not text of JSON; its text says why."""


def plain_text(received: Received, limit: int = BODY_MAX) -> bytes:
    """The body as UTF-8 JSON text without a byte order mark; raises BodyError."""
    properties = received.properties
    text = received.body
    if properties.content_encoding:
        text = _unpacked(text, properties.content_encoding.strip().lower(), limit)
    if properties.content_type and ";" in properties.content_type:
        text = _read(text, properties.content_type)
    text = text.removeprefix(codecs.BOM_UTF8)
    if not text or text.isspace():
        msg = "the body is empty"
        raise BodyError(msg)
    return text


def _read(body: bytes, content_type: str) -> bytes:
    found = _CHARSET.search(content_type)
    if found is None or found[1].lower() in ("utf-8", "utf8"):
        return body
    charset = sendable(found[1][:40])
    try:
        name = codecs.lookup(found[1]).name
    except (LookupError, ValueError):
        name = ""
    if not _TEXT.fullmatch(name):
        msg = f'the charset "{charset}" is not supported'
        raise BodyError(msg)
    try:
        return body.decode(name).removeprefix("\ufeff").encode()
    except ValueError as error:
        msg = sendable(f'the body is not in its charset "{charset}": {error}'[:500])
        raise BodyError(msg) from None


# --- content encodings -----------------------------------------------------------------------------


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding in _PLAIN:
        return body
    unpack = _UNPACKERS.get(encoding)
    if unpack is None:
        msg = f'content encoding "{sendable(encoding[:40])}" is not supported (gzip, deflate and zstd are)'
        raise BodyError(msg)
    text = unpack(body, limit + 1)
    if len(text) > limit:
        msg = f"the {encoding} body unpacks to more than {limit} bytes"
        raise BodyError(msg)
    return text


def _gunzip(body: bytes, room: int) -> bytes:
    return _inflated(body, room, 31, "gzip")


def _inflate(body: bytes, room: int) -> bytes:
    # RFC 9110 means zlib's format; some send the bare stream, whose first byte zlib can tell from its own
    bare = len(body) < 2 or body[0] & 15 != 8 or int.from_bytes(body[:2], "big") % 31  # noqa: PLR2004 - RFC 1950 §2.2
    return _inflated(body, room, -15 if bare else 15, "deflate")


def _inflated(body: bytes, room: int, bits: int, encoding: str) -> bytes:
    stream = zlib.decompressobj(wbits=bits)
    try:
        text = stream.decompress(body, room)
    except zlib.error as error:
        msg = f"the body is not {encoding}: {error}"
        raise BodyError(msg) from None
    return _whole(text, room, encoding, ended=stream.eof, more=bool(stream.unused_data))


def _whole(text: bytes, room: int, encoding: str, *, ended: bool, more: bool) -> bytes:
    if len(text) >= room:
        return text  # too much: the caller says so
    if not ended:
        msg = f"the {encoding} body is cut off"
        raise BodyError(msg)
    if more:  # a second member would be a second document, and a million empty ones a way to keep us busy
        msg = f"bytes follow the end of the {encoding} body"
        raise BodyError(msg)
    return text


def _unzstd(body: bytes, room: int) -> bytes:
    module = _zstd()
    if module is None:
        msg = 'content encoding "zstd" needs Python 3.14 or the package zstandard'
        raise BodyError(msg)
    try:
        if hasattr(module, "ZstdCompressionReader"):  # the package; the standard library has no such class
            reader = module.ZstdDecompressor(max_window_size=2**27).stream_reader(body, read_across_frames=False)
            return bytes(reader.read(room))
        stream = module.ZstdDecompressor()
        text = bytes(stream.decompress(body, room))
    except Exception as error:  # noqa: BLE001 - each library has an error class of its own
        msg = sendable(f"the body is not zstd: {error}"[:500])
        raise BodyError(msg) from None
    return _whole(text, room, "zstd", ended=stream.eof, more=bool(stream.unused_data))


def _zstd() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_UNPACKERS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate,
    "zstd": _unzstd,
}


# --- whose it is -------------------------------------------------------------------------------------


def celery_task(received: Received) -> str | None:
    """Name the task when this is a message of Celery's protocol 2, by the headers that it always sets."""
    headers = received.properties.headers
    task = headers.get("task")
    if received.properties.type or not isinstance(task, str) or not {"id", "root_id", "lang"} <= headers.keys():
        return None
    origin = headers.get("origin")
    said = f'a Celery message (protocol 2) of task "{sendable(task[:200])}"'
    return said + (f" from {sendable(origin[:100])}" if isinstance(origin, str) else "")


def marks(received: Received) -> str:
    """What a message without a type tells of its producer, for the reason of a dead letter."""
    properties = received.properties
    told = [
        f'{what} "{sendable(str(value)[:100])}"'
        for what, value in (
            ("content type", properties.content_type),
            ("app id", properties.app_id),
            ("header __TypeId__", properties.headers.get("__TypeId__")),  # Spring's
        )
        if value and isinstance(value, str)
    ]
    return f" ({', '.join(told)})" if told else ""
