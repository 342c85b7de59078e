"""Plain queues, and endings that come from outside: the worker stops, a copy cannot be sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from amqpkit import DeadLetter, Discard, RetryAfter
from amqpkit.deliver.case import End
from amqpkit.deliver.drive import drive, drive_blocking
from amqpkit.deliver.effects import (
    Claim,
    Compensate,
    Complete,
    Effect,
    Invoke,
    Moment,
    Publish,
    Release,
)
from amqpkit.deliver.walk import walk
from amqpkit.errors import MessageTooLarge
from amqpkit.events import Outcome
from amqpkit.ports import Claimed, Hold
from tests.walk.play import CLAIM, HELD, INVOKE, Play, failure, got, play
from tests.walk.world import START, Got, World, terms

# --- a plain queue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("received", "script", "effects", "outcome", "fate"),
    [
        (got(), {}, [CLAIM, INVOKE, "Complete", "Ack"], Outcome.HANDLED, None),
        (got(), {"says": Discard()}, [CLAIM, INVOKE, "Complete", "Ack"], Outcome.DISCARDED, None),
        (got(), {"claimed": Claimed(Hold.DONE)}, [CLAIM, "Ack"], Outcome.DUPLICATE, None),
        (got(), {"claimed": HELD}, [CLAIM, "Refuse"], Outcome.REFUSED, "held"),
        (
            got(),
            {"raises": failure()},
            [CLAIM, INVOKE, "Compensate", "Release", "Refuse"],
            Outcome.REFUSED,
            "exhausted",
        ),
        (
            got(),
            {"says": DeadLetter()},
            [CLAIM, INVOKE, "Compensate", "Release", "Refuse"],
            Outcome.REFUSED,
            "permanent",
        ),
        (
            got(),
            {"says": RetryAfter(5)},
            [CLAIM, INVOKE, "Compensate", "Release", "Refuse"],
            Outcome.REFUSED,
            "permanent",
        ),
        (replace(got(), body=b""), {}, ["Refuse"], Outcome.REFUSED, "invalid"),
        (got({"amqpkit-version": 2}), {}, ["Refuse"], Outcome.REFUSED, "invalid"),
        (
            got({"x-delivery-count": 99}, redelivered=True),
            {},
            [CLAIM, INVOKE, "Complete", "Ack"],
            Outcome.HANDLED,
            None,
        ),
        (
            got({"amqpkit-not-before": "2030-01-01T00:00:00Z"}),
            {},
            [CLAIM, INVOKE, "Complete", "Ack"],
            Outcome.HANDLED,
            None,
        ),
    ],
)
def test_a_plain_queue_handles_or_refuses(
    received: Got, script: dict[str, Any], effects: list[str], outcome: Outcome, fate: str | None
) -> None:
    hands, end = play(received, terms(None), **script)

    assert hands.names == effects
    assert (end.outcome, end.fate) == (outcome, fate)


# --- endings from outside --------------------------------------------------------------------------------

STOPS: list[tuple[type, dict[str, Any], list[str]]] = [
    (Claim, {}, [CLAIM, "Release", "Requeue"]),
    (Invoke, {}, [CLAIM, INVOKE, "Release", "Requeue"]),
    (Complete, {}, [CLAIM, INVOKE, "Complete", "Release", "Requeue"]),
    (Complete, {"says": Discard()}, [CLAIM, INVOKE, "Complete", "Release", "Requeue"]),
    (Publish, {"raises": failure()}, [CLAIM, INVOKE, "Publish", "Release", "Requeue"]),
    (Publish, {"says": RetryAfter(5)}, [CLAIM, INVOKE, "Publish", "Release", "Requeue"]),
    (Compensate, {"says": DeadLetter()}, [CLAIM, INVOKE, "Compensate", "Release", "Requeue"]),
    (Publish, {"says": DeadLetter()}, [CLAIM, INVOKE, "Compensate", "Publish", "Release", "Requeue"]),
    (Release, {"says": DeadLetter()}, [CLAIM, INVOKE, "Compensate", "Publish", "Release", "Release", "Requeue"]),
    (Publish, {"claimed": HELD}, [CLAIM, "Publish", "Requeue"]),
]


@pytest.mark.parametrize(("where", "script", "effects"), STOPS)
def test_stopped_at_any_effect_the_message_goes_back_as_it_was(
    where: type, script: dict[str, Any], effects: list[str]
) -> None:
    hands, end = play(got({"amqpkit-attempt": 1}), stop_at=where, **script)

    assert hands.names == effects
    assert end == End(Outcome.REQUEUED, 2, reason="the worker stops")


def test_stopped_before_any_claim_nothing_is_released() -> None:
    assert play(replace(got(), body=b""), stop_at=Publish)[0].names == ["Publish", "Requeue"]
    assert play(got(message_id=None), stop_at=Invoke)[0].names == [INVOKE, "Requeue"]


@pytest.mark.parametrize(
    ("script", "effects"),
    [
        ({"raises": failure()}, [CLAIM, INVOKE, "Publish", "Release", "Refuse"]),
        ({"says": RetryAfter(5)}, [CLAIM, INVOKE, "Publish", "Release", "Refuse"]),
        ({"says": DeadLetter()}, [CLAIM, INVOKE, "Compensate", "Publish", "Release", "Refuse"]),
        ({"claimed": HELD}, [CLAIM, "Publish", "Refuse"]),
    ],
)
def test_a_copy_that_can_never_be_sent_leaves_the_untouched_original_to_the_broker(
    script: dict[str, Any], effects: list[str]
) -> None:
    hands, end = play(got(), stop_at=Publish, news=MessageTooLarge("header frame"), **script)

    assert hands.names == effects
    assert end.outcome is Outcome.REFUSED
    assert "header frame" in end.reason


def test_foreign_headers_that_leave_no_room_are_refused_before_anything_is_sent() -> None:
    hands, end = play(got({"trace": "t" * 131_000}), raises=failure())

    assert hands.names == [CLAIM, INVOKE, "Release", "Refuse"]
    assert "bytes over what fits into one frame" in end.reason


def test_120_kb_of_foreign_headers_are_dead_after_their_attempts_like_any_other() -> None:
    def fails(_call: int) -> object:
        raise ValueError("x" * 300_000)

    world = World(fails, ready=[got({"trace": "t" * 120_000})])
    for steps in world.deliveries():
        drive_blocking(steps, world)

    (letter,) = world.dead
    assert letter.properties.headers["trace"] == "t" * 120_000
    assert letter.properties.headers["amqpkit-attempt"] == 3
    assert (world.calls, world.acked, world.refused) == (3, 3, [])


# --- the drivers -----------------------------------------------------------------------------------------


class AsyncPlay(Play):
    async def perform(self, effect: Effect) -> object:
        await asyncio.sleep(0)
        return super().perform(effect)


DRIVEN: list[dict[str, Any]] = [{**script, "stop_at": where} for where, script, _ in STOPS] + [
    {"says": 5},
    {"raises": failure()},
    {"says": DeadLetter("x")},
    {"stop_at": Publish, "news": MessageTooLarge("x"), "raises": failure()},
]


@pytest.mark.parametrize("script", DRIVEN, ids=repr)
async def test_both_drivers_perform_the_same_effects_to_the_same_end(script: dict[str, Any]) -> None:
    blocking, end = play(got(), **script)
    hands = AsyncPlay(**script)

    assert await drive(walk(got(), terms(), Moment(START)), hands) == end
    assert hands.effects == blocking.effects


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("the store's driver broke"), GeneratorExit()])
def test_what_is_no_news_for_the_walk_is_not_swallowed(error: Any) -> None:
    with pytest.raises(type(error)):
        play(got(), stop_at=Claim, news=error)
