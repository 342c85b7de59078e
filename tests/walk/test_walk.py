"""Every row of a delivery's life: what was received and said in, the exact effects, headers and end out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from amqpkit import DeadLetter, RetryAfter
from amqpkit.deliver.case import End
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import (
    Claim,
    Complete,
    HandlerTimeout,
    Release,
)
from amqpkit.deliver.headers import encoded_size
from amqpkit.events import Outcome
from amqpkit.model import Delay, DelayQueue, Message, Properties, Verdict
from amqpkit.ports import Claimed, Hold
from tests.walk.play import CLAIM, ENDED, INVOKE, KEY, RETRY, STARTED, failure, got, play
from tests.walk.world import WORK, Got, Order, World, terms

# --- handled ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 5, "done", {"id": 7}, [], False, ValueError("a value"), int], ids=repr)
def test_what_a_handler_returns_is_its_result(value: object) -> None:
    hands, end = play(got(), says=value)

    assert hands.names == [CLAIM, INVOKE, "Complete", "Ack"]
    assert hands.effects[0] == Claim(KEY, 60.0)
    assert hands.effects[1].payload == Order(id="o-1")  # type: ignore[union-attr]
    assert hands.effects[2] == Complete(KEY, value)
    assert end == End(Outcome.HANDLED)


def test_a_message_without_key_is_handled_without_a_claim() -> None:
    hands, end = play(got(message_id=None), says=5)

    assert hands.names == [INVOKE, "Ack"]
    assert end == End(Outcome.HANDLED)


def test_two_messages_without_id_and_with_equal_bodies_are_both_handled() -> None:
    world = World(lambda _call: None, ready=[got(message_id=None), got(message_id=None)])
    for steps in world.deliveries():
        drive_blocking(steps, world)

    assert world.handled == {"o-1": 2}


def test_the_claim_is_the_queues_and_the_producers_key_before_the_message_id() -> None:
    hands, _ = play(got({"amqpkit-key": "k-9"}))

    assert hands.effects[0] == Claim("orders:k-9", 60.0)


def test_a_finished_message_is_acked_and_the_handler_not_called() -> None:
    hands, end = play(got(), claimed=Claimed(Hold.DONE))

    assert hands.names == [CLAIM, "Ack"]
    assert end == End(Outcome.DUPLICATE, reason="was handled before")


# --- retried ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        failure(),
        ExceptionGroup("all", [failure(), OSError()]),
        HandlerTimeout("the handler took longer than 30 s"),
        asyncio.CancelledError(),
        SystemExit(3),
        KeyError("id"),
        Verdict("neither of the three"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_goes_to_the_delay_of_its_attempt_and_only_then_is_acked(error: BaseException) -> None:
    hands, end = play(got(), raises=error)

    assert hands.names == RETRY
    assert (hands.copies[0].exchange, hands.copies[0].routing_key) == ("orders.retry", "10s")
    assert hands.effects[3] == Release(KEY)
    assert end.outcome is Outcome.RETRIED
    assert (end.attempt, end.delay, end.fate) == (1, "10s", None)
    assert end.reason.startswith(f"{type(error).__name__}: ")


def test_a_retry_copy_carries_the_body_the_origin_and_the_failure() -> None:
    hands, _ = play(got({"tenant": "t-1", "x-death": [{"count": 9}]}), raises=failure())
    message = hands.copies[0].message
    error = hands.headers.pop("amqpkit-error")

    assert message.body == Got().body
    assert {k: v for k, v in hands.headers.items() if k != "amqpkit-error"} == {
        "tenant": "t-1",
        "amqpkit-exchange": "shop",
        "amqpkit-routing-key": "order.place.eu",
        "amqpkit-first-seen": STARTED,
        "amqpkit-attempt": 1,
        "amqpkit-history": [
            {"attempt": 1, "at": ENDED, "type": "ConnectionError", "message": "the provider is down", "delay": "10s"}
        ],
    }
    assert (error["type"], error["message"]) == ("ConnectionError", "the provider is down")
    assert (error["at"], error["worker"]) == (ENDED, "w1")
    assert error["traceback"].endswith("ConnectionError: the provider is down\n")


def test_the_second_failure_goes_to_the_second_delay() -> None:
    hands, end = play(got({"amqpkit-attempt": 1}), raises=failure())

    assert hands.copies[0].routing_key == "60s"
    assert hands.headers["amqpkit-attempt"] == 2
    assert (end.attempt, end.delay) == (2, "60s")


@pytest.mark.parametrize("attempt", ["three", -5, 10**9, None, True, 2.0])
def test_a_forged_attempt_is_the_first(attempt: object) -> None:
    hands, end = play(got({"amqpkit-attempt": attempt}), raises=failure())

    assert hands.headers["amqpkit-attempt"] == 1
    assert (end.attempt, end.delay) == (1, "10s")


def test_a_retry_copy_forgets_crashes_snoozes_and_an_old_fate() -> None:
    past = {"amqpkit-crashes": 2, "amqpkit-snoozes": 4, "amqpkit-not-before": STARTED, "amqpkit-fate": "exhausted"}
    hands, _ = play(got(past), raises=failure())

    assert not hands.headers.keys() & past.keys()


@pytest.mark.parametrize(("chance", "key"), [(0.0, "9s"), (0.4, "9500ms"), (0.99, "10s")])
def test_jitter_is_drawn_by_chance_and_named(chance: float, key: str) -> None:
    jittered = Delay(
        10_000, (DelayQueue("9s", "a", 9000), DelayQueue("9500ms", "b", 9500), DelayQueue("10s", "c", 10_000))
    )
    work = replace(WORK, delays=(jittered,), snoozes=(jittered,))

    hands, end = play(got(), terms(work), raises=failure(), chance=chance)
    snoozed, _ = play(got(), terms(work), says=RetryAfter(1), chance=chance)

    assert hands.copies[0].routing_key == hands.headers["amqpkit-history"][0]["delay"] == end.delay == key
    assert snoozed.copies[0].routing_key == key


def test_a_failure_alone_in_its_task_group_is_told_by_its_own_name() -> None:
    _, end = play(got(), raises=BaseExceptionGroup("", [ExceptionGroup("", [failure()])]))

    assert end.reason == "ConnectionError: the provider is down"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value] # noqa: PLE0307 - that is the point


@pytest.mark.parametrize("error", [Mute(), NoText(), ExceptionGroup("", [Mute(), NoText()])], ids=repr)
def test_an_error_without_words_is_a_failure_like_any_other(error: Exception) -> None:
    hands, _ = play(got(), raises=error)

    assert hands.names == RETRY
    assert hands.headers["amqpkit-error"]["type"] == type(error).__name__


def test_an_error_of_300_kb_still_shows_where_it_came_from() -> None:
    def provider() -> None:
        raise ValueError("x" * 300_000)

    with pytest.raises(ValueError, match="x") as raised:
        provider()
    hands, end = play(got(), raises=raised.value)

    told = hands.headers["amqpkit-error"]
    assert "in provider" in told["traceback"]
    assert told["message"] == "x" * 4096
    assert encoded_size(hands.headers) < 64 * 1024
    assert len(end.reason) == 500


def test_an_error_with_a_lone_surrogate_can_be_sent() -> None:
    hands, end = play(got(), raises=FileNotFoundError("caf\udce9.jpg"))

    f"{hands.headers} {end}".encode()
    assert hands.headers["amqpkit-error"]["message"] == "caf\\udce9.jpg"


async def never() -> None:
    """Do nothing, unless awaited."""


def numbers() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (DeadLetter, "the class DeadLetter"),
        (RetryAfter, "the class RetryAfter"),
        (Verdict("?"), "a Verdict"),
        (numbers(), "a generator"),
    ],
    ids=["class", "class with a time", "bare verdict", "generator"],
)
def test_what_is_neither_result_nor_verdict_is_a_failure_and_not_acked(said: object, name: str) -> None:
    hands, end = play(got(), says=said)

    assert hands.names == RETRY
    assert end.reason == f"TypeError: handle returned {name}, which is neither a result nor a verdict"


def test_a_coroutine_that_a_decorator_hid_is_a_failure_and_not_acked() -> None:
    coroutine = never()
    try:
        hands, end = play(got(), says=coroutine)
    finally:
        coroutine.close()

    assert hands.names == RETRY
    assert "a coroutine" in end.reason


# --- the message itself ----------------------------------------------------------------------------------


def test_a_copy_of_a_bare_message_needs_nothing_of_ours() -> None:
    # celery/kombu#644: a producer that sets no property at all
    hands, end = play(Got(properties=Properties()), raises=failure())

    assert hands.names == [INVOKE, "Publish", "Ack"]
    message: Message = hands.copies[0].message
    assert (message.properties.message_id, message.properties.type) == (None, None)
    assert end.outcome is Outcome.RETRIED


def test_a_failing_handler_never_acks_a_message_away() -> None:
    # golevelup/nestjs#310: with defaults only, all that fail are dead after their attempts
    def fails(_call: int) -> object:
        raise ValueError("always")

    world = World(
        fails, ready=[Got(body=b'{"id": "o-%d"}' % n, properties=Properties(message_id=f"m-{n}")) for n in range(5)]
    )
    for steps in world.deliveries():
        drive_blocking(steps, world)

    assert sorted(letter.body for letter in world.dead) == [b'{"id": "o-%d"}' % n for n in range(5)]
    assert (world.calls, world.done, world.ready) == (15, set(), [])
