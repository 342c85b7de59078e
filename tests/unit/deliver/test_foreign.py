"""What strangers send, packed or in numbers of any size: each has a stated end, and none costs much to find it."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
import tracemalloc
import zlib
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from amqpkit import Payload
from amqpkit.deliver import bodies
from amqpkit.deliver.payload import Decoded, Decoding, Invalid, TooNew, decode, encode, registry
from amqpkit.model import Properties
from tests.walk.world import Got


class Count(Payload, type="count"):
    n: int


class Mixed(Payload, type="mixed"):
    whole: int = 0
    ratio: float = 0.0
    exact: Decimal = Decimal(0)
    either: int | float = 0
    flag: bool = False
    text: str = ""
    nested: dict[str, list[float]] = Field(default_factory=dict)


class Broken(Payload, type="broken"):
    ratio: float
    whole: Any = None

    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no dump today")


ACCEPTS = ("count", "mixed", "broken", "later")
BODY = b'{"n": 1}'


def read(body: bytes, kind: str | None = "count", limit: int = bodies.BODY_MAX, **properties: Any) -> Decoding:
    received = Got(body=body, properties=Properties(type=kind, **properties), queue="work")
    return decode(received, registry([Count, Mixed, Broken]), ACCEPTS, limit=limit)


def reason(*arguments: Any, **properties: Any) -> str:
    decoding = read(*arguments, **properties)
    assert isinstance(decoding, Invalid), decoding
    return decoding.reason


def zipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # the same at any time: it becomes part of a test's name


# --- packed bodies -----------------------------------------------------------------------------------


def bare(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", zipped(BODY)),
        (" GZip ", zipped(BODY)),
        ("x-gzip", zipped(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY, wbits=9)),
        ("deflate", bare(BODY)),
    ],
)
def test_a_packed_body_is_unpacked(encoding: str, body: bytes) -> None:
    assert read(body, content_encoding=encoding) == Decoded(Count(n=1))


def test_a_packed_body_may_have_a_charset_too() -> None:
    packed = zipped('{"n": 1}'.encode("utf-16"))

    assert read(packed, content_encoding="gzip", content_type="a/b; charset=utf-16") == Decoded(Count(n=1))


@pytest.mark.parametrize(
    ("encoding", "body", "says"),
    [
        ("gzip", b"", "the gzip body is cut off"),
        ("gzip", BODY, "the body is not gzip: "),
        ("gzip", zipped(BODY)[:-9], "the gzip body is cut off"),
        ("gzip", zipped(BODY)[:-8] + bytes(8), "the body is not gzip: "),
        ("gzip", zipped(BODY) * 2, "bytes follow the end of the gzip body"),
        ("gzip", zipped(b"") * 50_000, "bytes follow the end of the gzip body"),
        ("gzip", zipped(b" \n"), "the body is empty"),
        ("deflate", b"", "the deflate body is cut off"),
        ("deflate", b"\xff\xff", "the body is not deflate: "),
        ("deflate", zlib.compress(BODY) + b"x", "bytes follow the end of the deflate body"),
        ("br", BODY, 'content encoding "br" is not supported (gzip, deflate and zstd are)'),
        ("gzip, gzip", BODY, 'content encoding "gzip, gzip" is not supported'),
        ("\udcff" * 50, BODY, 'content encoding "\\udcff'),
    ],
)
def test_a_body_that_is_not_what_its_encoding_says_is_invalid(encoding: str, body: bytes, says: str) -> None:
    assert reason(body, content_encoding=encoding).startswith(says)


def test_what_unpacks_to_the_limit_is_read_and_one_byte_more_is_not() -> None:
    body = BODY + b" " * 1000
    for encoding, packed in (("gzip", zipped(body)), ("deflate", zlib.compress(body))):
        assert read(packed, limit=len(body), content_encoding=encoding) == Decoded(Count(n=1))
        told = f"the {encoding} body unpacks to more than {len(body) - 1} bytes"
        assert reason(packed, limit=len(body) - 1, content_encoding=encoding) == told


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_costs_no_more_than_the_limit(encoding: str) -> None:
    packer = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(512)) + packer.flush()
    assert len(bomb) < 2**20  # half a gigabyte in half a megabyte
    tracemalloc.start()
    try:
        said = reason(bomb, content_encoding=encoding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert said == f"the {encoding} body unpacks to more than 16777216 bytes"
    assert peak < 3 * bodies.BODY_MAX


# --- zstd, where there is one ------------------------------------------------------------------------


class Stream:
    """Stands for the standard library's decompressor: what it gives is what it was given."""

    eof, unused_data = True, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data == b"bad":
            raise ValueError("Unknown frame descriptor")
        self.eof = data != b"cut"
        return data[:max_length]


class Reader:
    """Stands for the package's reader."""

    def __init__(self, max_window_size: int) -> None:
        assert max_window_size <= 2**27

    def stream_reader(self, data: bytes, *, read_across_frames: bool) -> Reader:
        assert not read_across_frames
        self.data = data
        return self

    def read(self, size: int) -> bytes:
        return self.data[:size]


def offering(monkeypatch: pytest.MonkeyPatch, name: str | None, **contents: Any) -> None:
    modules = {}
    if name is not None:
        modules[name] = ModuleType(name)
        vars(modules[name]).update(contents)

    def find(wanted: str) -> ModuleType:
        if wanted in modules:
            return modules[wanted]
        raise ModuleNotFoundError(wanted)

    monkeypatch.setattr(bodies.importlib, "import_module", find)


def test_without_a_library_zstd_is_invalid_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, None)

    assert reason(BODY, content_encoding="zstd") == (
        'content encoding "zstd" needs Python 3.14 or the package zstandard'
    )


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("compression.zstd", {"ZstdDecompressor": Stream}),
        ("zstandard", {"ZstdDecompressor": Reader, "ZstdCompressionReader": Reader}),
    ],
)
def test_zstd_is_unpacked_by_the_library_that_is_there(
    monkeypatch: pytest.MonkeyPatch, name: str, contents: dict[str, Any]
) -> None:
    offering(monkeypatch, name, **contents)

    assert read(BODY, content_encoding="zstd") == Decoded(Count(n=1))
    assert reason(BODY, limit=3, content_encoding="zstd") == "the zstd body unpacks to more than 3 bytes"


def test_zstd_that_is_none_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, "compression.zstd", ZstdDecompressor=Stream)

    assert reason(b"bad", content_encoding="zstd") == "the body is not zstd: Unknown frame descriptor"
    assert reason(b"cut", content_encoding="zstd") == "the zstd body is cut off"


def test_with_a_real_library_zstd_arrives() -> None:
    module = bodies._zstd()
    if module is None:
        assert not {"zstandard", "compression.zstd"} & sys.modules.keys()
        return
    packed = importlib.import_module(module.__name__).compress(BODY)
    assert read(packed, content_encoding="zstd") == Decoded(Count(n=1))
    assert "not zstd" in reason(b"bad", content_encoding="zstd")


# --- case 409: exact or invalid ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2**53 + 1, 2**63 - 1, 2**63, 10**30, -(2**64) - 1])
def test_a_whole_number_of_any_size_survives(n: int) -> None:
    payload = Mixed(whole=n, either=n, exact=Decimal(n))

    assert read(encode(payload), "mixed") == Decoded(payload)
    assert read(b'{"whole": %d, "either": %d, "exact": %d}' % (n, n, n), "mixed") == Decoded(payload)


@pytest.mark.parametrize(
    "fields",
    [
        '"ratio": 9007199254740993',
        '"whole": 9007199254740993.0',
        '"whole": 9007199254740993e0',
        '"whole": 35892188046993030.0',
        '"exact": 12345678901234567890.12',
        '"either": 9007199254740993.0',
        '"nested": {"a": [1.0, 9007199254740993]}',
    ],
)
def test_a_number_that_would_be_rounded_is_invalid(fields: str) -> None:
    told = "not a valid Mixed: a number beyond 2**53 would be rounded; send it as text"
    assert reason(f"{{{fields}}}".encode(), "mixed") == told


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('"ratio": 9007199254740992', Mixed(ratio=2.0**53)),
        ('"ratio": 1e300', Mixed(ratio=1e300)),
        ('"ratio": 3.589218804699303e+16', Mixed(ratio=3.589218804699303e16)),  # as Python writes it
        ('"ratio": 35892188046993030', Mixed(ratio=3.589218804699303e16)),  # as JavaScript does
        ('"exact": 35892188046993030.0', Mixed(exact=Decimal("35892188046993030.0"))),
        ('"ratio": 0.30000000000000004', Mixed(ratio=0.1 + 0.2)),
        ('"exact": "12345678901234567890.12"', Mixed(exact=Decimal("12345678901234567890.12"))),
        ('"text": "9007199254740993"', Mixed(text="9007199254740993")),
        ('"flag": true, "unknown": 9007199254740993.0', Mixed(flag=True)),
        ('"unknown": 1000000000000000e9999999999999999999', Mixed()),
        ('"whole": 9007199254740993, "ratio": 9223372036854775808', Mixed(whole=2**53 + 1, ratio=2.0**63)),
        ('"whole": 9007199254740993, "ratio": 1.5', Mixed(whole=2**53 + 1, ratio=1.5)),
    ],
)
def test_what_keeps_its_value_is_read(fields: str, expected: Mixed) -> None:
    assert read(f"{{{fields}}}".encode(), "mixed") == Decoded(expected)


@given(x=st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_arrives_as_it_was(x: float) -> None:
    assert read(encode(Mixed(ratio=x)), "mixed") == Decoded(Mixed(ratio=x))
    assert read(json.dumps({"ratio": x}).encode(), "mixed") == Decoded(Mixed(ratio=x))


def test_a_payload_that_cannot_be_looked_into_is_invalid() -> None:
    assert "RuntimeError: no dump today" in reason(b'{"ratio": 9007199254740993}', "broken")


# --- whose it is ---------------------------------------------------------------------------------------

CELERY = {
    "lang": "py",
    "task": "shop.tasks.send_invoice",
    "id": "6f1d0c1e-0000-4000-8000-000000000001",
    "root_id": "6f1d0c1e-0000-4000-8000-000000000001",
    "parent_id": None,
    "group": None,
    "argsrepr": "(7,)",
    "kwargsrepr": "{}",
    "origin": "gen1@host",
}
TASK = json.dumps([[7], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]).encode()


def test_a_celery_message_is_recognised_and_named() -> None:
    told = reason(TASK, None, headers=CELERY, content_type="application/json", content_encoding="utf-8", app_id="shop")

    assert told == (
        'a Celery message (protocol 2) of task "shop.tasks.send_invoice" from gen1@host; queue "work" takes payloads '
        'of amqpkit (content type "application/json", app id "shop")'
    )
    nameless = reason(TASK, None, headers={**CELERY, "origin": None})
    assert nameless.startswith('a Celery message (protocol 2) of task "shop.tasks.send_invoice"; queue')


@pytest.mark.parametrize("headers", [{"task": 5, "id": 1, "root_id": 1, "lang": 1}, {"task": "t"}, {"task": None}])
def test_what_only_has_a_task_is_no_celery_message(headers: dict[str, Any]) -> None:
    assert read(BODY, None, headers=headers) == Decoded(Count(n=1))
    assert read(BODY, "count", headers=CELERY) == Decoded(Count(n=1))


@pytest.mark.parametrize(
    ("body", "properties", "marks"),
    [
        (b'{"orderId":5}', {}, ""),
        (
            b'{"messageId":"1","message":{"orderId":5}}',
            {"content_type": "application/vnd.masstransit+json"},
            ' (content type "application/vnd.masstransit+json")',
        ),
        (
            b'{"orderId":5}',
            {"content_type": "application/json", "headers": {"__TypeId__": "com.shop.OrderPlaced"}},
            ' (content type "application/json", header __TypeId__ "com.shop.OrderPlaced")',
        ),
    ],
)
def test_an_invalid_message_without_a_type_tells_what_it_says_of_its_producer(
    body: bytes, properties: dict[str, Any], marks: str
) -> None:
    told = reason(body, None, **properties)

    assert told == f"not a valid Count: n: Field required; it names no type and was taken for count{marks}"


def test_a_queue_whose_first_type_this_worker_does_not_know_may_be_anothers() -> None:
    received = Got(body=BODY, properties=Properties())

    assert isinstance(decode(received, registry([Count]), ("later", "count")), TooNew)


def test_a_table_that_could_not_be_read_is_named() -> None:
    assert (
        reason(BODY, headers={"amqpkit-unreadable": "ValueError: year"})
        == "its headers cannot be read: ValueError: year"
    )


# --- the cases' own files of messages --------------------------------------------------------------------


def test_each_odd_body_of_case_410_has_its_end() -> None:
    rows = [(b"", False), (b"null", False), (b'{"n": NaN}', False), (b'{"n":1}{"n":2}', False)]
    rows += [(b'{"n":1,"n":2}', True), (b"[" * 100_000, False), (b'  {"n":1}\n', True)]

    assert [isinstance(read(body), Decoded) for body, _ in rows] == [handled for _, handled in rows]
