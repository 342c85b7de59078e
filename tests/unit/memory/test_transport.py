"""The transport on the in-memory broker: the promises of ports.Transport, with faults."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from amqpkit.brokers.clock import SystemClock
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.errors import (
    BrokerBlocked,
    ConnectionFailed,
    MessageTooLarge,
    Nacked,
    PublishTimeout,
    PublishUncertain,
    QueueMissing,
    Unroutable,
    Unsendable,
)
from amqpkit.events import Connected, ConnectionLost, ConsumerLost, Consuming
from amqpkit.model import Message, Properties, Queue, Stamp
from amqpkit.ports import Delivery, Subscription, Transport


class Room:
    """A broker with one queue, and an open transport."""

    def __init__(self, version: str = "4.3") -> None:
        self.clock = VirtualClock()
        self.broker = MemoryBroker(self.clock, version=version)
        self.broker.declare(Queue("q", arguments={"x-queue-type": "quorum", "x-delivery-limit": -1}))
        self.events = []
        self.transport = MemoryTransport(self.broker, on_event=self.events.append)
        self.inbox: list[Delivery] = []

    async def read(self, prefetch: int = 10) -> Subscription:
        return await self.transport.consume("q", prefetch=prefetch, deliver=self.inbox.append)

    def publish(self, key: str = "q", name: str = "m", **properties) -> asyncio.Future[None]:
        return self.transport.publish("", key, Message(b"body", Properties(message_id=name, **properties)))

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


@pytest.fixture
async def room() -> Room:
    room = Room()
    await room.transport.open()
    return room


async def test_it_fits_the_port(room):
    transport: Transport = room.transport
    subscription: Subscription = await room.read()
    await room.publish(app_id="app")
    await room.clock.settle()
    delivery = room.inbox[0]
    assert transport.broker.version == "4.3.6"
    assert (delivery.queue, delivery.exchange, delivery.routing_key) == ("q", "", "q")
    assert (delivery.body, delivery.redelivered, delivery.alive) == (b"body", False, True)
    assert delivery.properties == Properties(message_id="m", app_id="app", headers={})
    assert (subscription.ready, subscription.ended.done()) == (True, False)
    delivery.ack()
    assert room.broker.journey("m") == ["q", "acked"]
    await transport.close()


async def test_nothing_is_delivered_inside_the_call_that_publishes(room):
    await room.read()
    confirmed = room.publish()
    assert (room.inbox, confirmed.done()) == ([], False)
    await confirmed
    await asyncio.sleep(0)
    assert len(room.inbox) == 1


async def test_consuming_needs_an_open_transport_and_a_queue(room):
    with pytest.raises(ConnectionFailed):
        await MemoryTransport(room.broker).consume("q", prefetch=1, deliver=room.inbox.append)
    with pytest.raises(QueueMissing):
        await room.transport.consume("nope", prefetch=1, deliver=room.inbox.append)
    with pytest.raises(QueueMissing):
        await room.transport.depth("nope")


async def test_each_bad_end_of_a_publish_is_its_own_error(room):
    room.broker.declare(
        Queue(
            "full", "classic", arguments={"x-queue-type": "classic", "x-max-length": 0, "x-overflow": "reject-publish"}
        )
    )
    with pytest.raises(Unroutable, match='message m to the default exchange with key "nobody" reaches no queue'):
        await room.publish("nobody")
    with pytest.raises(Unroutable, match=r'"nowhere" does not exist on the broker; run `amqpkit apply` first$'):
        await room.transport.publish("nowhere", "k", Message(b""))
    with pytest.raises(Nacked):
        await room.publish("full")
    await room.publish(), "the channel that 404 closed was replaced"


async def test_an_alarm_blocks_publishers_until_it_ends_or_their_time_does(room):  # §4, case 303
    room.broker.block()
    soon, late = room.publish(name="soon"), room.transport.publish("", "q", Message(b""), timeout=60)
    await room.clock.advance("30s")
    with pytest.raises(BrokerBlocked, match="broker blocks publishers: a memory alarm for 30 s"):
        await soon
    assert not late.done()
    room.broker.unblock()
    await late
    assert len(room.broker.ledger()["q"]) == 1, "what timed out was never stored"


async def test_a_held_confirm_is_uncertain_after_its_time(room):
    room.broker.hold_confirms()
    confirmed = room.publish()
    await room.clock.advance("30s")
    with pytest.raises(PublishUncertain):
        await confirmed
    room.broker.release_confirms()
    await room.clock.settle()
    assert room.broker.ledger() == {"q": ["m"]}


async def test_a_drop_with_confirms_held_is_uncertain_and_the_message_is_there(room):  # §4
    room.broker.hold_confirms()
    confirmed = room.publish()
    room.broker.drop_connections()
    with pytest.raises(PublishUncertain):
        await confirmed
    assert room.broker.ledger() == {"q": ["m"]}


async def test_after_a_drop_everything_comes_back_by_itself(room):
    subscription = await room.read()
    await room.publish()
    await room.clock.settle()
    first = room.inbox.pop()
    room.events.clear()

    room.broker.drop_connections()
    assert (first.alive, subscription.ready) == (False, False)
    first.ack()
    first.requeue()
    first.refuse()
    while_away = room.publish(name="n")
    await room.clock.settle()

    assert room.kinds() == ["ConnectionLost", "ConnectionLost", "ConsumerLost", "Connected", "Connected", "Consuming"]
    assert {event.purpose for event in room.events if isinstance(event, Connected | ConnectionLost)} == {
        "publish",
        "consume",
    }
    await while_away
    assert [delivery.properties.message_id for delivery in room.inbox] == ["m", "n"]
    assert room.inbox[0].redelivered
    assert room.inbox[0].properties.headers == {"x-delivery-count": 1, "x-acquired-count": 1}


async def test_what_was_lost_just_before_close_stays_away(room):
    await room.read()
    room.broker.drop_connections()
    await room.transport.close()
    await room.clock.settle()
    assert room.kinds().count("Connected") == 2


async def test_what_is_on_its_way_when_the_connection_goes_never_arrives_twice(room):
    await room.read()
    room.publish()
    room.broker.drop_connections()
    await room.clock.settle()
    assert len(room.inbox) == 1


async def test_it_runs_in_real_time_too():
    broker = MemoryBroker(SystemClock())
    broker.declare(Queue("out"))
    arguments = {"x-queue-type": "quorum", "x-message-ttl": 20}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "out"}
    broker.declare(Queue("delay", arguments=arguments | back))
    transport = MemoryTransport(broker)
    await transport.open()
    arrived = asyncio.get_running_loop().create_future()
    await transport.consume("out", prefetch=1, deliver=arrived.set_result)
    await transport.publish("", "delay", Message(b"", Properties(message_id="m")))
    delivery = await arrived
    delivery.ack()
    assert broker.journey("m") == ["delay", "out", "acked"]
    await transport.close()


async def test_a_cancelled_consumer_comes_back_on_a_new_channel(room):
    subscription = await room.read()
    await room.publish()
    await room.clock.settle()
    old = room.inbox.pop()
    room.broker.cancel_consumers("q")
    await room.clock.settle()
    assert subscription.ready
    assert not old.alive
    assert room.kinds()[-2:] == ["ConsumerLost", "Consuming"]
    assert len(room.inbox) == 1


async def test_a_queue_deleted_under_its_consumer_is_waited_for(room):  # case 201
    subscription = await room.read()
    room.broker.delete_queue("q")
    await room.clock.advance("2m")
    waits = [event.wait for event in room.events if isinstance(event, ConsumerLost)]
    assert waits == [0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert not subscription.ready
    room.broker.declare(Queue("q"))
    await room.clock.advance("30s")
    assert subscription.ready
    assert room.events[-1] == Consuming("q")


async def test_a_drop_while_the_queue_is_missing_does_not_double_the_consumer(room):
    await room.read()
    room.broker.delete_queue("q")
    await room.clock.advance("5s")
    room.broker.drop_connections()
    await room.clock.settle()
    room.broker.declare(Queue("q"))
    await room.clock.advance("5m")
    assert len(room.broker.vhost.queues["q"].consumers) == 1


@pytest.mark.parametrize("version", ["4.3", "4.0"])
async def test_a_consumer_timeout_costs_the_channel_and_the_message_comes_again(version):  # §3, case 203
    room = Room(version)
    await room.transport.open()
    await room.read()
    await room.publish()
    await room.clock.advance("31m")
    old, new = room.inbox
    assert (old.alive, new.alive, new.redelivered) == (False, True, True)
    old.ack()
    assert room.broker.ledger() == {"q": ["m"]}


async def test_two_late_deliveries_cost_one_consumer(room):
    await room.read()
    await asyncio.gather(room.publish(name="a"), room.publish(name="b"))
    await room.clock.advance("30m")
    assert room.kinds().count("ConsumerLost") == 1
    assert len(room.inbox) == 4


async def test_pause_is_final_and_what_was_delivered_can_be_settled(room):
    subscription = await room.read()
    await room.publish()
    await subscription.pause()
    await room.publish(name="n")
    room.broker.drop_connections()
    await room.clock.settle()
    assert (len(room.inbox), subscription.ready) == (1, False)
    assert await room.transport.depth("q") == 2


async def test_pause_then_ack_then_close_loses_nothing(room):
    subscription = await room.read()
    await room.publish()
    await room.clock.settle()
    await subscription.pause()
    room.inbox[0].ack()
    await subscription.close()
    assert room.broker.ledger() == {}


async def test_refuse_drops_and_requeue_gives_back(room):
    subscription = await room.read(prefetch=1)
    await room.publish()
    await room.clock.settle()
    room.inbox.pop().requeue()
    await room.clock.settle()
    assert room.inbox[0].properties.headers == {"x-acquired-count": 1}
    room.inbox.pop().refuse()
    assert room.broker.journey("m") == ["q", "dropped (rejected)"]
    await subscription.close()


async def test_close_tells_every_publisher_how_it_stands(room):
    room.broker.hold_confirms()
    sent = room.publish(name="sent")
    room.broker.block()
    unsent = room.publish(name="unsent")
    await room.transport.close()
    late = room.publish(name="late")
    for future, error in ((sent, PublishUncertain), (unsent, PublishTimeout), (late, PublishTimeout)):
        with pytest.raises(error):
            await future
    room.broker.drop_connections()
    assert room.broker.ledger() == {"q": ["sent"]}


async def test_an_abandoned_future_abandons_the_wait_not_the_message(room):
    room.publish().cancel()
    await room.clock.settle()
    assert room.broker.ledger() == {"q": ["m"]}


NOON = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)


async def test_values_arrive_as_amqp_carries_them(room):  # §6, case 311
    await room.read()
    headers = {
        "n": None, "t": True, "i": -(2**63), "s": "é", "f": 0.1, "b": b"\xff", "w": NOON, "d": Decimal("1.5"),
        "l": [1, {"a": [None]}], "m": {"k": "v"},
    }  # fmt: skip
    await room.publish(headers=headers, timestamp=NOON)
    await room.clock.settle()
    got = room.inbox[0].properties
    whole = NOON.replace(microsecond=0)
    assert got.headers == headers | {"b": bytearray(b"\xff"), "w": whole}
    assert got.timestamp == whole
    headers["l"].append(2)
    assert got.headers["l"] == [1, {"a": [None]}]


async def test_a_time_that_was_not_sent_in_seconds_arrives_as_it_was_sent(room):
    await room.read()
    stamp = Stamp.of(1_772_366_400_500)
    await room.publish(headers={"w": stamp}, timestamp=stamp)
    await room.clock.settle()
    got = room.inbox[0].properties
    assert (got.timestamp.sent, got.headers["w"].sent) == (1_772_366_400_500, 1_772_366_400_500)
    assert got.timestamp == datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC)


@pytest.mark.parametrize(
    "properties",
    [
        {"headers": {"a": 2**63}},
        {"headers": {"a": (1, 2)}},
        {"headers": {"a": {1}}},
        {"headers": {"a": float("nan")}},
        {"headers": {"a": [object()]}},
        {"headers": {"a": "\ud800"}},
        {"headers": {"a": Decimal("1e40")}},
        {"headers": {"a": datetime(2026, 1, 1)}},  # noqa: DTZ001
        {"headers": {"a": datetime(1969, 1, 1, tzinfo=UTC)}},
        {"headers": {"k" * 256: 1}},
        {"headers": {1: 1}},
        {"headers": {"CC": "q"}},
        {"headers": {"BCC": [1]}},
        {"expiration": "1.5"},
        {"expiration": 5},
        {"priority": 256},
        {"correlation_id": "x" * 256},
    ],
)
async def test_what_amqp_cannot_carry_is_unsendable_and_says_what(room, properties):  # §6
    with pytest.raises(Unsendable) as caught:
        await room.publish(**properties)
    assert not isinstance(caught.value, MessageTooLarge)
    assert room.broker.ledger() == {}


async def test_headers_over_one_frame_and_bodies_over_16_mebibytes_are_too_large(room):  # §6, cases 107 and 309
    await room.publish(headers={"a": "x" * 130_000})
    with pytest.raises(MessageTooLarge, match="one frame"):
        await room.publish(headers={"a": "x" * 131_064})
    with pytest.raises(MessageTooLarge, match="16777217 bytes"):
        await room.transport.publish("", "q", Message(bytes(16_777_217)))
