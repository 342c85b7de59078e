"""Every Transport does the same: aio-pika on real brokers, and the broker in memory."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.errors import MessageTooLarge, Nacked, PublishTimeout, QueueMissing, Unroutable, Unsendable
from amqpkit.events import Connected, ConsumerLost, Consuming
from amqpkit.model import Binding, Exchange, Message, Properties, Queue

MISSING = 'exchange "nope" does not exist on the broker; run `amqpkit apply` first'


@dataclass(frozen=True)
class Gaps:
    """What a transport is known not to do as the others do, so that nobody has to find out."""

    gives_ids: bool = False
    """A mandatory message without an id is given one."""


async def until(condition, within=20.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def message(body=b"hello", **properties):
    return Message(body, Properties(**properties))


async def outcome(future):
    (result,) = await asyncio.gather(future, return_exceptions=True)
    return result


class Taken(list):
    """Deliveries in the order in which they came."""

    @property
    def bodies(self):
        return [delivery.body for delivery in self]


class Transports:
    """The same promises for each; a subclass says which."""

    gaps = Gaps()

    @pytest.fixture
    async def queue(self, admin):
        async def declare(name="q", kind="quorum", **arguments):
            arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
            await admin.create(Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments}))
            return name

        return declare

    async def depth_becomes(self, transport, queue, expected):
        """The depth is this and stays so: what comes back may come late."""
        deadline, seen = time.monotonic() + 20, 0
        while seen < 4:
            ready = await transport.depth(queue)
            seen = seen + 1 if ready == expected else 0
            assert time.monotonic() < deadline, f"{ready} messages are ready, not {expected}"
            await asyncio.sleep(0.02)

    async def test_it_says_who_answers(self, transport, events):
        assert transport.broker.version.split(".")[0] == "4"
        assert transport.broker.cluster_name
        assert "publish" in {event.purpose for event in events if isinstance(event, Connected)}

    async def test_a_message_arrives_with_all_that_it_was_given(self, transport, queue):
        properties = Properties(
            content_type="application/json",
            headers={"a": 1, "b": [True, None, "x"], "c": {"d": -(2**40)}, "e": 0.1},
            delivery_mode=2,
            priority=1,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="m",
            timestamp=datetime(2026, 1, 2, tzinfo=UTC),
            type="t",
            app_id="app",
        )
        taken = Taken()
        await transport.consume(await queue(), prefetch=1, deliver=taken.append)

        await transport.publish("", "q", Message(b"\x00\xff", properties))

        await until(lambda: taken)
        (delivery,) = taken
        assert delivery.properties == properties
        assert (delivery.queue, delivery.exchange, delivery.routing_key) == ("q", "", "q")
        assert (delivery.body, delivery.redelivered, delivery.alive) == (b"\x00\xff", False, True)

    async def test_absent_properties_are_absent(self, transport, queue):
        taken = Taken()
        await transport.consume(await queue(), prefetch=1, deliver=taken.append)

        await transport.publish("", "q", Message(b""))

        await until(lambda: taken)
        properties = taken[0].properties
        assert (properties.message_id is not None) is self.gaps.gives_ids
        assert properties == Properties(message_id=properties.message_id)

    async def test_messages_stay_in_order(self, transport, queue):
        taken = Taken()
        await transport.consume(await queue(), prefetch=500, deliver=taken.append)

        await asyncio.gather(*(transport.publish("", "q", message(b"%d" % n)) for n in range(300)))

        await until(lambda: len(taken) == 300)
        assert taken.bodies == [b"%d" % n for n in range(300)]

    # --- a publisher is told ----------------------------------------------------------------------

    async def test_a_message_for_nobody_is_unroutable_unless_that_is_fine(self, transport):
        error = await outcome(transport.publish("", "nobody", message(message_id="m")))

        assert isinstance(error, Unroutable)
        assert (error.exchange, error.routing_key, error.message_id) == ("", "nobody", "m")
        assert await outcome(transport.publish("", "nobody", message(), mandatory=False)) is None

    async def test_a_missing_exchange_is_unroutable_and_harms_nobody_else(self, transport, queue):
        await queue()
        targets = [("nope", "q") if n % 10 == 0 else ("", "q") for n in range(100)]

        futures = [transport.publish(*to, message(b"%d" % n, message_id=f"m-{n}")) for n, to in enumerate(targets)]
        results = [await outcome(future) for future in futures]

        assert [type(result) for result in results] == [Unroutable if to[0] else type(None) for to in targets]
        assert {result.reason for result in results if result} == {MISSING}
        await self.depth_becomes(transport, "q", 90)

    async def test_one_id_many_times_at_once(self, transport, queue):
        await queue()
        keys = ["q", "nobody", "nobody", "q"] * 5

        results = [
            await outcome(each) for each in [transport.publish("", key, message(message_id="same")) for key in keys]
        ]

        assert [type(result) for result in results] == [type(None) if key == "q" else Unroutable for key in keys]

    async def test_an_alternate_exchange_counts_when_it_reaches_a_queue(self, transport, admin, queue):
        await admin.create(Exchange("lost", type="fanout"))
        await admin.create(Exchange("events", type="topic", arguments={"alternate-exchange": "lost"}))
        assert isinstance(await outcome(transport.publish("events", "k", message(message_id="1"))), Unroutable)

        await admin.create(Binding("lost", await queue()))

        assert await outcome(transport.publish("events", "k", message(message_id="2"))) is None

    async def test_a_full_queue_refuses(self, transport, queue):
        await queue(x_max_length=1, x_overflow="reject-publish")

        results = [await outcome(transport.publish("", "q", message(message_id=f"m-{n}"))) for n in range(4)]

        assert [type(result) for result in results] == [type(None), type(None), Nacked, Nacked]

    @pytest.mark.parametrize(
        ("wrong", "kind"),
        [
            (message(bytes(16_777_217)), MessageTooLarge),
            (message(headers={"h": "x" * 131_072}), MessageTooLarge),
            (message(headers={"h": float("nan")}), Unsendable),
            (message(headers={"h": 2**63}), Unsendable),
            (message(headers={"h": object()}), Unsendable),
            (message(expiration="soon"), Unsendable),
            (message(type="x" * 256), Unsendable),
        ],
        ids=["body", "headers", "nan", "int", "object", "expiration", "type"],
    )
    async def test_what_no_broker_takes_is_said_by_the_future(self, transport, queue, wrong, kind):
        await queue()

        assert type(await outcome(transport.publish("", "q", wrong))) is kind
        assert await outcome(transport.publish("", "q", message())) is None

    async def test_an_abandoned_wait_does_not_abandon_the_message(self, transport, queue):
        await queue()

        transport.publish("", "q", message()).cancel()

        await self.depth_becomes(transport, "q", 1)

    async def test_after_close_nothing_is_sent(self, transport):
        await transport.close()

        assert isinstance(await outcome(transport.publish("", "q", message())), PublishTimeout)

    # --- a consumer -------------------------------------------------------------------------------

    async def test_a_missing_queue_is_said(self, transport):
        with pytest.raises(QueueMissing, match='"nowhere"'):
            await transport.depth("nowhere")
        with pytest.raises(QueueMissing, match='"nowhere"'):
            await transport.consume("nowhere", prefetch=1, deliver=Taken().append)

    async def test_prefetch_holds_back_the_rest(self, transport, queue):
        await queue()
        await asyncio.gather(*(transport.publish("", "q", message(b"%d" % n)) for n in range(5)))
        taken = Taken()
        await transport.consume("q", prefetch=2, deliver=taken.append)
        await until(lambda: len(taken) == 2)
        await self.depth_becomes(transport, "q", 3)

        taken[1].ack()

        await until(lambda: len(taken) == 3)
        await self.depth_becomes(transport, "q", 2)

    async def test_each_verb_leads_where_it_says(self, transport, queue):
        await queue("dead")
        await queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
        await asyncio.gather(*(transport.publish("", "q", message(b"%d" % n)) for n in range(9)))
        taken = Taken()
        subscription = await transport.consume("q", prefetch=9, deliver=taken.append)
        await until(lambda: len(taken) == 9)

        for number, delivery in enumerate(list(taken)):
            (delivery.ack, delivery.requeue, delivery.refuse)[number % 3]()
        await until(lambda: len(taken) == 12)
        await subscription.close()

        assert sorted(taken.bodies[9:]) == [b"1", b"4", b"7"]
        assert all(delivery.redelivered for delivery in taken[9:])
        await self.depth_becomes(transport, "q", 3)
        await self.depth_becomes(transport, "dead", 3)

    async def test_a_paused_consumer_can_still_settle(self, transport, queue):
        await queue()
        await asyncio.gather(*(transport.publish("", "q", message()) for _ in range(6)))
        taken = Taken()
        subscription = await transport.consume("q", prefetch=2, deliver=taken.append)
        await until(lambda: len(taken) == 2)
        assert subscription.ready

        await subscription.pause()
        taken[0].ack()
        taken[1].requeue()

        await self.depth_becomes(transport, "q", 5)
        assert len(taken) == 2
        assert not subscription.ready
        assert not subscription.ended.done()

    async def test_closing_gives_back_what_is_not_settled(self, transport, queue):
        await queue()
        await asyncio.gather(*(transport.publish("", "q", message()) for _ in range(4)))
        taken = Taken()
        subscription = await transport.consume("q", prefetch=4, deliver=taken.append)
        await until(lambda: len(taken) == 4)

        taken[0].ack()
        await subscription.close()
        assert not taken[1].alive
        taken[1].ack()

        await self.depth_becomes(transport, "q", 3)

    async def test_what_is_forgotten_can_still_be_settled(self, transport, queue):
        taken = Taken()
        subscription = await transport.consume(await queue(), prefetch=2, deliver=taken.append)
        await asyncio.gather(*(transport.publish("", "q", message(b"x" * 1000, message_id=m)) for m in "ab"))
        await until(lambda: len(taken) == 2)

        for delivery in taken:
            delivery.forget()

        assert taken[0].alive
        taken[0].ack()
        await subscription.pause()
        taken[1].requeue()
        await subscription.close()
        await self.depth_becomes(transport, "q", 1)

    @pytest.mark.parametrize("by_nack", [True, False])
    @pytest.mark.parametrize("limit", [-1, 20])
    async def test_what_is_given_back_is_first_in_line_and_in_order_but_for_one_case(
        self, transport, queue, by_nack, limit
    ):
        taken = Taken()
        await queue(x_delivery_limit=limit)
        subscription = await transport.consume("q", prefetch=200, deliver=taken.append)
        bodies = [b"%d" % n for n in range(300)]
        await asyncio.gather(*(transport.publish("", "q", message(body)) for body in bodies))
        await until(lambda: len(taken) == 200)

        await subscription.pause()
        for delivery in taken if by_nack else ():
            delivery.requeue()
        await subscription.close()
        await self.depth_becomes(transport, "q", 300)

        again = Taken()
        await transport.consume("q", prefetch=300, deliver=again.append)
        await until(lambda: len(again) == 300)
        last = by_nack and limit == -1 and transport.broker.version.startswith("4.0.")
        assert again.bodies == ([*bodies[200:], *bodies[:200]] if last else bodies)

    async def test_a_queue_that_goes_and_comes_is_consumed_again(self, transport, admin, queue, events, wait):
        taken = Taken()
        subscription = await transport.consume(await queue(), prefetch=1, deliver=taken.append)

        await admin.delete(Queue("q"))
        await until(lambda: any(isinstance(event, ConsumerLost) for event in events))
        assert not subscription.ready
        await queue()
        await wait(30)
        await until(lambda: subscription.ready)
        await transport.publish("", "q", message())

        await until(lambda: taken)
        assert sum(isinstance(event, Consuming) for event in events) == 2


class TestAio(Transports):
    # aiormq knows a returned message by its id alone.
    gaps = Gaps(gives_ids=True)

    @pytest.fixture
    async def admin(self, broker):
        async with ManagementAdmin(broker.api, vhost=broker.vhost) as here:
            yield here

    @pytest.fixture
    def events(self):
        return []

    @pytest.fixture
    def wait(self):
        async def real_time_passes_by_itself(_seconds):
            return

        return real_time_passes_by_itself

    @pytest.fixture
    async def transport(self, broker, events):
        here = AioTransport(broker.url, on_event=events.append)
        await here.open()
        yield here
        await here.close()


class TestMemory(Transports):
    @pytest.fixture
    def clock(self):
        return VirtualClock()

    @pytest.fixture
    def wait(self, clock):
        return clock.advance

    @pytest.fixture(params=["4.3", "4.0"])
    def memory(self, request, clock):
        return MemoryBroker(clock, version=request.param)

    @pytest.fixture
    def admin(self, memory):
        return MemoryAdmin(memory)

    @pytest.fixture
    def events(self):
        return []

    @pytest.fixture
    async def transport(self, memory, events):
        here = MemoryTransport(memory, on_event=events.append)
        await here.open()
        yield here
        await here.close()
