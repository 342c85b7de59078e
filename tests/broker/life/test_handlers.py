"""Handlers that wait, block, take too long, or are too old for their messages."""

import asyncio
import time
from collections import Counter

import pytest
from pika.spec import BasicProperties

from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.payload import Payload
from amqpkit.events import Begun, ConnectionLost, ConsumerLost
from amqpkit.model import RetryAfter
from tests.broker.life.notes import Note
from tests.broker.life.rig import ONE_QUEUE, applied, handling, until


class NewerNote(Payload, type="note", version=2):
    """What a newer producer sends."""

    colour: str


class HandleNewerNote(Consumer[NewerNote], queue="work"):
    def __init__(self) -> None:
        self.handled: list[tuple[str | None, int, str]] = []

    async def handle(self, payload: NewerNote, context: Context) -> None:
        self.handled.append((context.message_id, context.attempt, payload.colour))


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_retry_after_waits_in_the_delay_that_reaches_it_and_costs_no_attempt(broker, how):
    def act(note: Note, context: Context) -> object:
        if "amqpkit-snoozes" in context.headers:
            return None
        verdict = RetryAfter(0.5, "the provider rests")
        if how == "raised":
            raise verdict
        return verdict

    async with applied(broker) as rig:
        consumer, calls = handling("work", act)
        async with rig.working(consumer):
            message_id = await rig.publish()
            await until(lambda: len(rig.settled()) == 2, "it is settled twice")

        assert rig.settled() == [(message_id, "snoozed"), (message_id, "handled")]
        assert calls.attempts(message_id) == [1, 1]
        first, second = calls.begun
        assert second.at - first.at >= 0.5
        assert [death["queue"] for death in second.headers["x-death"]] == ["work.retry.600ms"]
        assert (second.headers["amqpkit-snoozes"], second.exchange, second.routing_key) == (1, "events", "note.made")
        assert await rig.ledger() == {}


async def test_a_message_too_new_for_its_worker_waits_for_a_newer_one(broker):
    """A rolling deploy: the old worker neither kills what it does not know nor uses up its attempts."""
    async with applied(broker) as rig:
        old, calls = handling("work")
        async with rig.working(old):
            headers = {"amqpkit-version": 2}
            await rig.send(
                "work", (b'{"colour": "red"}', BasicProperties(message_id="new", type="note", headers=headers))
            )
            await until(lambda: rig.settled().count(("new", "snoozed")) >= 2, "it is put off twice")
        new = HandleNewerNote()
        async with rig.working(new):
            await until(lambda: ("new", "handled") in rig.settled(), "the newer worker has handled it")

        assert new.handled == [("new", 1, "red")]
        assert calls.begun == []
        assert await rig.ledger() == {}


class Sleeper(Consumer[Note], queue="work"):
    """Blocks its thread for longer than the broker would wait for a heartbeat."""

    def __init__(self) -> None:
        self.effects: list[tuple[str | None, bool]] = []

    def handle(self, payload: Note, context: Context) -> None:
        time.sleep(payload.seconds)
        self.effects.append((context.message_id, context.redelivered))


async def test_a_blocking_handler_does_not_cost_the_connection(broker):
    text = ONE_QUEUE.replace("accepts:", "consume: {prefetch: 3}\n    accepts:")
    async with applied(broker, text) as rig:
        sleeper = Sleeper()
        async with rig.working(sleeper, heartbeat=2):
            sent = [await rig.publish(seconds=7) for _ in range(3)]
            await until(lambda: len(rig.settled()) == 3, "all are handled")

        assert Counter(sleeper.effects) == Counter((each, False) for each in sent)
        assert len(rig.told(Begun)) == 3
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []
        assert await rig.ledger() == {}


async def test_a_handler_over_its_timeout_has_failed_and_is_tried_again(broker):
    async def act(note: Note, context: Context) -> None:
        if context.attempt == 1:
            await asyncio.sleep(60)

    async with applied(broker) as rig:
        consumer, calls = handling("work", act)
        async with rig.working(consumer, overrides={"timeout": 0.3}):
            message_id = await rig.publish()
            await until(lambda: len(rig.settled()) == 2, "it is settled twice")

        assert rig.settled() == [(message_id, "retried"), (message_id, "handled")]
        (line,) = calls.begun[1].headers["amqpkit-history"]
        assert (line["type"], line["delay"]) == ("HandlerTimeout", "300ms")
        assert line["message"] == "the handler took longer than 0.3 s"
        assert await rig.ledger() == {}
