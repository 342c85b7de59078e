"""Our headers fit: into 64 KiB, and with a stranger's into one frame; ours are cut first."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pamqp import encode
from pamqp.commands import Basic

from amqpkit.deliver import headers as h
from amqpkit.errors import MessageTooLarge
from amqpkit.model import Properties
from tests.walk.world import Got

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def got(headers: dict[str, Any] | None = None) -> Got:
    return Got(properties=Properties(headers=headers or {}))


def copy(received: Got, ours: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(h.copy_of(received, ours or {}, first_seen=NOW).properties.headers)


def trouble(
    message: str = "it broke", traceback: str = "at line 1", kind: str = "Broken", worker: str = "w1"
) -> h.Trouble:
    return h.Trouble(kind, message, traceback, NOW, worker)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=30)  # pamqp cuts a name at 128 bytes
wire_values = st.recursive(
    st.none()
    | st.booleans()
    | int64
    | st.text(max_size=300)
    | st.binary(max_size=300).map(bytearray)
    | st.floats(width=32)
    | st.datetimes(timezones=st.none() | st.just(UTC)).filter(lambda value: 1970 < value.year < 2100)
    | st.decimals(min_value=-1000, max_value=1000, places=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)  # a busy machine is no fault
@given(headers=st.dictionaries(names, wire_values, max_size=6))
@example({})
@example({"n": -(2**63), "t": True, "nothing": None, "d": Decimal("1.5"), "e": {}, "l": [], "ü": "ü"})
def test_a_size_is_never_smaller_than_what_goes_over_the_wire(headers: dict[str, Any]) -> None:
    real = len(encode.field_table(headers))

    assert real <= h.encoded_size(headers)


@settings(deadline=None)  # a busy machine is no fault
@given(headers=st.dictionaries(names, st.text(max_size=300) | st.none() | st.booleans(), max_size=6))
def test_the_size_of_texts_is_exact(headers: dict[str, Any]) -> None:
    assert h.encoded_size(headers) == len(encode.field_table(headers))


short = st.none() | st.text(max_size=60)


@settings(deadline=None)  # a busy machine is no fault
@given(st.lists(short, min_size=9, max_size=9), st.none() | st.integers(0, 9), st.none() | st.just(NOW))
def test_the_size_of_properties_is_never_smaller_than_their_frame(
    texts: list[str | None], priority: int | None, timestamp: datetime | None
) -> None:
    fields = [
        field for field in Properties.__dataclass_fields__ if field.endswith(("_type", "ing", "_id", "_to", "ion"))
    ]
    fields.append("type")
    named: dict[str, Any] = dict(zip(fields, texts, strict=True))
    named |= {"priority": priority, "timestamp": timestamp, "delivery_mode": 2}
    ours = Properties(**named)
    theirs = Basic.Properties(message_type=named.pop("type"), **named)

    assert 12 + len(theirs.marshal()) <= h.properties_size(ours)


def of_ours(headers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name.startswith("amqpkit-")}


def dead_headers(text: str, received: Got) -> dict[str, Any]:
    told = trouble(text, text)
    return {
        h.ATTEMPT: 3,
        h.FATE: "exhausted",
        h.ERROR: told.header(),
        h.HISTORY: h.history_with(received, told, 3, None),
    }


@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f4a5", "\udce9", "\0"])
def test_an_error_text_of_300_kb_leaves_a_message_that_can_be_sent(letter: str) -> None:
    # Particular/NServiceBus.RabbitMQ#102: one such text closed the connection, again and again
    received = got({h.HISTORY: [{"attempt": n, "message": h.sendable(letter) * 500} for n in range(60)]})
    headers = copy(received, dead_headers(letter * 300_000, received))

    assert len(encode.field_table(of_ours(headers))) <= 64 * 1024
    assert headers[h.FATE] == "exhausted"
    assert headers[h.ERROR]["type"] == "Broken"
    assert headers[h.ERROR]["message"]
    assert headers[h.HISTORY][-1]["attempt"] == 3


def test_what_fits_is_not_cut() -> None:
    ours = dead_headers("it broke", got())

    assert of_ours(copy(got({"trace": "t" * 10_000}), ours)).items() >= ours.items()


def test_a_message_with_120_kb_of_foreign_headers_is_forwarded_and_ours_are_cut_first() -> None:
    received = got({"trace": "t" * 120_000})
    message = h.copy_of(received, dead_headers("x" * 300_000, received), first_seen=NOW)
    headers = dict(message.properties.headers)

    assert headers["trace"] == "t" * 120_000
    assert headers[h.FATE] == "exhausted"
    assert headers[h.ERROR]["message"].startswith("xxx")
    assert len(encode.field_table(headers)) + h.properties_size(message.properties) <= h.FRAME_MAX


def test_ours_are_cut_in_the_order_of_their_worth() -> None:
    ours = dead_headers("m" * 4096, got()) | {h.HISTORY: [{"attempt": n, "message": "h" * 500} for n in range(50)]}
    ours[h.ERROR] |= {"traceback": "t" * 16_000, "errors": [{"message": "e" * 500}] * 10}
    left: list[tuple[int, int, int, int]] = []
    for room in range(h.encoded_size(ours), 600, -200):
        fitted = h.fit(ours, room)
        assert h.encoded_size(fitted) <= room
        error = fitted[h.ERROR]
        step = tuple(
            map(len, (error.get("traceback", ""), fitted.get(h.HISTORY, []), error.get("errors", []), error["message"]))
        )
        if step not in left:
            left.append(step)  # type: ignore[arg-type]

    assert left == [(16_000, 50, 10, 4096), (1000, 50, 10, 4096), (0, 3, 10, 4096), (0, 1, 0, 500), (0, 0, 0, 100)]


def test_foreign_headers_over_the_frame_are_too_large() -> None:
    with pytest.raises(MessageTooLarge, match=r"headers are \d+ bytes over what fits into one frame"):
        copy(got({"trace": "t" * 131_000}))


def test_a_stranger_who_uses_our_prefix_is_forwarded_as_long_as_the_frame_holds_it() -> None:
    headers = {"amqpkit-key": "k" * 70_000, h.ERROR: "e" * 20_000, h.HISTORY: "h" * 20_000}

    assert of_ours(copy(got(headers), {h.SNOOZES: 1})).keys() == {
        h.KEY,
        h.EXCHANGE,
        h.ROUTING_KEY,
        h.FIRST_SEEN,
        h.SNOOZES,
    }


def test_headers_that_are_nested_without_end_are_too_large() -> None:
    with pytest.raises(MessageTooLarge, match="nested too deeply"):
        copy(got({"deep": nested(100_000)}))


@settings(deadline=None)  # a busy machine is no fault
@given(
    foreign=st.dictionaries(names, st.text(max_size=200), max_size=3),
    text=st.text(st.characters(codec=None), max_size=2000),
    times=st.integers(1, 200),
    lines=st.integers(0, 60),
    room=st.integers(2000, 131_064),
)
def test_what_is_fitted_fits(foreign: dict[str, str], text: str, times: int, lines: int, room: int) -> None:
    received = got({**foreign, h.HISTORY: [{"attempt": n, "message": h.sendable(text)} for n in range(lines)]})
    headers = {**foreign, **dead_headers(text * times, received)}
    try:
        fitted = h.fit(headers, room)
    except MessageTooLarge:
        assert h.encoded_size(foreign) > room - 1500
        return

    assert len(encode.field_table(fitted)) <= room
    assert len(encode.field_table(of_ours(fitted))) <= h.OURS_MAX
    assert fitted.items() >= foreign.items()
