"""Not now: who is put off, to when, for how long at most."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from amqpkit import RetryAfter
from amqpkit.deliver.case import End
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import (
    Invoke,
    Moment,
    Release,
)
from amqpkit.errors import LeaseLost, StoreUnavailable
from amqpkit.events import Outcome
from amqpkit.model import Properties
from amqpkit.ports import Claimed, Hold
from tests.walk.play import BURIED, CLAIM, EARLY, INVOKE, KEY, RETRY, STARTED, check_dead, got, play
from tests.walk.world import Got, World


@pytest.mark.parametrize("how", ["says", "raises"])
@pytest.mark.parametrize(
    ("when", "delay", "until"),
    [
        (5, "10s", "2026-01-01T00:00:10.000Z"),
        (30.5, "60s", "2026-01-01T00:00:35.500Z"),
        (timedelta(seconds=60), "60s", "2026-01-01T00:01:05.000Z"),
        (timedelta(hours=2), "60s", "2026-01-01T02:00:05.000Z"),
        (datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC), "10s", "2026-01-01T00:00:07.000Z"),
        (datetime(2020, 1, 1, tzinfo=UTC), "10s", "2026-01-01T00:00:05.000Z"),
        (timedelta(days=30), "60s", "2026-01-02T00:00:05.000Z"),
        (float("inf"), "60s", "2026-01-02T00:00:05.000Z"),
        (datetime.max.replace(tzinfo=UTC), "60s", "2026-01-02T00:00:05.000Z"),
    ],
)
def test_retry_after_takes_the_shortest_delay_that_reaches_and_no_attempt(
    how: str, when: Any, delay: str, until: str
) -> None:
    script: dict[str, Any] = {how: RetryAfter(when, "busy")}
    hands, end = play(got({"amqpkit-attempt": 1, "amqpkit-crashes": 2}), **script)

    assert hands.names == RETRY
    assert hands.effects[3] == Release(KEY)
    assert (hands.copies[0].exchange, hands.copies[0].routing_key) == ("orders.retry", delay)
    assert {k: v for k, v in hands.headers.items() if k not in ("amqpkit-exchange", "amqpkit-routing-key")} == {
        "amqpkit-attempt": 1,
        "amqpkit-crashes": 2,
        "amqpkit-snoozes": 1,
        "amqpkit-not-before": until,
        "amqpkit-first-seen": STARTED,
    }
    assert end == End(Outcome.SNOOZED, 2, reason="asked to come back: busy", delay=delay)


def test_retry_after_is_exhausted_a_day_after_the_message_was_first_seen() -> None:
    received = got({"amqpkit-first-seen": "2025-12-31T00:00:00.000Z", "amqpkit-attempt": 1, "amqpkit-snoozes": 99})
    hands, end = play(received, says=RetryAfter(5))

    assert hands.names == BURIED
    check_dead(hands, end, "exhausted")
    assert hands.headers["amqpkit-attempt"] == 1
    assert end.reason == "asked to come back; put off 99 times, first seen over 24 h ago"


@pytest.mark.parametrize("forged", ["9999-12-31T23:00:00Z", "2026-06-01T00:00:00Z", "soon", 5, None])
def test_a_forged_first_seen_does_not_put_off_for_ever(forged: object) -> None:
    world = World(lambda _call: RetryAfter(3600), ready=[got({"amqpkit-first-seen": forged})])
    for steps in world.deliveries():
        drive_blocking(steps, world)

    assert [letter.properties.headers["amqpkit-fate"] for letter in world.dead] == ["exhausted"]
    assert len(world.delays) == 24


@pytest.mark.parametrize(
    ("not_before", "delay", "until"),
    [
        ("2026-01-01T00:00:08.000Z", "10s", "2026-01-01T00:00:08.000Z"),
        ("2026-01-01T00:00:45.000Z", "60s", "2026-01-01T00:00:45.000Z"),
        ("2026-01-01T09:00:00.000Z", "60s", "2026-01-01T09:00:00.000Z"),
        ("9999-12-31T23:59:59Z", "60s", "2026-01-02T00:00:00.000Z"),
    ],
)
def test_a_message_that_is_not_due_goes_on_waiting_unheard(not_before: str, delay: str, until: str) -> None:
    hands, end = play(got({"amqpkit-not-before": not_before, "amqpkit-snoozes": 3}))

    assert hands.names == EARLY
    assert hands.copies[0].routing_key == delay
    assert (hands.headers["amqpkit-not-before"], hands.headers["amqpkit-snoozes"]) == (until, 4)
    assert end == End(Outcome.SNOOZED, reason="was not due yet", delay=delay)


@pytest.mark.parametrize(
    "headers",
    [
        {"amqpkit-not-before": "2026-01-01T00:00:01.000Z"},  # within the slack of two clocks
        {"amqpkit-not-before": "2025-12-31T00:00:00.000Z"},
        {"amqpkit-not-before": "0001-01-01T00:00:00+23:59"},
        {"amqpkit-not-before": "whenever"},
        {"amqpkit-not-before": 5},
        {"amqpkit-not-before": "2030-01-01T00:00:00Z", "amqpkit-first-seen": "2025-12-31T00:00:00.000Z"},
    ],
)
def test_a_message_that_is_due_or_was_put_off_for_a_day_is_handled(headers: dict[str, Any]) -> None:
    assert play(got(headers))[1].outcome is Outcome.HANDLED


def test_a_held_claim_waits_for_its_lease_and_is_not_released() -> None:
    hands, end = play(got({"amqpkit-attempt": 1}), claimed=Claimed(Hold.HELD, 45.0))

    assert hands.names == [CLAIM, "Publish", "Ack"]
    assert hands.copies[0].routing_key == "60s"
    assert hands.headers["amqpkit-not-before"] == "2026-01-01T00:00:45.000Z"
    assert hands.headers["amqpkit-attempt"] == 1
    assert end == End(Outcome.SNOOZED, 2, reason="another worker handles it", delay="60s")


def test_a_held_claim_waits_however_old_the_message_is() -> None:
    received = got({"amqpkit-first-seen": "2025-01-01T00:00:00.000Z", "amqpkit-not-before": "2026-01-01T00:05:00.000Z"})
    hands, end = play(received, claimed=Claimed(Hold.HELD, 45.0))

    assert hands.names == [CLAIM, "Publish", "Ack"]
    assert end.outcome is Outcome.SNOOZED


@pytest.mark.parametrize(
    ("error", "released"), [(LeaseLost("another has it"), False), (StoreUnavailable("the store is away"), True)]
)
def test_what_a_transaction_rolls_back_is_looked_at_again_and_takes_no_attempt(
    error: Exception, *, released: bool
) -> None:
    hands, end = play(got({"amqpkit-attempt": 1}), raises=error)

    assert hands.names == [CLAIM, INVOKE, "Publish", *(["Release"] if released else []), "Ack"]
    assert hands.copies[0].routing_key == "10s"
    assert hands.headers["amqpkit-attempt"] == 1
    assert (end.outcome, end.attempt) == (Outcome.SNOOZED, 2)


def test_what_is_rolled_back_for_a_day_is_dead() -> None:
    received = got({"amqpkit-first-seen": "2025-12-31T00:00:00.000Z"})
    _, end = play(received, raises=StoreUnavailable("the store is away"))

    assert (end.outcome, end.fate) == (Outcome.DEAD, "exhausted")


def test_two_copies_at_once_have_one_effect() -> None:
    world = World(lambda _call: None, ready=[got(), got(), got()])
    first = world.walk(world.ready.pop(0), world.terms, Moment(world.now))
    world.perform(next(first))  # claims, and works on
    for _ in range(2):
        world.unacked = world.ready.pop(0)
        assert (
            drive_blocking(world.walk(world.unacked, world.terms, Moment(world.now)), world).outcome is Outcome.SNOOZED
        )
    assert isinstance(first.send(Claimed(Hold.CLAIMED)), Invoke)

    assert world.leases.keys() == {KEY}
    assert world.handled == {}


@pytest.mark.parametrize("properties", [{"type": "order.cancel"}, {"headers": {"amqpkit-version": 2}}])
def test_what_only_a_newer_worker_knows_rolls_through_the_delays_and_is_too_new_after_a_day(
    properties: dict[str, Any],
) -> None:
    world = World(
        lambda _call: None,
        ready=[Got(properties=Properties(**{"message_id": "m", "type": "order.place"} | properties))],
    )
    for steps in world.deliveries():
        drive_blocking(steps, world)

    assert world.delays[:4] == ["10s", "60s", "60s", "60s"]
    assert len(world.delays) == 24
    (letter,) = world.dead
    assert letter.properties.headers["amqpkit-fate"] == "too-new"
    assert letter.properties.headers["amqpkit-snoozes"] == 24
    assert "amqpkit-attempt" in letter.properties.headers
    assert not world.calls


def test_too_new_is_neither_claimed_nor_compensated() -> None:
    old = {"amqpkit-first-seen": "2025-12-31T00:00:00.000Z"}

    assert play(got(type="order.cancel"))[0].names == EARLY
    hands, end = play(got(old, type="order.cancel"))
    assert hands.names == EARLY
    check_dead(hands, end, "too-new")
