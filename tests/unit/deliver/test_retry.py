"""What a failure means, as tables."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit import RetryAfter
from amqpkit.deliver.headers import Past
from amqpkit.deliver.retry import (
    SNOOZE_BOUND,
    Dead,
    Retry,
    Snooze,
    bound_of,
    crashed,
    decide,
    draw,
    instant_of,
    put_off,
    put_off_within_bound,
    without_looks,
)
from amqpkit.model import Delay, DelayQueue
from tests.walk.world import delay

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LEVELS = (delay(10), delay(60), delay(600))


class InvalidAddress(ValueError):
    pass


NEVER = (InvalidAddress, PermissionError)
EXHAUSTED = "attempt 4 of 4 failed"


@pytest.mark.parametrize(
    ("failure", "attempt", "expected"),
    [
        (ValueError(), 0, Retry(LEVELS[0])),
        (ValueError(), 1, Retry(LEVELS[1])),
        (ValueError(), 2, Retry(LEVELS[2])),
        (ValueError(), 3, Dead("exhausted", EXHAUSTED)),
        (SystemExit(), 0, Retry(LEVELS[0])),
        (InvalidAddress(), 0, Dead("permanent", "InvalidAddress is never retried")),
        (InvalidAddress(), 3, Dead("permanent", "InvalidAddress is never retried")),
        (PermissionError(), 1, Dead("permanent", "PermissionError is never retried")),
        (ExceptionGroup("", [OSError(), ValueError()]), 0, Retry(LEVELS[0])),
        (ExceptionGroup("", [OSError(), InvalidAddress()]), 0, Dead("permanent", "ExceptionGroup is never retried")),
        (
            BaseExceptionGroup("", [SystemExit(), ExceptionGroup("", [InvalidAddress()])]),
            0,
            Dead("permanent", "BaseExceptionGroup is never retried"),
        ),
    ],
)
def test_each_failure_moves_one_delay_down_until_none_is_left(
    failure: BaseException, attempt: int, expected: Retry | Dead
) -> None:
    assert decide(failure, attempt, LEVELS, NEVER) == expected


def test_without_delays_the_first_failure_is_the_last() -> None:
    assert decide(ValueError(), 0, (), ()) == Dead("exhausted", "attempt 1 of 1 failed")


def test_without_classes_that_are_never_retried_every_failure_is_retried() -> None:
    assert decide(ExceptionGroup("", [InvalidAddress()]), 0, LEVELS, ()) == Retry(LEVELS[0])


def test_an_attempt_that_nobody_could_have_made_is_exhausted() -> None:
    verdict = decide(ValueError(), 100_000, LEVELS, ())

    assert isinstance(verdict, Dead)
    assert verdict.fate == "exhausted"


@pytest.mark.parametrize(
    ("wait", "expected"),
    [(-5, 10), (0, 10), (9.999, 10), (10, 10), (10.001, 60), (60, 60), (61, 600), (600, 600), (86_400, 600)],
)
def test_the_shortest_delay_that_reaches_the_instant_is_chosen_or_the_longest(wait: float, expected: int) -> None:
    until = NOW + timedelta(seconds=wait)

    assert put_off(LEVELS, until, NOW, "busy") == Snooze(delay(expected), until, "busy")


@settings(deadline=None)  # a busy machine is no fault
@given(st.integers(1, 10**9))
def test_a_delay_reaches_an_instant_that_is_as_far_away_as_itself(milliseconds: int) -> None:
    exact = Delay(milliseconds, (DelayQueue("exact", "exact", milliseconds),))

    assert put_off((exact, delay(10**7)), NOW + timedelta(milliseconds=milliseconds), NOW, "").delay is exact


@pytest.mark.parametrize(
    ("first_seen", "wait", "expected"),
    [
        (None, timedelta(seconds=30), timedelta(seconds=30)),
        (None, 2 * DAY, DAY),
        (NOW - 23 * HOUR, 2 * HOUR, HOUR),
        (NOW - 23 * HOUR, HOUR / 2, HOUR / 2),
        (NOW + 100 * DAY, 2 * DAY, DAY),  # forged: it would never be over
        (datetime.max.replace(tzinfo=UTC), 2 * DAY, DAY),
    ],
)
def test_a_message_is_put_off_to_no_later_than_a_day_after_it_was_first_seen(
    first_seen: datetime | None, wait: timedelta, expected: timedelta
) -> None:
    snooze = put_off_within_bound(LEVELS, NOW + wait, NOW, Past(first_seen=first_seen), fate="too-new", reason="r")

    assert isinstance(snooze, Snooze)
    assert snooze.until == NOW + expected


@pytest.mark.parametrize("fate", ["exhausted", "too-new"])
@pytest.mark.parametrize("since", [DAY, DAY + HOUR, timedelta(days=9000)])
def test_a_day_after_it_was_first_seen_it_is_dead(fate: str, since: timedelta) -> None:
    past = Past(first_seen=NOW - since, snoozes=7)

    assert put_off_within_bound(LEVELS, NOW + HOUR, NOW, past, fate=fate, reason="busy") == Dead(
        fate, "busy; put off 7 times, first seen over 24 h ago"
    )


def test_the_bound_is_a_day_after_the_first_look() -> None:
    assert bound_of(Past(), NOW) == NOW + DAY
    assert bound_of(Past(first_seen=NOW - HOUR), NOW) == NOW + 23 * HOUR


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (30, timedelta(seconds=30)),
        (0.5, timedelta(seconds=0.5)),
        (-30, timedelta()),
        (timedelta(minutes=2), timedelta(minutes=2)),
        (timedelta(minutes=-2), timedelta()),
        (NOW + HOUR, HOUR),
        (NOW - HOUR, timedelta()),
        ((NOW + HOUR).astimezone(timezone(timedelta(hours=5))), HOUR),
        (math.inf, SNOOZE_BOUND),
        (1e300, SNOOZE_BOUND),
        (10**400, SNOOZE_BOUND),
        (-math.inf, timedelta()),
        (math.nan, timedelta()),
        (timedelta.max, SNOOZE_BOUND),
        (timedelta.min, timedelta()),
        (datetime.max.replace(tzinfo=UTC), SNOOZE_BOUND),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))), SNOOZE_BOUND),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), timedelta()),
    ],
)
def test_a_handler_gets_the_message_back_when_it_asks_within_reason(when: Any, expected: timedelta) -> None:
    instant = instant_of(RetryAfter(when), NOW)

    assert instant == NOW + expected
    assert instant.tzinfo is not None


@pytest.mark.parametrize(
    ("past", "limit", "expected"),
    [
        (Past(), 3, None),
        (Past(crashes=2), 3, None),
        (Past(crashes=3), 3, "came back without an end 3 times (delivery limit 3)"),
        (Past(crashes=99), 3, "came back without an end 99 times (delivery limit 3)"),
        (Past(acquired=29), 3, None),
        (Past(acquired=30), 3, "was given back 30 times, mostly by the consumer timeout"),
        (Past(crashes=1, acquired=199), 20, None),
        (Past(crashes=1, acquired=200), 20, "was given back 200 times, mostly by the consumer timeout"),
        (Past(attempt=99, snoozes=99), 3, None),
    ],
)
def test_a_message_that_takes_its_workers_down_is_crashed(past: Past, limit: int, expected: str | None) -> None:
    assert crashed(past, limit) == (Dead("crashed", expected) if expected else None)


JITTERED = Delay(1000, tuple(DelayQueue(f"{n}ms", f"q.{n}ms", n) for n in (900, 950, 1000)))


@pytest.mark.parametrize(
    ("chance", "expected"),
    [(0.0, "900ms"), (0.33, "900ms"), (0.34, "950ms"), (0.66, "950ms"), (0.67, "1000ms"), (1 - 2**-53, "1000ms")],
)
def test_each_queue_of_a_delay_is_drawn_alike(chance: float, expected: str) -> None:
    assert draw(JITTERED, chance).key == expected


def test_a_delay_without_jitter_has_one_queue_to_draw() -> None:
    assert {draw(delay(10), chance / 10).key for chance in range(10)} == {"10s"}


@pytest.mark.parametrize(
    ("published", "lease", "left"),
    [
        (NOW - timedelta(hours=1), None, 2),
        (NOW - timedelta(hours=1), 60.0, 60),
        (NOW - timedelta(hours=50), None, 100),
        (NOW - timedelta(days=30), None, 500),
        (NOW + timedelta(hours=1), None, 500),
        ((NOW - timedelta(hours=1)).replace(tzinfo=None), None, 500),
        (None, None, 500),
    ],
)
def test_a_message_that_was_only_looked_at_did_not_lose_its_leases(published, lease, left) -> None:
    assert without_looks(Past(crashes=1, acquired=500), published, NOW, lease) == Past(crashes=1, acquired=left)
