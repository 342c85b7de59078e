"""From bytes and properties to a payload: every odd message has an answer, and none of them is an exception."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError, field_validator
from pydantic_core import PydanticCustomError

from amqpkit import Payload
from amqpkit.deliver.payload import Decoded, Decoding, Invalid, TooNew, decode, registry
from amqpkit.errors import ConsumerError
from amqpkit.model import Properties
from tests.walk.world import Got


class Count(Payload, type="count"):
    n: int


class Greeting(Payload, type="greeting", version=3):
    name: str


class Ratio(Payload, type="ratio"):
    value: float


class Anything(Payload, type="anything"):
    value: Any = None


KNOWN = registry([Count, Greeting, Ratio, Anything])
ACCEPTS = ("count", "greeting", "ratio", "anything", "later")


def got(body: bytes, kind: str | None = "count", headers: dict[str, Any] | None = None, **properties: Any) -> Got:
    return Got(body=body, properties=Properties(type=kind, headers=headers or {}, **properties))


def decoded(received: Got, accepts: tuple[str, ...] = ACCEPTS) -> Decoding:
    return decode(received, KNOWN, accepts)


def reason(received: Got) -> str:
    decoding = decoded(received)
    assert isinstance(decoding, Invalid), decoding
    return decoding.reason


# --- bodies that are handled ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b'{"n": 1}', {}),
        (b'  {"n":1}\n', {}),
        (b'{"n":1, "newer": true}', {}),
        (b'\xef\xbb\xbf{"n":1}', {"content_type": "application/json"}),
        (b'{"n": 1}', {"content_type": "application/octet-stream"}),
        (b'{"n": 1}', {"content_type": "text/plain"}),
        (b'{"n": 1}', {"content_type": "application/json; charset=utf-8"}),
        (b'\xef\xbb\xbf{"n": 1}', {"content_type": 'application/json; Charset="UTF8"'}),
        ('{"n": 1}'.encode("utf-16"), {"content_type": "application/json; charset=utf-16"}),
        ('\ufeff{"n": 1}'.encode("utf-16-le"), {"content_type": "application/json;charset=utf-16-le; v=1"}),
        (b'{"n": 1}', {"content_encoding": "utf-8"}),
        (b'{"n": 1}', {"content_encoding": "UTF8 "}),
        (b'{"n": 1}', {"content_encoding": "identity"}),
        (b'{"n": 1}', {"content_encoding": "binary"}),
        (b'{"n": 1}', {"content_encoding": ""}),
    ],
)
def test_json_is_found_in_whatever_it_is_said_to_be(body: bytes, properties: dict[str, Any]) -> None:
    assert decoded(got(body, **properties)) == Decoded(Count(n=1))


def test_a_message_without_any_property_is_taken_for_the_queues_first_type() -> None:
    # rabbitmqadmin, a .NET service, amq.rabbitmq.log: celery/kombu#644
    assert decode(Got(body=b'{"n": 1}', properties=Properties()), KNOWN, ("count", "greeting")) == Decoded(Count(n=1))
    assert decode(got(b'{"n": 1}', kind=""), KNOWN, ("count",)) == Decoded(Count(n=1))


def test_a_declared_charset_is_honoured() -> None:
    body = '{"name": "Злой"}'.encode("cp1251")

    content_type = "application/json; charset=windows-1251"
    decoding = decoded(got(body, "greeting", {"amqpkit-version": 3}, content_type=content_type))

    assert decoding == Decoded(Greeting(name="Злой"))


def test_of_duplicate_keys_the_last_one_counts() -> None:
    assert decoded(got(b'{"n":1,"n":2}')) == Decoded(Count(n=2))


def test_a_huge_whole_number_keeps_every_digit() -> None:
    huge = 10**300 + 7
    assert decoded(got(b'{"n": %d}' % huge)) == Decoded(Count(n=huge))


# --- bodies that are not ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is empty"),
        (b" \r\n\t", "the body is empty"),
        (b"\xef\xbb\xbf", "the body is empty"),
        (b"null", "not a valid Count: Input should be an object"),
        (b"[]", "not a valid Count: Input should be an object"),
        (b'"text"', "not a valid Count: Input should be an object"),
        (b"{}", "not a valid Count: n: Field required"),
        (b'{"n": NaN}', "not a valid Count: n: Input should be a finite number"),
        (b'{"n": 1.5}', "not a valid Count: n: Input should be a valid integer"),
        (b'{"n":1}{"n":2}', "not a valid Count: Invalid JSON: trailing characters"),
        (b'{"n":1}\x00', "not a valid Count: Invalid JSON: trailing characters"),
        (b"[" * 100_000, "not a valid Count: Invalid JSON: recursion limit exceeded"),
        (b'{"n":' * 100_000, "not a valid Count: Invalid JSON: recursion limit exceeded"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not a valid Count: "),
        (b'{"n": "\\ud800"}', "not a valid Count: Invalid JSON: "),
        (base64.b64decode("gaFuAQ=="), "not a valid Count: Invalid JSON: "),  # msgpack said to be JSON
        (base64.b64decode("gAJ9cQAu"), "not a valid Count: Invalid JSON: "),  # a pickle: pika/pika#202
        (base64.b64decode("eyJuYW1lIjoi5uju5SJ9"), "not a valid Count: Invalid JSON: "),  # cp1251, undeclared
        ('{"n": 1}'.encode("utf-16"), "not a valid Count: Invalid JSON: "),
    ],
)
def test_a_body_that_is_no_payload_is_invalid_with_its_reason(body: bytes, says: str) -> None:
    assert reason(got(body, content_type="application/json")).startswith(says)


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b'"nan"', b"1e999"])
def test_a_number_that_json_has_not_is_invalid(value: bytes) -> None:
    assert "finite number" in reason(got(b'{"value": ' + value + b"}", "ratio"))


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("unicode_escape", b'{"n": "\\q"}'),  # Python would warn
        ("punycode", b"{}" * 100_000),  # and take minutes
        ("idna", b"{}"),
        ("no-such-charset", b'{"n": 1}'),
        ("zlib", b'{"n": 1}'),  # a codec, but none of text
        ("utf-16-be", b'{"n": 1'),
        ("us-ascii", b'{"n": "\xff"}'),
        ("unicode_escape", b'{"n": "\\ud800"}'),
        ("\0", b'{"n": 1}'),
        ("\udcff", b'{"n": 1}'),
        ("../../x", b'{"n": 1}'),
    ],
)
def test_a_body_that_is_not_in_its_charset_is_invalid(charset: str, body: bytes) -> None:
    assert "charset" in reason(got(body, content_type=f"application/json; charset={charset}"))


def test_every_validation_error_is_told_by_place_but_no_more_than_ten_and_never_the_input() -> None:
    class Many(Payload, type="many"):
        values: list[int]

    secret = ['"hunter2"'] * 30
    decoding = decode(got(f'{{"values": [{",".join(secret)}]}}'.encode(), "many"), registry([Many]), ("many",))

    assert isinstance(decoding, Invalid)
    assert [error["place"] for error in decoding.errors] == [f"values.{n}" for n in range(10)]
    assert {error["kind"] for error in decoding.errors} == {"int_parsing"}
    assert decoding.reason.startswith("not a valid Many: values.0: Input should be a valid integer")
    assert decoding.reason.endswith(" and 29 more")
    assert "hunter2" not in repr(decoding)


# --- validators of the user's own --------------------------------------------------------------------


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


def payload_whose_validator_raises(error: BaseException) -> type[Payload]:
    class Checked(Payload, type="checked"):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, _value: int) -> int:
            raise error

    return Checked


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("n is cursed"), "n is cursed"),
        (AssertionError("n is cursed"), "n is cursed"),
        (KeyError("n"), "KeyError: 'n'"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (LookupError("no such customer"), "LookupError: no such customer"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (BadText(), "BadText: (its text could not be made)"),
        (OSError("x" * 10_000), "OSError: xxx"),
        (PydanticCustomError("k" * 9000, "m" * 9000), "n: mmm"),  # type: ignore[arg-type,unused-ignore]
        (FileNotFoundError("caf\udce9.jpg"), "FileNotFoundError: caf\\udce9.jpg"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
    ],
)
def test_whatever_a_validator_raises_makes_the_message_invalid(error: BaseException, says: str) -> None:
    cls = payload_whose_validator_raises(error)

    decoding = decode(got(b'{"n": 1}', "checked"), registry([cls]), ("checked",))

    assert isinstance(decoding, Invalid)
    assert says in decoding.reason
    assert len(decoding.reason) < 700
    assert all(len(text) <= 500 for told in decoding.errors for text in told.values())


def test_who_presses_ctrl_c_is_obeyed_even_in_a_validator() -> None:
    cls = payload_whose_validator_raises(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        decode(got(b'{"n": 1}', "checked"), registry([cls]), ("checked",))


# --- types and versions ------------------------------------------------------------------------------


def test_a_type_that_the_queue_does_not_accept_is_invalid_and_told_what_would_be() -> None:
    assert reason(got(b"{}", "order")) == (
        'type "order" is not accepted by queue "orders" (it accepts count, greeting, ratio, anything, later)'
    )


def test_a_known_type_is_invalid_on_a_queue_that_does_not_accept_it() -> None:
    assert isinstance(decoded(got(b'{"n": 1}', "count"), accepts=("greeting",)), Invalid)


def test_an_accepted_type_that_this_worker_does_not_know_may_be_another_workers() -> None:
    assert decoded(got(b"whatever", "later")) == TooNew('no class for type "later" in this worker')


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (3, Decoded(Greeting(name="Ada"))),
        (4, TooNew('"greeting" has version 4, this worker knows 3')),
        (20260101, TooNew('"greeting" has version 20260101, this worker knows 3')),
        (2**63 - 1, TooNew(f'"greeting" has version {2**63 - 1}, this worker knows 3')),
        (2, Invalid('"greeting" has version 2, this worker knows 3')),
        (0, Invalid("header amqpkit-version is 0, not a whole number from 1")),
        (-3, Invalid("header amqpkit-version is -3, not a whole number from 1")),
        (True, Invalid("header amqpkit-version is True, not a whole number from 1")),
        (3.0, Invalid("header amqpkit-version is 3.0, not a whole number from 1")),
        ("3", Invalid("header amqpkit-version is '3', not a whole number from 1")),
        (None, Invalid("header amqpkit-version is None, not a whole number from 1")),
        ([3], Invalid("header amqpkit-version is [3], not a whole number from 1")),
        ({"v": 3}, Invalid("header amqpkit-version is {'v': 3}, not a whole number from 1")),
    ],
)
def test_a_version_is_known_or_too_new_or_invalid(version: object, expected: Decoding) -> None:
    assert decoded(got(b'{"name": "Ada"}', "greeting", {"amqpkit-version": version})) == expected


def test_without_a_version_it_is_the_first() -> None:
    assert decoded(got(b'{"n": 1}')) == Decoded(Count(n=1))
    assert isinstance(decoded(got(b'{"name": "Ada"}', "greeting")), Invalid)


def test_a_version_may_be_a_date() -> None:
    class Dated(Payload, type="dated", version=20260101):
        n: int

    received = got(b'{"n": 1}', "dated", {"amqpkit-version": 20260101})

    assert decode(received, registry([Dated]), ("dated",)) == Decoded(Dated(n=1))


# --- nothing raises ------------------------------------------------------------------------------------

header_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
words = st.text() | st.text(st.characters(codec=None), max_size=255)
bodies = (
    st.binary()
    | st.sampled_from([b"", b"null", b"[" * 100_000, b'{"n": NaN}', b'{"n":1}{"n":2}', b'{"value": "\\ud800"}'])
    | st.text().map(lambda text: ('{"value": "' + text + '"}').encode())
)
charsets = st.sampled_from(["utf-8", "utf-16", "utf-7", "cp1251", "idna", "punycode", "hex", "undefined", "mbcs", ""])
content_types = st.none() | words | st.builds("a/b; charset={}".format, words | charsets)


@settings(deadline=None)  # a busy machine is no fault
@given(
    body=bodies,
    kind=st.none() | st.sampled_from(ACCEPTS) | words,
    content_type=content_types,
    content_encoding=st.none() | st.just("") | words,
    headers=st.dictionaries(st.just("amqpkit-version") | words, header_values, max_size=3),
)
@example(b"{}", "count", "application/json; charset*0*=\udcff; charset*1=x", None, {})
@example(b"{}", "count", "application/json; charset*=utf-8'en'%FF", None, {})
def test_no_message_makes_decoding_raise(
    body: bytes,
    kind: str | None,
    content_type: str | None,
    content_encoding: str | None,
    headers: dict[str, Any],
) -> None:
    properties = Properties(type=kind, content_type=content_type, content_encoding=content_encoding, headers=headers)
    decoding = decoded(Got(body=body, properties=properties))

    assert isinstance(decoding, Decoded | Invalid | TooNew)


def test_a_version_that_cannot_even_be_shown_is_invalid() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]

    assert "[[[[" in reason(got(b"{}", headers={"amqpkit-version": deep}))
    assert "a int" in reason(got(b"{}", headers={"amqpkit-version": 10**5000}))


@settings(deadline=None)  # a busy machine is no fault
@given(n=st.integers())
def test_what_a_payload_writes_it_reads_back(n: int) -> None:
    payload = Count(n=n)
    if abs(n) < 10**4000:
        assert decoded(got(payload.model_dump_json().encode())) == Decoded(payload)


# --- classes ---------------------------------------------------------------------------------------------


def test_a_payload_class_needs_a_type() -> None:
    with pytest.raises(ConsumerError, match=r'Nameless needs a type: class Nameless\(Payload, type="…"\)'):

        class Nameless(Payload):
            pass


@pytest.mark.parametrize("kind", ["", 5, None])
def test_a_type_is_a_text_and_not_empty(kind: Any) -> None:
    with pytest.raises(ConsumerError, match="needs a type"):

        class Nameless(Payload, type=kind):
            pass


def test_a_type_fits_into_amqps_short_string() -> None:
    class Longest(Payload, type="ü" * 127):
        pass

    assert Longest.payload_type == "ü" * 127
    with pytest.raises(ConsumerError, match="the type of TooLong is over AMQP's 255 bytes"):

        class TooLong(Payload, type="ü" * 128):
            pass


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "2", 2**63])
def test_a_version_is_a_whole_number_from_1(version: Any) -> None:
    with pytest.raises(ConsumerError, match=r"the version of Odd is .*; write a whole number from 1"):

        class Odd(Payload, type="odd", version=version):
            pass


def test_two_classes_cannot_have_one_type() -> None:
    class Twin(Payload, type="count"):
        pass

    assert registry([Count, Count]) == {"count": Count}
    with pytest.raises(ConsumerError, match='Count and Twin both have type "count"'):
        registry([Count, Twin])


def test_a_payload_cannot_be_changed_and_takes_no_infinity() -> None:
    payload = Ratio(value=1.0)

    with pytest.raises(ValidationError, match="frozen"):
        payload.value = 2.0  # type: ignore[misc]
    with pytest.raises(ValidationError, match="finite"):
        Ratio(value=float("inf"))


def test_decoding_leaves_the_message_as_it_was() -> None:
    received = got(b'\xef\xbb\xbf {"n": 1}', content_type="application/json")
    before = replace(received)

    decoded(received)

    assert received == before
