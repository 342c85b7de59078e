"""Messages that nobody meant: real ones taken apart and put together wrong, and some that never were any."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field, SecretStr, field_validator

from amqpkit import Payload
from amqpkit.model import Properties
from tests.walk.world import Got


class Line(BaseModel):
    sku: str = Field(max_length=20)
    count: int = Field(ge=1)
    price: Decimal = Decimal(0)


class OrderV1(Payload, type="order"):
    id: int

    def upgrade(self) -> OrderV2:
        return OrderV2(id=self.id, lines=[Line(sku="old", count=self.id)])


class OrderV2(Payload, type="order", previous=OrderV1):
    id: int
    lines: list[Line] = Field(default_factory=list)

    def upgrade(self) -> Order:
        return Order(id=UUID(int=self.id), lines=self.lines, at=datetime(2026, 1, 1, tzinfo=UTC))


class Order(Payload, type="order", version=3, previous=OrderV2):
    id: UUID
    at: datetime
    lines: list[Line]
    ratio: float | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class Checked(Payload, type="checked", secrets_allowed="the fuzzer's own"):
    token: SecretStr
    n: int = 0

    @field_validator("n")
    @classmethod
    def divide(cls, value: int) -> int:
        return 1000 // value if value % 7 else [][value]


class Anything(Payload, type="anything"):
    value: Any = None


PAYLOADS: tuple[type[Payload], ...] = (Order, Checked, Anything)
ACCEPTS = ("order", "checked", "anything", "later")

WHOLE: tuple[tuple[str, int, Any], ...] = (
    ("order", 1, {"id": 7}),
    ("order", 2, {"id": 7, "lines": [{"sku": "a", "count": 1, "price": "1.20"}]}),
    ("order", 3, {"id": str(UUID(int=7)), "at": "2026-01-01T00:00:00Z", "lines": [], "extra": {"a": [1, {"b": None}]}}),
    ("checked", 1, {"token": "hunter2", "n": 3}),
    ("anything", 1, {"value": [1, 2.5, "x", None, True, {"deep": [[[]]]}]}),
    ("order", 1, [[7], {}, {"callbacks": None, "chord": None}]),
)
"""Type, version and document that belong together; the last is Celery's."""
NASTY: tuple[bytes, ...] = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"00", b"1.", b".5", b"1e", b"9007199254740993", b"9" * 40),
    *(b"9007199254740993.0", b"12345678901234567890.12", b"1000000000000000e9999999999999999", b"true", b"null"),
    *(b'"\\ud800"', b'"\\u0000"', b'"\\x"', b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xfe\xff", b"'"),
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"[" * 300, b'{"a":' * 300, b"//", b"\\", b"\xe2\x80\xa8", b"", b" "),
)
CHARSETS = (
    *("utf-8", "UTF8", "utf-16", "utf-16-le", "utf-32", "utf-7", "ascii", "latin-1", "windows-1251", "cp037", "koi8-r"),
    *("big5", "gb18030", "shift_jis", "iso-2022-jp", "hz", "punycode", "idna", "unicode_escape", "raw_unicode_escape"),
    *("hex", "zlib", "base64", "rot13", "undefined", "mbcs", "no-such", "../../x", "\0", "\udcff", "é", "x" * 300, ""),
)
ENCODINGS = (
    "",
    "identity",
    "utf-8",
    "gzip",
    "x-gzip",
    "deflate",
    "zstd",
    "br",
    "gzip, deflate",
    "GZIP",
    "\udcff",
    "\0",
)
WORDS = ("", "order", "x", "é", "\udcff", "\0", "a" * 255, "null", "amqpkit-version", "{}", "%s", "\n")


class Maker:
    """Makes messages from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def message(self) -> Got:
        """The next message."""
        type_, version, document = self._random.choice(WHOLE)
        body, properties = self._body(document), self._properties()
        if self._random.random() < 0.7:
            properties = replace(properties, type=type_, headers={**properties.headers, "amqpkit-version": version})
        if (pack := _PACKERS.get(properties.content_encoding or "")) and self._random.random() < 0.7:
            body = pack(body)
            if self._random.random() < 0.3:
                body = self._mutated(body)
        return Got(body=body, properties=properties, queue="fuzz", redelivered=self._random.random() < 0.5)

    # --- bodies ------------------------------------------------------------------------------------

    def _body(self, whole: Any) -> bytes:
        pick = self._random.random()
        if pick < 0.001:
            return self._random.choice([b"[", b'{"a":', b'"', b"9", b"{}"]) * 50_000
        if pick < 0.1:
            return self._random.randbytes(self._random.randrange(60))
        if pick < 0.2:
            return b"".join(self._random.choices(NASTY, k=self._random.randrange(1, 8)))
        document = self._grown(whole, 0)
        body = json.dumps(document, ensure_ascii=self._random.random() < 0.5).encode(errors="surrogatepass")
        if self._random.random() < 0.1:
            body = body.decode(errors="replace").encode(self._random.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7"]))
        return body if self._random.random() < 0.4 else self._mutated(body)

    def _grown(self, value: Any, depth: int) -> Any:
        """A document with values exchanged here and there."""
        if self._random.random() < 0.08:
            return self._value(depth)
        match value:
            case dict():
                grown = {
                    name: self._grown(each, depth + 1) for name, each in value.items() if self._random.random() > 0.05
                }
                return grown | (
                    {self._random.choice(WORDS): self._value(depth)} if self._random.random() < 0.05 else {}
                )
            case list():
                return [self._grown(each, depth + 1) for each in value]
            case _:
                return value

    def _mutated(self, body: bytes) -> bytes:
        for _ in range(self._random.randrange(1, 4)):
            at = self._random.randrange(len(body) + 1)
            match self._random.randrange(6):
                case 0:
                    body = body[:at] + self._random.choice(NASTY) + body[at:]
                case 1:
                    body = body[:at] + self._random.randbytes(1) + body[at + 1 :]
                case 2:
                    body = body[:at]
                case 3:
                    body += body[at:]
                case 4:
                    body = body[:at] + body[at + self._random.randrange(9) :]
                case _:
                    body = body[:at] + self._random.choice(NASTY) + body[at + self._random.randrange(9) :]
        return body

    # --- properties ----------------------------------------------------------------------------------

    def _properties(self) -> Properties:
        return Properties(
            type=self._one(ACCEPTS, 0.75, WORDS),
            content_type=self._content_type(),
            content_encoding=self._one(ENCODINGS, 0.25, WORDS),
            message_id=self._one(("m-1",), 0.5, WORDS),
            app_id=self._one(("shop",), 0.1, WORDS),
            headers=self._headers(),
        )

    def _one(self, usual: tuple[str, ...], often: float, odd: tuple[str, ...]) -> str | None:
        pick = self._random.random()
        if pick < often:
            return self._random.choice(usual)
        return self._random.choice(odd) if pick > 0.95 else None

    def _content_type(self) -> str | None:
        pick = self._random.random()
        if pick < 0.3:
            return None
        if pick < 0.6:
            return "application/json"
        mark = self._random.choice(
            ["; charset=", ";charset=", '; Charset="', "; charset*0*=", ";;charset==", "; x=y; charset="]
        )
        return f"application/json{mark}{self._random.choice(CHARSETS)}"

    def _headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = {}
        if self._random.random() < 0.5:
            headers["amqpkit-version"] = self._random.choice([1, 2, 3, 3, 3, 4, self._value(0)])
        if self._random.random() < 0.1:
            headers |= {name: self._value(0) for name in self._random.sample(_HEADERS, 3)}
        if self._random.random() < 0.05:
            headers |= {
                "task": self._random.choice(["shop.tasks.t", 5, "\udcff"]),
                "id": "1",
                "root_id": "1",
                "lang": "py",
            }
        return headers

    def _value(self, depth: int) -> Any:
        pick = self._random.randrange(16 if depth < 3 else 13)
        match pick:
            case 13:
                return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
            case 14 | 15:
                return {self._random.choice(WORDS): self._value(depth + 1) for _ in range(self._random.randrange(4))}
            case 12:
                return self._random.choice(WORDS)
            case 11:
                return self._random.randrange(-(2**70), 2**70)
            case 10:
                return self._random.uniform(-1e20, 1e20)
            case _:
                return (None, True, False, 0, -1, 1, 2**53 + 1, 1e300, float("inf"), float("nan"))[pick]


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, compresslevel=1, mtime=0),
    "x-gzip": lambda body: gzip.compress(body, compresslevel=1, mtime=0),
    "deflate": lambda body: zlib.compress(body, 1),
}
_MARKS = ("; charset=", ";charset=", '; Charset="', "; charset*0*=", ";;charset==", "; x=y; charset=")
_HEADERS = (
    *("amqpkit-key", "amqpkit-attempt", "amqpkit-crashes", "amqpkit-snoozes", "amqpkit-not-before", "amqpkit-history"),
    *("amqpkit-first-seen", "x-delivery-count", "__TypeId__", "task", "id", "origin", "x-death", "CC"),
)
