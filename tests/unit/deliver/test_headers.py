"""Our headers: read from strangers without believing them, written on copies, kept within one frame."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pamqp import encode

from amqpkit.deliver import headers as h
from amqpkit.model import Properties
from tests.walk.world import Got

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = datetime(2025, 12, 31, 9, 30, tzinfo=UTC)


def got(headers: dict[str, Any] | None = None, *, redelivered: bool = False, **properties: Any) -> Got:
    return Got(properties=Properties(headers=headers or {}, **properties), redelivered=redelivered)


def trouble(
    message: str = "it broke", traceback: str = "at line 1", kind: str = "Broken", worker: str = "w1"
) -> h.Trouble:
    return h.Trouble(kind, message, traceback, NOW, worker)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# --- reading ---------------------------------------------------------------------------------------------


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


FORGED = [
    ("three", "'three'"),
    ("3", "'3'"),
    (-5, "-5"),
    (100_001, "100001"),
    (2**63 - 1, "9223372036854775807"),
    (10**5000, "a int"),
    (True, "True"),
    (3.0, "3.0"),
    (math.nan, "nan"),
    (None, "None"),
    ([3], "[3]"),
    ({"count": 3}, "{'count': 3}"),
    (b"3", "b'3'"),
    (NOW, "datet"),
    (nested(100_000), "[[[[[["),
    (Unspeakable(), "<Unspeakable instance at"),
    ("\udcff", r"'\udcff'"),
]


@pytest.mark.parametrize(
    ("name", "field"), [(h.ATTEMPT, "attempt"), (h.CRASHES, "crashes"), (h.SNOOZES, "snoozes")], ids=lambda v: v
)
@pytest.mark.parametrize(("value", "shown"), FORGED, ids=[shown[:20] for _, shown in FORGED])
def test_a_counter_that_is_none_is_0_and_named(name: str, field: str, value: object, shown: str) -> None:
    # rabbitmq/rabbitmq-server#10709: counting by what a stranger may write ends in a retry without end
    past = h.read_past(got({name: value}))

    assert getattr(past, field) == 0
    ((fault, told),) = past.faults
    assert fault == name
    assert told.startswith(shown)
    assert len(told) <= 80


@pytest.mark.parametrize("value", [0, 1, 7, 100_000])
def test_a_counter_is_read(value: int) -> None:
    past = h.read_past(got({h.ATTEMPT: value, h.CRASHES: value, h.SNOOZES: value}))

    assert past == h.Past(attempt=value, crashes=value, snoozes=value)


def test_x_death_counts_nothing() -> None:
    headers = {"x-death": [{"queue": "w", "reason": "rejected", "count": 99}], "x-amqpkit-attempt": 5}

    assert h.read_past(got(headers)) == h.Past()


def test_the_brokers_counters_count_only_when_it_has_redelivered() -> None:
    headers = {h.CRASHES: 2, "x-delivery-count": 3, "x-acquired-count": 40}

    assert h.read_past(got(headers)) == h.Past(crashes=2)
    assert h.read_past(got(headers, redelivered=True)) == h.Past(crashes=5, acquired=40)


INSTANTS = [
    ("2025-12-31T09:30:00.000Z", THEN),
    ("2025-12-31T10:30:00+01:00", THEN),
    ("20251231T093000Z", THEN),
]
NO_INSTANTS = [
    "2025-12-31T09:30:00",
    "tomorrow",
    "",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "2025-12-31T09:30:00+99:99",
    1767177000,
    True,
    ["2025-12-31T09:30:00Z"],
    THEN,
]


@pytest.mark.parametrize(("name", "field"), [(h.NOT_BEFORE, "not_before"), (h.FIRST_SEEN, "first_seen")])
@pytest.mark.parametrize(("value", "expected"), INSTANTS)
def test_an_instant_is_read_in_utc(name: str, field: str, value: str, expected: datetime) -> None:
    instant = getattr(h.read_past(got({name: value})), field)

    assert instant == expected
    assert instant.tzinfo is UTC


@pytest.mark.parametrize("name", [h.NOT_BEFORE, h.FIRST_SEEN])
@pytest.mark.parametrize("value", NO_INSTANTS, ids=repr)
def test_what_is_no_instant_is_none_and_named(name: str, value: object) -> None:
    past = h.read_past(got({name: value}))

    assert (past.not_before, past.first_seen) == (None, None)
    assert [fault for fault, _ in past.faults] == [name]


def test_a_message_without_headers_has_no_past() -> None:
    assert h.read_past(Got(properties=Properties())) == h.Past()
    assert h.read_past(got({h.NOT_BEFORE: None, h.FIRST_SEEN: None})) == h.Past()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ends = st.sampled_from(["0001-01-01", "9999-12-31", "2026-01-01", "2026-02-30"])
dates = st.builds(
    "{}T{:02}:59:59{}{:02}:{:02}".format,
    ends,
    st.integers(0, 25),
    st.sampled_from("+-"),
    st.integers(0, 24),
    st.integers(0, 60),
)
OURS = [name for name in vars(h).values() if isinstance(name, str) and name.startswith("amqpkit-")]


@settings(deadline=None)  # a busy machine is no fault
@given(headers=st.dictionaries(st.sampled_from([*OURS, "x-delivery-count", "x-acquired-count"]), anything | dates))
@example({h.FIRST_SEEN: "9999-12-31T23:59:59-00:01", h.NOT_BEFORE: "0001-01-01T00:00:00+00:01"})
def test_no_header_makes_reading_raise_and_every_count_is_bounded(headers: dict[str, Any]) -> None:
    received = got(headers, redelivered=True)
    past = h.read_past(received)

    assert all(0 <= n <= 200_000 for n in (past.attempt, past.crashes, past.acquired, past.snoozes))
    h.read_published_at(received)
    assert isinstance(h.read_origin(received)[0], str)
    assert h.read_key(received) is None or isinstance(h.read_key(received), str)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ("shop", "order.place.eu")),
        ({h.EXCHANGE: "first", h.ROUTING_KEY: "first.key"}, ("first", "first.key")),
        ({h.EXCHANGE: "", h.ROUTING_KEY: ""}, ("", "")),
        ({h.EXCHANGE: "first"}, ("shop", "order.place.eu")),
        ({h.EXCHANGE: 5, h.ROUTING_KEY: "first.key"}, ("shop", "order.place.eu")),
    ],
)
def test_the_origin_is_that_of_the_first_publish(headers: dict[str, Any], expected: tuple[str, str]) -> None:
    assert h.read_origin(got(headers)) == expected


@pytest.mark.parametrize(
    ("headers", "message_id", "expected"),
    [
        ({h.KEY: "k-1"}, "m-1", "k-1"),
        ({}, "m-1", "m-1"),
        ({h.KEY: ""}, "m-1", "m-1"),
        ({h.KEY: 7}, "m-1", "m-1"),
        ({}, "", None),
        ({}, None, None),
    ],
)
def test_the_key_is_ours_else_the_message_id_else_none(
    headers: dict[str, Any], message_id: str | None, expected: str | None
) -> None:
    assert h.read_key(got(headers, message_id=message_id)) == expected


def test_the_time_of_publishing_is_our_header_else_the_timestamp() -> None:
    assert h.read_published_at(got({h.PUBLISHED_AT: "2025-12-31T09:30:00.000Z"}, timestamp=NOW)) == THEN
    assert h.read_published_at(got({h.PUBLISHED_AT: "nonsense"}, timestamp=NOW)) == NOW
    assert h.read_published_at(got()) is None


def test_an_instant_is_written_in_utc_with_milliseconds() -> None:
    there = datetime(2026, 1, 1, 13, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))

    assert h.format_instant(there) == "2026-01-01T12:00:00.123Z"


# --- copies ----------------------------------------------------------------------------------------------


def copy(received: Got, ours: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(h.copy_of(received, ours or {}, first_seen=NOW).properties.headers)


def test_a_copy_keeps_body_and_properties_but_what_the_broker_would_act_on() -> None:
    properties = Properties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"tenant": "t-1", "traceparent": "00-ab-cd-01"},
        delivery_mode=1,
        priority=7,
        correlation_id="c-1",
        reply_to="answers",
        expiration="400",
        message_id="m-1",
        timestamp=THEN,
        type="order.place",
        user_id="guest",
        app_id="shop",
    )
    message = h.copy_of(Got(body=b"\xff\x00", properties=properties), {h.ATTEMPT: 1}, first_seen=NOW)

    assert message.body == b"\xff\x00"
    assert message.properties == replace(
        properties,
        delivery_mode=2,
        expiration=None,
        user_id=None,
        headers={
            "tenant": "t-1",
            "traceparent": "00-ab-cd-01",
            h.EXCHANGE: "shop",
            h.ROUTING_KEY: "order.place.eu",
            h.FIRST_SEEN: "2026-01-01T12:00:00.000Z",
            h.ATTEMPT: 1,
        },
    )


@pytest.mark.parametrize(
    "name",
    [
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-delivery-count",
        "x-acquired-count",
        "CC",
        "BCC",
    ],
)
def test_a_copy_strips_the_brokers_traces(name: str) -> None:
    assert name not in copy(got({name: ["anything"]}))


@pytest.mark.parametrize("name", ["x-tenant", "cc", "x-deliver-to", "x-opt-user", "amqpkit-key", "amqpkit-version"])
def test_a_copy_keeps_everything_else(name: str) -> None:
    assert copy(got({name: "kept"}))[name] == "kept"


def test_the_origin_survives_any_number_of_copies() -> None:
    first = h.copy_of(got(), {}, first_seen=NOW)
    back = Got(properties=first.properties, exchange="orders.retry", routing_key="return")

    assert copy(back)[h.EXCHANGE] == "shop"
    assert copy(back)[h.ROUTING_KEY] == "order.place.eu"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "2026-01-01T12:00:00.000Z"),
        ("2025-12-31T09:30:00.000Z", "2025-12-31T09:30:00.000Z"),
        ("9999-12-31T00:00:00Z", "2026-01-01T12:00:00.000Z"),  # else it could be put off for ever
        ("soon", "2026-01-01T12:00:00.000Z"),
        (5, "2026-01-01T12:00:00.000Z"),
    ],
)
def test_first_seen_is_kept_unless_it_is_forged(value: object, expected: str) -> None:
    assert copy(got({h.FIRST_SEEN: value}))[h.FIRST_SEEN] == expected


def test_a_header_of_ours_that_is_none_is_removed_and_a_foreign_none_is_kept() -> None:
    headers = copy(got({h.CRASHES: 3, "empty": None}), {h.CRASHES: None, h.ATTEMPT: 1})

    assert h.CRASHES not in headers
    assert headers["empty"] is None


# --- history ---------------------------------------------------------------------------------------------


def test_a_line_of_history_says_what_happened_and_which_delay_follows() -> None:
    assert h.history_with(got(), trouble(), 1, "10s") == [
        {"attempt": 1, "at": "2026-01-01T12:00:00.000Z", "type": "Broken", "message": "it broke", "delay": "10s"}
    ]


def test_history_is_bounded_and_its_oldest_lines_go_first() -> None:
    lines: list[Any] = []
    for attempt in range(1, 101):
        lines = h.history_with(got({h.HISTORY: lines}), trouble(), attempt, "10s")

    assert [line["attempt"] for line in lines] == list(range(51, 101))


@pytest.mark.parametrize("value", [None, "history", 5, {"attempt": 1}])
def test_a_history_that_is_not_ours_is_dropped(value: object) -> None:
    assert len(h.history_with(got({h.HISTORY: value}), trouble(), 1, None)) == 1


def test_lines_that_are_not_ours_are_dropped() -> None:
    lines = h.history_with(got({h.HISTORY: ["x", {"attempt": 1}, None]}), trouble(), 2, None)

    assert [line["attempt"] for line in lines] == [1, 2]


def test_an_error_is_told_within_bounds_and_its_traceback_by_its_end() -> None:
    header = trouble("m" * 300_000, "t" * 300_000 + "END", kind="T" * 999, worker="w" * 999).header()

    assert {name: len(value) for name, value in header.items()} == {
        "type": 200,
        "message": 4096,
        "traceback": 16 * 1024,
        "at": 24,
        "worker": 200,
    }
    assert header["traceback"].endswith("END")


def test_texts_that_no_broker_takes_are_spelt_out() -> None:
    told = trouble("caf\udce9.jpg", "in caf\udce9.jpg", kind="T\udce9", worker="w\udce9")
    header = told.header() | h.history_with(got(), told, 1, None)[0] | {"word": h.text_of(ValueError("\udce9"))}

    encode.field_table(header)
    assert header["message"] == "caf\\udce9.jpg"
    assert header["word"] == "\\udce9"
