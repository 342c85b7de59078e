"""Plays a script on the in-memory broker, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Connection, Fate, Outstanding
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.queue import Way
from amqpkit.brokers.memory.stored import delivered_properties
from amqpkit.model import DeclaredObject, Message, Properties
from tests.twin.differential.course import Answer, Course, Depths, Moment, Result, Seen, plain
from tests.twin.differential.script import Get, Publish, Script, Settle, Step, Wait, in_order

# Steps follow one another in time, so that of two messages one is older; far less than any TTL.
STEP_SECONDS = 0.05

ANSWERS = {Fate.CONFIRMED: Answer.CONFIRMED, Fate.NACKED: Answer.NACKED, Fate.RETURNED: Answer.RETURNED}


def play(script: Script, version: str) -> Course:
    """Play a script to its end on the RabbitMQ of a version, such as `4.3`."""
    return asyncio.run(_play(script, version))


async def _play(script: Script, version: str) -> Course:
    clock = VirtualClock()
    broker = MemoryBroker(clock, version=version)
    topology = script.topology
    declared: tuple[DeclaredObject, ...] = (*topology.exchanges, *topology.queues, *topology.bindings)
    for each in declared:
        broker.declare(each)
    client = Client(broker, broker.connect())
    moments = []
    for step in script.steps:
        result = client.perform(step)
        await clock.advance(step.seconds if isinstance(step, Wait) else STEP_SECONDS)
        moments.append(Moment(result, client.depths(script)))
    return Course(tuple(moments), {queue: client.drain(queue) for queue in script.queues})


@dataclass(frozen=True, slots=True)
class Client:
    """Does what a script says; everything has come to rest when a verb returns, but for what time will do."""

    broker: MemoryBroker
    connection: Connection

    def perform(self, step: Step) -> Result:
        """Do one step; waiting is the clock's affair."""
        match step:
            case Publish():
                return self._publish(step)
            case Get():
                return self._get(step)
            case Wait():
                return ()

    def depths(self, script: Script) -> Depths:
        """Count what is ready."""
        return {queue: self.broker.depth(queue) for queue in script.queues}

    def drain(self, queue: str) -> tuple[Seen, ...]:
        """Get all that is ready."""
        return self._get(Get(queue, (Settle.ACK,) * self.broker.depth(queue)))

    def _publish(self, step: Publish) -> Answer:
        properties = Properties(message_id=step.message_id, priority=step.priority, expiration=step.expiration)
        fates: list[Fate] = []
        self.broker.publish(
            self.broker.open_channel(self.connection),
            step.exchange,
            step.routing_key,
            Message(b"", properties),
            mandatory=True,
            told=lambda fate, _reason: fates.append(fate),
        )
        return ANSWERS[fates[0]]

    def _get(self, step: Get) -> tuple[Seen, ...]:
        channel = self.broker.open_channel(self.connection)
        taken = [out for _ in step.settles for out in self._take(channel, step.queue)]
        seen = tuple(_seen(out, self.broker) for out in taken)
        for out, settle in in_order(taken, step):
            self._settle(out, settle)
        self.broker.close_channel(channel)
        return seen

    def _take(self, channel: Channel, queue: str) -> list[Outstanding]:
        """Get one message if there is one, as `basic.get` would: by a consumer that is gone at once."""
        inbox: list[Outstanding] = []
        self.broker.cancel(self.broker.consume(channel, queue, prefetch=1, deliver=inbox.append))
        return inbox

    def _settle(self, out: Outstanding, settle: Settle) -> None:
        match settle:
            case Settle.ACK:
                self.broker.ack(out)
            case Settle.NACK:
                self.broker.refuse(out, Way.NACK)
            case Settle.REJECT:
                self.broker.refuse(out, Way.REJECT)
            case Settle.NACK_REQUEUE:
                self.broker.requeue(out, Way.NACK)
            case Settle.REJECT_REQUEUE:
                self.broker.requeue(out, Way.REJECT)
            case Settle.CLOSE:
                pass


def _seen(out: Outstanding, broker: MemoryBroker) -> Seen:
    stored = out.stored
    properties = delivered_properties(stored, broker.profile, quorum=out.queue.quorum)
    return Seen(
        properties.message_id, stored.exchange, stored.routing_keys[0], stored.redelivered, plain(properties.headers)
    )
