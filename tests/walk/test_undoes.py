"""Jobs that are cancelled, and steps that are undone before a job's end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from amqpkit import DeadLetter, Discard, Payload, RetryAfter
from amqpkit.deliver.case import End, Terms
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import Ack, AskCancelled, Compensate, Complete, GivenUp, Moment, Undone
from amqpkit.deliver.payload import decode, registry
from amqpkit.deliver.retry import Dead
from amqpkit.deliver.walk import walk
from amqpkit.events import Outcome
from amqpkit.model import Cancelled
from tests.walk.play import CLAIM, INVOKE, KEY, Play, check_dead, failure, got
from tests.walk.world import START, WORK, Got


class Import(Payload, type="order.place", track=True):
    id: str


RULES = Terms("orders", lambda received: decode(received, registry([Import]), WORK.accepts), WORK)
GONE = (Undone("c"), Undone("b", "ValueError: no"), Undone("a"))


@dataclass
class Jobs(Play):
    """Hands that know who is cancelled, and what becomes of steps."""

    asked: bool = False
    undone: tuple[Undone, ...] = ()

    def perform(self, effect: Any) -> object:
        reply = super().perform(effect)
        match effect:
            case AskCancelled():
                return self.asked
            case Compensate():
                return self.undone
            case _:
                return reply


def play(received: Got, rules: Terms = RULES, **script: Any) -> tuple[Jobs, End]:
    hands = Jobs(**script)
    return hands, drive_blocking(walk(received, rules, Moment(START)), hands)


def test_a_job_that_is_cancelled_is_complete_and_its_handler_not_called() -> None:
    hands, end = play(got(), asked=True)

    assert hands.effects[1:] == [AskCancelled("m-1"), Complete(KEY), Ack()]
    assert end == End(Outcome.DISCARDED, reason="cancelled")


def test_only_tracked_messages_with_an_id_are_asked_about() -> None:
    assert AskCancelled("m-1") in play(got())[0].effects
    assert "AskCancelled" not in play(got(message_id=None))[0].names

    class Plain(Payload, type="order.place"):
        id: str

    plain = Terms("orders", lambda received: decode(received, registry([Plain]), WORK.accepts), WORK)
    assert play(got(), plain)[0].names == [CLAIM, INVOKE, "Complete", "Ack"]


@pytest.mark.parametrize("how", ["says", "raises"])
def test_what_a_cancelled_job_has_done_is_undone_before_it_is_complete(how: str) -> None:
    script: dict[str, Any] = {how: Cancelled("cancelled while it ran")}
    hands, end = play(got(), undone=(Undone("a"),), **script)

    assert hands.names == [CLAIM, "AskCancelled", INVOKE, "Compensate", "Complete", "Ack"]
    assert hands.effects[3] == Compensate(KEY, "0.0", GivenUp(Dead("cancelled", "cancelled while it ran")))
    assert end.outcome is Outcome.DISCARDED


def test_a_job_that_was_tried_before_is_undone_when_it_is_cancelled() -> None:
    hands, _ = play(got({"amqpkit-attempt": 1}), asked=True)

    assert hands.names == [CLAIM, "AskCancelled", "Compensate", "Complete", "Ack"]


def test_a_discarded_message_undoes_nothing() -> None:
    assert "Compensate" not in play(got({"amqpkit-attempt": 1}), says=Discard("not ours"))[0].names


def test_a_cancelled_job_that_cannot_be_undone_is_a_dead_letter() -> None:
    hands, end = play(got(), says=Cancelled(), undone=GONE)

    assert hands.names.count("Compensate") == 1
    check_dead(hands, end, "permanent")
    assert "not everything that it had done could be undone" in end.reason
    assert len(hands.headers["amqpkit-compensations"]) == 3


def test_the_letter_tells_what_became_of_the_steps() -> None:
    hands, end = play(got({"amqpkit-attempt": 2}), raises=failure(), undone=GONE)

    check_dead(hands, end, "exhausted")
    assert hands.headers["amqpkit-compensations"] == [
        {"step": "c", "outcome": "undone"},
        {"step": "b", "outcome": "failed", "error": "ValueError: no"},
        {"step": "a", "outcome": "undone"},
    ]
    assert "amqpkit-compensations" not in play(got(), says=DeadLetter())[0].headers


def test_a_copy_of_a_letter_that_came_back_tells_of_no_compensations() -> None:
    back = got({"amqpkit-compensations": [{"step": "a", "outcome": "undone"}], "amqpkit-replays": 1})
    for script in ({"raises": failure()}, {"says": RetryAfter(5)}):
        assert "amqpkit-compensations" not in play(back, **script)[0].headers


@pytest.mark.parametrize(
    ("headers", "redelivered", "asks"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"amqpkit-attempt": 1}, False, True),
        ({"amqpkit-snoozes": 1}, False, True),
        ({"amqpkit-replays": 1}, False, True),
    ],
)
def test_a_message_that_nobody_can_have_begun_dies_without_a_look_at_its_steps(
    headers: dict[str, Any], redelivered: bool, asks: bool
) -> None:
    hands, end = play(replace(got(headers, redelivered=redelivered), body=b"{"))

    assert end.fate == "invalid"
    assert ("Compensate" in hands.names) is asks


def test_a_message_that_kills_its_workers_is_undone_too() -> None:
    hands, end = play(got({"x-delivery-count": 3}, redelivered=True), undone=(Undone("a"),))

    assert hands.names == ["Compensate", "Publish", "Ack"]
    check_dead(hands, end, "crashed")
    assert hands.headers["amqpkit-compensations"] == [{"step": "a", "outcome": "undone"}]


@pytest.mark.parametrize(
    ("headers", "run"),
    [({}, "0.0"), ({"amqpkit-attempt": 2}, "0.2"), ({"amqpkit-attempt": 1, "amqpkit-replays": 3}, "3.1")],
)
def test_a_run_is_named_by_its_attempt_and_replay(headers: dict[str, Any], run: str) -> None:
    hands, _ = play(got(headers), says=DeadLetter("no"))

    (compensate,) = [effect for effect in hands.effects if isinstance(effect, Compensate)]
    assert compensate.run == run


def test_a_job_that_an_earlier_worker_gave_up_ends_as_that_one_had_judged() -> None:
    before = GivenUp(Dead("exhausted", "attempt 3 of 3 failed"), "ConnectionError", "the provider is down")
    hands, end = play(got({"amqpkit-attempt": 2}, redelivered=True), raises=before, undone=(Undone("a"),))

    check_dead(hands, end, "exhausted")
    assert hands.effects[3] == Compensate(KEY, "0.2", before)
    assert end.reason == "ConnectionError: the provider is down"
    assert hands.headers["amqpkit-error"]["type"] == "ConnectionError"
    assert hands.headers["amqpkit-error"]["message"] == "the provider is down"
    assert hands.headers["amqpkit-attempt"] == 3

    cancelled = GivenUp(Dead("cancelled", "cancelled while it ran"))
    hands, end = play(got(redelivered=True), raises=cancelled)
    assert hands.names == [CLAIM, "AskCancelled", INVOKE, "Compensate", "Complete", "Ack"]
    assert end == End(Outcome.DISCARDED, reason="cancelled while it ran")
