"""The play itself, the same on every stage: publish, wait for the ends, read the dead letters, check."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from amqpkit.cli.demo.script import HANDLED, Act, Expected, Sent, Stranger
from amqpkit.cli.demo.story import Journey, Story
from amqpkit.deliver import headers as h
from amqpkit.deliver.outgoing import fill, route_of
from amqpkit.deliver.publisher import Publisher
from amqpkit.model import Topology
from amqpkit.ports import Delivery, Transport


class Stage(Protocol):
    """Where it is played: in memory or on a broker."""

    @property
    def booked(self) -> list[str]:
        """The invoices in the shop's books, one entry for each charge."""

    topology: Topology
    transport: Transport
    publisher: Publisher
    story: Story

    def message_id(self, name: str) -> str:
        """Give the id that a message of this name has here."""

    async def until(self, done: Callable[[], bool]) -> bool:
        """Let time pass until it is done; False when it takes too long."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as it lies in its queue."""

    message_id: str | None
    body: bytes
    headers: Mapping[str, Any]


_NOT_COUNTED: Final = ("invalid", "crashed")


async def play(stage: Stage, act: Act) -> None:
    """Publish an act's messages, wait until each has ended in each of its queues, and repeat what comes again."""
    for sent in act.messages:
        await _publish(stage, sent)
    ends = [(sent.name, expected.queue, expected.duplicates) for sent in act.messages for expected in sent.expected]
    await stage.until(lambda: all(stage.story.ended(name, queue) for name, queue, _ in ends))
    for sent in act.messages:
        if sent.again:
            await _publish(stage, replace(sent, note="again"))
    await stage.until(lambda: all(stage.story.ended(*end) for end in ends))


async def _publish(stage: Stage, sent: Sent) -> None:
    message_id, content = stage.message_id(sent.name), sent.content
    if isinstance(content, Stranger):
        stage.story.published(sent.name, message_id, content.exchange, content.routing_key)
        await stage.transport.publish(content.exchange, content.routing_key, content.message(message_id))
        return
    route = route_of(stage.topology, content.payload_type)
    key = fill(route.routing_key, content.model_dump(mode="json"), content.payload_type)
    stage.story.published(sent.name, message_id, route.exchange, key, sent.note)
    await stage.publisher.publish(content, message_id=message_id)


async def check(stage: Stage, sents: tuple[Sent, ...]) -> list[str]:
    """Compare every end with the script, and the broker with both; return what is wrong."""
    problems = [problem for sent in sents for problem in _misfits(stage, sent)]
    problems += _wrong_charges(stage, sents)
    problems += [f"{queue} still holds messages" for queue in await _unfinished(stage)]
    letters = await _letters(stage, sents)
    for sent in sents:
        for expected in sent.expected:
            if expected.end != HANDLED:
                problems += _letter_misfits(stage, sent, expected, letters)
    return problems


def _misfits(stage: Stage, sent: Sent) -> list[str]:
    found: list[str] = []
    for expected in sent.expected:
        journey = stage.story.journeys.get((sent.name, expected.queue), Journey(sent.name, expected.queue))
        retries = 0 if expected.end in _NOT_COUNTED else expected.calls - 1
        delays = [level.queues[0].key for level in stage.topology.work_queues[expected.queue].delays[:retries]]
        for what, actual, wanted in (
            ("ended", journey.end or "nowhere", expected.end),
            ("handler calls", journey.calls, expected.calls),
            ("duplicates", journey.duplicates, expected.duplicates),
            ("delays", ", ".join(journey.delays) or "none", ", ".join(delays) or "none"),
        ):
            if actual != wanted:
                found.append(f"{sent.name} in {expected.queue}: {what} {actual}, expected {wanted}")
    return found


def _wrong_charges(stage: Stage, sents: tuple[Sent, ...]) -> list[str]:
    times = Counter(stage.booked)
    return [
        f"{sent.name}: invoice {sent.invoice} is {times[sent.invoice]} times in the books, expected {sent.charges}"
        for sent in sents
        if sent.invoice and times[sent.invoice] != sent.charges
    ]


async def _unfinished(stage: Stage) -> list[str]:
    works = stage.topology.work_queues.values()
    names = [name for work in works for name in (work.name, *(e.queue for level in work.snoozes for e in level.queues))]
    return [name for name in dict.fromkeys(names) if await stage.transport.depth(name)]


async def _letters(stage: Stage, sents: tuple[Sent, ...]) -> dict[tuple[str, str], Letter]:
    """Take our letters out of the dead-letter queues; those of others go back."""
    ours = {stage.message_id(sent.name) for sent in sents}
    queues = {stage.topology.work_queues[e.queue].dead_queue for sent in sents for e in sent.expected}
    letters: dict[tuple[str, str], Letter] = {}
    for queue in sorted(queues):
        if count := await stage.transport.depth(queue):
            for letter in await _read(stage, queue, count, ours):
                letters[queue, letter.message_id or ""] = letter
    return letters


async def _read(stage: Stage, queue: str, count: int, ours: set[str]) -> list[Letter]:
    arrived: list[Delivery] = []
    # one more than there is: a message that goes back at the end must not come again meanwhile
    subscription = await stage.transport.consume(queue, prefetch=count + 1, deliver=arrived.append)
    await stage.until(lambda: len(arrived) >= count)
    await subscription.pause()
    letters: list[Letter] = []
    for delivery in arrived:
        if delivery.properties.message_id in ours:
            letters.append(Letter(delivery.properties.message_id, delivery.body, delivery.properties.headers))
            delivery.ack()
        else:
            delivery.requeue()
    await asyncio.sleep(0)
    await subscription.close()
    return letters


def _letter_misfits(
    stage: Stage, sent: Sent, expected: Expected, letters: Mapping[tuple[str, str], Letter]
) -> list[str]:
    dead_queue = stage.topology.work_queues[expected.queue].dead_queue
    letter = letters.get((dead_queue, stage.message_id(sent.name)))
    if letter is None:
        return [f"{sent.name} is not in {dead_queue}"]
    found = []
    if letter.headers.get(h.FATE) != expected.end:
        found.append(f"{sent.name} in {dead_queue} has fate {letter.headers.get(h.FATE)}, expected {expected.end}")
    if letter.body != sent.body:
        found.append(f"{sent.name} in {dead_queue} has another body than was published")
    history = letter.headers.get(h.HISTORY)
    if not isinstance(history, list) or not history:
        found.append(f"{sent.name} in {dead_queue} has no history")
    return found
