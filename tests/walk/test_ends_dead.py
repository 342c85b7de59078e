"""What is dead or discarded, with which fate, and what its letter says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import field_validator

from amqpkit import DeadLetter, Discard, Payload, RetryAfter
from amqpkit.deliver import headers as h
from amqpkit.deliver.case import End, Terms
from amqpkit.deliver.effects import (
    Ack,
    Compensate,
    Complete,
    GivenUp,
    Release,
)
from amqpkit.deliver.payload import decode, registry
from amqpkit.deliver.retry import Dead
from amqpkit.events import Outcome
from tests.walk.play import BURIED, EARLY, INVOKE, KEY, check_dead, failure, got, play
from tests.walk.world import START, WORK, terms

# --- dead ------------------------------------------------------------------------------------------------


def test_used_up_attempts_are_exhausted_after_compensation() -> None:
    hands, end = play(got({"amqpkit-attempt": 2}), raises=failure())

    assert hands.names == BURIED
    given_up = GivenUp(Dead("exhausted", "attempt 3 of 3 failed"), "ConnectionError", "the provider is down")
    assert hands.effects[2] == Compensate(KEY, "0.2", given_up)
    assert hands.effects[4] == Release(KEY)
    check_dead(hands, end, "exhausted")
    assert hands.headers["amqpkit-attempt"] == end.attempt == 3
    assert end.reason == "ConnectionError: the provider is down"


def test_without_retries_the_first_failure_is_exhausted() -> None:
    hands, end = play(got(), terms(replace(WORK, delays=())), raises=failure())

    assert hands.names == BURIED
    check_dead(hands, end, "exhausted")


class NotHere(DeadLetter):
    def __init__(self, customer: int) -> None:
        self.customer = customer  # without super().__init__, as people write it


@pytest.mark.parametrize("how", ["says", "raises"])
@pytest.mark.parametrize(
    ("verdict", "text"), [(DeadLetter("no such customer"), "no such customer"), (DeadLetter(), ""), (NotHere(7), "7")]
)
def test_a_dead_letter_is_permanent_said_or_raised(how: str, verdict: DeadLetter, text: str) -> None:
    script: dict[str, Any] = {how: verdict}
    hands, end = play(got(), **script)

    assert hands.names == BURIED
    compensate = hands.effects[2]
    assert isinstance(compensate, Compensate)
    assert compensate.given_up.dead == Dead("permanent", text or "the handler gave it up")
    check_dead(hands, end, "permanent")
    assert hands.headers["amqpkit-error"]["message"] == text
    assert hands.headers["amqpkit-attempt"] == 1


def test_a_class_that_is_never_retried_is_permanent_at_once() -> None:
    rules = terms(never=(ConnectionError,))
    for error in (failure(), ConnectionResetError("reset"), ExceptionGroup("", [OSError(), failure()])):
        hands, end = play(got(), rules, raises=error)

        assert hands.names == BURIED
        check_dead(hands, end, "permanent")


def test_a_verdict_alone_in_a_task_group_is_what_the_handler_said() -> None:
    _, dead = play(got(), raises=ExceptionGroup("", [DeadLetter("no such customer")]))
    _, gone = play(got(), raises=ExceptionGroup("", [Discard("not ours")]))
    _, later = play(got(), raises=BaseExceptionGroup("", [ExceptionGroup("", [RetryAfter(5)])]))

    assert (dead.fate, gone.outcome, later.outcome) == ("permanent", Outcome.DISCARDED, Outcome.SNOOZED)


def test_an_invalid_body_is_dead_with_its_errors_untouched_and_never_claimed() -> None:
    received = replace(got(), body=b'\xef\xbb\xbf{"id": 5, "name": "\xe7"}')
    hands, end = play(received)

    assert hands.names == EARLY
    assert hands.copies[0].message.body == received.body
    assert hands.headers["amqpkit-fate"] == end.fate == "invalid"
    assert hands.headers["amqpkit-attempt"] == 0

    hands, _ = play(replace(got(), body=b'{"id": 5}'))
    assert hands.headers["amqpkit-error"]["type"] == "invalid"
    assert hands.headers["amqpkit-error"]["errors"] == [
        {"place": "id", "kind": "string_type", "message": "Input should be a valid string"}
    ]


def test_a_type_that_the_queue_does_not_accept_is_invalid() -> None:
    hands, end = play(got(type="order.steal"))

    assert hands.names == EARLY
    check_dead(hands, end, "invalid")
    assert "errors" not in hands.headers["amqpkit-error"]


def test_a_validator_that_raises_anything_makes_it_invalid() -> None:
    class Checked(Payload, type="checked"):
        id: str

        @field_validator("id")
        @classmethod
        def check(cls, _value: str) -> str:
            raise KeyError("customers")

    rules = Terms("orders", lambda received: decode(received, registry([Checked]), ("checked",)), WORK)
    hands, end = play(got(type="checked"), rules)

    assert hands.names == EARLY
    check_dead(hands, end, "invalid")
    assert end.reason == "Checked could not be validated: KeyError: 'customers'"


# --- discarded -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["says", "raises"])
def test_a_discarded_message_is_complete_and_acked(how: str) -> None:
    script: dict[str, Any] = {how: Discard("not ours")}
    hands, end = play(got(), **script)

    assert hands.effects[2:] == [Complete(KEY), Ack()]
    assert end == End(Outcome.DISCARDED, reason="not ours")


def test_a_discarded_message_without_key_is_acked() -> None:
    assert play(got(message_id=None), says=Discard())[0].names == [INVOKE, "Ack"]


# --- crashes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "redelivered", "dead"),
    [
        ({"x-delivery-count": 2}, True, False),
        ({"x-delivery-count": 3}, True, True),
        ({"x-delivery-count": 99}, False, False),  # stale, or a stranger's
        ({"amqpkit-crashes": 3}, False, True),
        ({"amqpkit-crashes": 1, "x-delivery-count": 1}, True, False),
        ({"amqpkit-crashes": 1, "x-delivery-count": 2}, True, True),
        ({"amqpkit-crashes": "99"}, False, False),
        ({"x-acquired-count": 29}, True, False),
        ({"x-acquired-count": 30}, True, True),
        ({"x-acquired-count": 30}, False, False),
        ({"x-acquired-count": 30, "amqpkit-published-at": "2020-01-01T00:00:00Z"}, True, True),
        ({"x-acquired-count": 30, "amqpkit-published-at": h.format_instant(START)}, True, False),  # looked at, not lost
    ],
)
def test_a_message_that_kills_its_workers_is_crashed_and_the_handler_not_called(
    headers: dict[str, Any], redelivered: bool, dead: bool
) -> None:
    hands, end = play(got(headers, redelivered=redelivered))

    if dead:
        # its steps are undone, if it was ever begun: a redelivered one may have been
        assert hands.names == (["Compensate", *EARLY] if redelivered or headers == {"amqpkit-crashes": 3} else EARLY)
        check_dead(hands, end, "crashed")
        assert hands.headers["amqpkit-error"]["type"] == "crashed"
        assert "x-delivery-count" not in hands.headers
    else:
        assert end.outcome is Outcome.HANDLED


def test_crashes_are_counted_through_a_snooze_and_forgotten_by_a_retry() -> None:
    crashed = got({"amqpkit-crashes": 1, "x-delivery-count": 1}, redelivered=True)

    assert play(crashed, says=RetryAfter(5))[0].headers["amqpkit-crashes"] == 2
    assert "amqpkit-crashes" not in play(crashed, raises=failure())[0].headers
    assert play(crashed, says=DeadLetter())[0].headers["amqpkit-crashes"] == 2
    assert "amqpkit-crashes" not in play(got(), says=DeadLetter())[0].headers
