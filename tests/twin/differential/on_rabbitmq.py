"""Plays a script on a real broker, next to what another play of it has seen.

By pika: a second opinion that shares no line with the library under test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import NackError, UnroutableError

from tests.twin.differential.course import Answer, Course, Depths, Moment, Result, Seen, plain
from tests.twin.differential.script import Get, Publish, Script, Settle, Step, Wait, in_order

# What a step sets off (a give-back, a dead letter, a limit that closes a queue) may come after its answer, and not
# all of it shows in a count: it has come to rest when the counts are right a few times in a row.
LOOKS = 3
SECONDS_BETWEEN_LOOKS = 0.02
PATIENCE = 5.0


def play(script: Script, url: str, expected: Course) -> Course:
    """Play a script up to its end, or to the first moment that is not as expected."""
    with _opened(url) as connection, _declared(script, connection) as channel:
        client = Client(script, connection, channel)
        moments: list[Moment] = []
        for step, moment in zip(script.steps, expected.moments, strict=True):
            moments.append(Moment(client.perform(step), client.rest(moment.depths)))
            if moments[-1] != moment:
                return Course(tuple(moments), {})
        return Course(tuple(moments), {queue: tuple(client.drain(queue)) for queue in script.queues})


@contextmanager
def _opened(url: str) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(pika.URLParameters(url))
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _declared(script: Script, connection: BlockingConnection) -> Iterator[BlockingChannel]:
    """Declare everything, and leave nothing behind: the next play of the script declares it again."""
    channel = connection.channel()
    channel.confirm_delivery()
    for exchange in script.topology.exchanges:
        channel.exchange_declare(exchange.name, exchange.type, durable=True)
    for queue in script.topology.queues:
        channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
    for binding in script.topology.bindings:
        channel.queue_bind(binding.destination, binding.source, binding.routing_key)
    try:
        yield channel
    finally:
        for queue in script.topology.queues:
            channel.queue_delete(queue.name)
        for exchange in script.topology.exchanges:
            channel.exchange_delete(exchange.name)


@dataclass(frozen=True, slots=True)
class Client:
    """Does what a script says; `channel` confirms, and lives as long as the play."""

    script: Script
    connection: BlockingConnection
    channel: BlockingChannel

    def perform(self, step: Step) -> Result:
        """Do one step and give the broker's answer."""
        match step:
            case Publish():
                return self._publish(step)
            case Get():
                return self._get(step)
            case Wait():
                self.connection.sleep(step.seconds)
                return ()

    def rest(self, expected: Depths) -> Depths:
        """Count what is ready once it is as expected and stays so, or when patience ends."""
        deadline = time.monotonic() + PATIENCE
        right = 0
        while True:
            depths = self._depths()
            right = right + 1 if depths == expected else 0
            if right == LOOKS or time.monotonic() > deadline:
                return depths
            self.connection.sleep(SECONDS_BETWEEN_LOOKS)

    def drain(self, queue: str) -> Iterator[Seen]:
        """Get all that is ready."""
        while seen := self._get(Get(queue, (Settle.ACK,))):
            yield from seen

    def _depths(self) -> Depths:
        counted = (self.channel.queue_declare(queue, passive=True).method for queue in self.script.queues)
        return {counts.queue: counts.message_count for counts in counted}

    def _publish(self, step: Publish) -> Answer:
        properties = pika.BasicProperties(
            message_id=step.message_id, priority=step.priority, expiration=step.expiration
        )
        try:
            self.channel.basic_publish(step.exchange, step.routing_key, b"", properties, mandatory=True)
        except NackError:
            return Answer.NACKED
        except UnroutableError:
            return Answer.RETURNED
        return Answer.CONFIRMED

    def _get(self, step: Get) -> tuple[Seen, ...]:
        channel = self.connection.channel()
        taken = [got for _ in step.settles for got in _take(channel, step.queue)]
        for (tag, _), settle in in_order(taken, step):
            _settle(channel, tag, settle)
        channel.close()
        return tuple(seen for _, seen in taken)


def _take(channel: BlockingChannel, queue: str) -> Iterator[tuple[int, Seen]]:
    """Get one message if there is one, with its delivery tag."""
    method, properties, _ = channel.basic_get(queue)
    if method is not None and method.delivery_tag is not None and properties is not None:
        yield (
            method.delivery_tag,
            Seen(
                properties.message_id,
                method.exchange,
                method.routing_key,
                method.redelivered,
                plain(properties.headers),
            ),
        )


def _settle(channel: BlockingChannel, tag: int, settle: Settle) -> None:
    match settle:
        case Settle.ACK:
            channel.basic_ack(tag)
        case Settle.NACK:
            channel.basic_nack(tag, requeue=False)
        case Settle.REJECT:
            channel.basic_reject(tag, requeue=False)
        case Settle.NACK_REQUEUE:
            channel.basic_nack(tag, requeue=True)
        case Settle.REJECT_REQUEUE:
            channel.basic_reject(tag, requeue=True)
        case Settle.CLOSE:
            pass
