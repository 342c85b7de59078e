"""No message appears and none disappears, whatever is done to it."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Fate
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.queue import Way
from amqpkit.model import Binding, Exchange, Message, Properties, Queue

QUEUES = ("work", "wait", "dlq", "other")
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["fan", "work", "wait"])),
    st.tuples(st.sampled_from(["ack", "nack", "reject", "refuse", "refuse-reject"]), st.sampled_from(QUEUES)),
    st.tuples(st.just("close"), st.sampled_from(QUEUES)),
    st.tuples(st.just("drop"), st.just("")),
    st.tuples(st.just("advance"), st.sampled_from(["50ms", "1s", "4m"])),
)


class World:
    """A small topology in which everything can happen, and readers that come back."""

    def __init__(self, version, kind, strategy, overflow, limit):
        self.clock = VirtualClock()
        self.ends = []
        self.broker = MemoryBroker(self.clock, version=version, observe=self.ends.append)
        safe = {"x-dead-letter-strategy": strategy} if kind == "quorum" else {}
        shared = {"x-queue-type": kind, "x-overflow": overflow, "x-max-length": limit, **safe}
        to = {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "wait"}
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 100}
        for wanted in (
            Exchange("dlx", "direct"),
            Exchange("fan", "fanout"),
            Queue("work", kind, arguments={**shared, **to}),
            Queue("wait", kind, arguments={**shared, **back}),
            Queue("dlq", arguments={"x-queue-type": "quorum", "x-delivery-limit": 1}),
            Queue("other", kind, arguments={"x-queue-type": kind, "x-message-ttl": 70}),
            Binding("dlx", "wait", "wait"),
            Binding("dlx", "dlq", "wait"),
            Binding("fan", "work"),
            Binding("fan", "other"),
        ):
            self.broker.declare(wanted)
        self.inboxes = {}
        self.fates = {}

    def reader(self, queue):
        channel, inbox = self.inboxes.get(queue, (None, None))
        if channel is None or not channel.alive:
            channel, inbox = self.broker.open_channel(self.broker.connect()), []
            self.inboxes[queue] = channel, inbox
            self.broker.consume(channel, queue, prefetch=2, deliver=inbox.append)
        return channel, inbox

    async def do(self, step, what):
        if step == "publish":
            name = f"m{len(self.fates)}"
            message = Message(b"x", Properties(message_id=name))
            channel = self.broker.open_channel(self.broker.connect())
            exchange, key = ("fan", "") if what == "fan" else ("", what)
            self.broker.publish(
                channel, exchange, key, message, mandatory=True,
                told=lambda fate, _: self.fates.update({name: fate}),
            )  # fmt: skip
        elif step == "advance":
            await self.clock.advance(what)
        elif step == "drop":
            self.broker.drop_connections()
        else:
            channel, inbox = self.reader(what)
            if step == "close":
                self.broker.close_channel(channel)
            elif inbox:
                self.settle(step, inbox.pop(0))

    def settle(self, step, out):
        match step:
            case "ack":
                self.broker.ack(out)
            case "nack" | "reject":
                self.broker.requeue(out, Way[step.upper()])
            case _:
                self.broker.refuse(out, Way.REJECT if "reject" in step else Way.NACK)

    def check(self):
        """Copies made = copies that are somewhere + copies that ended, each with its reason."""
        made, ended, here = {}, {}, {}
        for movement in self.ends:
            if movement.what == "queued":
                made[movement.message_id] = made.get(movement.message_id, 0) + 1
            elif movement.what.startswith(("dead-lettered", "acked", "dropped")):
                ended[movement.message_id] = ended.get(movement.message_id, 0) + 1
        for names in self.broker.ledger().values():
            for name in names:
                here[name] = here.get(name, 0) + 1
        for name, fate in self.fates.items():
            assert made.get(name, 0) == ended.get(name, 0) + here.get(name, 0), name
            if fate is Fate.CONFIRMED:
                assert made.get(name), "confirmed, so it was stored"
                assert here.get(name) or self.broker.journey(name)[-1] not in QUEUES, "gone, so it says why"


@settings(max_examples=60, deadline=None)
@given(
    version=st.sampled_from(["4.3", "4.0"]),
    kind=st.sampled_from(["quorum", "classic"]),
    strategy=st.sampled_from(["at-most-once", "at-least-once"]),
    overflow=st.sampled_from(["drop-head", "reject-publish"]),
    limit=st.sampled_from([0, 1, 3, 100]),
    steps=st.lists(STEPS, max_size=40),
)
def test_every_confirmed_message_is_somewhere_or_ended_for_a_reason(version, kind, strategy, overflow, limit, steps):
    async def run():
        world = World(version, kind, strategy, overflow, limit)
        for step, what in steps:
            await world.do(step, what)
            world.check()

    asyncio.run(run())
