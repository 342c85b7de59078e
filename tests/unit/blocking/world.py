"""A broker in memory, and blocking publishers on it."""

from amqpkit.brokers.memory.blocking import MemoryBlockingTransport
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.deliver.blocking import BlockingPublisher
from amqpkit.deliver.payload import Payload
from amqpkit.model import Message

FILE = """
version: 1
work_queues:
  small: {max-length: 3}
  gated: {limits: {depth: 5}}
  plain: {}
"""


class Small(Payload, type="small"):
    n: int = 0


class Gated(Payload, type="gated"):
    n: int = 0


class Plain(Payload, type="plain"):
    n: int = 0


class World:
    def __init__(self):
        self.topology = compile_topology(parse([("test.yaml", FILE)], {}))
        self.broker = MemoryBroker(VirtualClock())
        for each in (*self.topology.exchanges, *self.topology.queues, *self.topology.policies, *self.topology.bindings):
            self.broker.declare(each)
        self.events = []
        self.transport = MemoryBlockingTransport(self.broker, on_event=self.events.append)
        self.transport.open()

    def publisher(self, **settings):
        return BlockingPublisher(self.topology, self.transport, on_event=self.events.append, **settings)

    def depth(self, queue):
        return self.broker.depth(queue)

    def fill(self, queue, count):
        for _ in range(count):
            self.transport.publish("", queue, Message(b"{}")).result()

    def stored(self, queue):
        return self.broker.ledger().get(queue, [])
