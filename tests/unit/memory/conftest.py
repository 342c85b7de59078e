from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Consumer, Fate, Outstanding
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.ledger import Movement
from amqpkit.brokers.memory.stored import delivered_properties
from amqpkit.model import Message, Properties, Queue


@dataclass
class Reader:
    """A consumer, its channel, and what it was given."""

    channel: Channel
    consumer: Consumer
    inbox: list[Outstanding]
    cancels: list[str]

    @property
    def ids(self) -> list[str]:
        return [out.stored.id for out in self.inbox]


@dataclass
class Lab:
    """A broker on a virtual clock with a plain client: no loop, no transport."""

    version: str
    dead_letter_retry: float = 180.0
    movements: list[Movement] = field(default_factory=list)

    def __post_init__(self):
        self.clock = VirtualClock()
        self.broker = MemoryBroker(
            self.clock,
            version=self.version,
            dead_letter_retry=self.dead_letter_retry,
            observe=self.movements.append,
        )
        self.connection = self.broker.connect()
        self.publisher = self.broker.open_channel(self.connection)

    def queue(self, name: str, kind: str = "quorum", **arguments) -> None:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.broker.declare(Queue(name, kind, arguments={"x-queue-type": kind, **named}))

    def declare(self, *wanted) -> None:
        for each in wanted:
            self.broker.declare(each)

    def publish(self, key: str, *ids: str, exchange: str = "", mandatory: bool = True, **properties) -> list[Fate]:
        fates: list[Fate] = []
        for each in ids:
            if not self.publisher.alive:
                self.publisher = self.broker.open_channel(self.connection)
            message = Message(b"body", Properties(message_id=each, **properties))
            self.broker.publish(
                self.publisher,
                exchange,
                key,
                message,
                mandatory=mandatory,
                told=lambda fate, _reason: fates.append(fate),
            )
        return fates

    def read(self, queue: str, prefetch: int = 1, channel: Channel | None = None) -> Reader:
        channel = channel or self.broker.open_channel(self.broker.connect())
        inbox: list[Outstanding] = []
        cancels: list[str] = []
        consumer = self.broker.consume(
            channel, queue, prefetch=prefetch, deliver=inbox.append, cancelled=cancels.append
        )
        return Reader(channel, consumer, inbox, cancels)

    def headers(self, out: Outstanding) -> dict:
        return dict(delivered_properties(out.stored, self.broker.profile, quorum=out.queue.quorum).headers)

    def drained(self, queue: str) -> list[str]:
        """Read everything that is ready, acking one by one."""
        reader = self.read(queue)
        order = []
        while reader.inbox:
            out = reader.inbox.pop()
            order.append(out.stored.id)
            self.broker.ack(out)
        self.broker.close_channel(reader.channel)
        return order


@pytest.fixture(params=["4.3", "4.0"])
def lab(request) -> Lab:
    return Lab(request.param)


@pytest.fixture
def make_lab() -> Callable[..., Lab]:
    return Lab
