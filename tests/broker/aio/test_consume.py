"""A consumer on a real broker: what it is given, what becomes of it, and that it comes back."""

import asyncio
import random

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.errors import AccessRefused, QueueMissing
from amqpkit.events import ConnectionLost, ConsumerLost, Consuming
from amqpkit.model import Message
from tests.broker.aio.rig import Inbox, Rig, message, until, with_user


async def test_a_missing_queue_is_said_at_once(rig: Rig):
    with pytest.raises(QueueMissing, match='"nowhere"'):
        await rig.consume("nowhere", Inbox())
    with pytest.raises(QueueMissing, match='"nowhere"'):
        await rig.transport.depth("nowhere")


async def test_no_more_than_prefetch_are_given_at_once(rig: Rig):
    await rig.fill(await rig.queue("q"), 20)
    inbox = Inbox()
    await rig.consume("q", inbox, prefetch=5)

    await until(lambda: len(inbox.deliveries) == 5)
    inbox.deliveries[0].ack()

    await until(lambda: len(inbox.deliveries) == 6)
    await rig.stays("q", 14)
    assert inbox.bodies == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_acked_messages_are_gone_and_requeued_ones_come_back_and_refused_ones_die(rig: Rig):
    await rig.queue("dead")
    await rig.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    await rig.fill("q", 30)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox, prefetch=30)
    await until(lambda: len(inbox.deliveries) == 30)

    for number, delivery in enumerate(inbox.deliveries):
        (delivery.ack, delivery.requeue, delivery.refuse)[number % 3]()
    await until(lambda: len(inbox.deliveries) == 40)
    await subscription.close()

    assert sorted(inbox.bodies[30:]) == sorted(b"%d" % n for n in range(1, 30, 3))
    assert all(delivery.redelivered for delivery in inbox.deliveries[30:])
    await rig.stays("q", 10)
    await rig.stays("dead", 10)


async def test_acks_in_any_order_over_many_turns_settle_exactly_their_own(rig: Rig):
    await rig.fill(await rig.queue("q"), 200)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox, prefetch=200)
    await until(lambda: len(inbox.deliveries) == 200)
    order = random.Random(7).sample(inbox.deliveries, 200)

    for number, delivery in enumerate(order[:150]):
        if number % 10 == 9:
            await asyncio.sleep(0)
        if number % 7 == 6:
            delivery.requeue()
        else:
            delivery.ack()
    kept = {delivery.body for delivery in order[150:]} | {order[n].body for n in range(6, 150, 7)}
    await subscription.close()

    await rig.stays("q", len(kept))
    again = Inbox(ack=True)
    await rig.consume("q", again, prefetch=200)
    await until(lambda: len(again.deliveries) == len(kept))
    assert set(again.bodies) == kept


async def test_a_second_verb_does_nothing(rig: Rig):
    await rig.fill(await rig.queue("q"), 2)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox)
    await until(lambda: len(inbox.deliveries) == 2)

    for _ in range(2):
        inbox.deliveries[0].ack()
        inbox.deliveries[0].requeue()
        await asyncio.sleep(0.05)
    inbox.deliveries[1].ack()
    await subscription.close()

    await rig.stays("q", 0)
    assert rig.told(ConsumerLost) == []


# --- pause and close ----------------------------------------------------------------------------


async def test_a_paused_consumer_gets_nothing_new_and_can_settle_what_it_has(rig: Rig):
    await rig.fill(await rig.queue("q"), 20)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox, prefetch=5)
    await until(lambda: len(inbox.deliveries) == 5)

    await subscription.pause()
    await subscription.pause()
    for delivery in inbox.deliveries:
        delivery.ack()

    assert not subscription.ready
    await rig.stays("q", 15)
    await subscription.close()
    await subscription.close()
    await rig.stays("q", 15)
    assert len(inbox.deliveries) == 5


@pytest.mark.parametrize("paused", [True, False], ids=["paused", "not-paused"])
@pytest.mark.parametrize("count", [30, 34, 300])
async def test_no_ack_before_a_close_is_lost(rig: Rig, count: int, paused: bool):
    await rig.queue("q")
    for _ in range(5):
        await rig.fill("q", count + 5)
        inbox = Inbox()
        subscription = await rig.consume("q", inbox, prefetch=count)
        await until(lambda inbox=inbox: len(inbox.deliveries) >= count)
        if paused:
            await subscription.pause()
        # The first stays unsettled, so that no two can be merged: each is a frame of its own.
        for delivery in inbox.deliveries[1:count]:
            delivery.ack()
        await subscription.close()

        await rig.stays("q", 6)
        await rig.api("DELETE", "queues//q/contents")


# --- losses -------------------------------------------------------------------------------------


async def test_case_201_a_queue_deleted_under_the_consumer_is_consumed_again_when_it_is_back(rig: Rig):
    await rig.fill(await rig.queue("q"), 1)
    inbox = Inbox(ack=True)
    subscription = await rig.consume("q", inbox)
    await until(lambda: len(inbox.deliveries) == 1)

    await rig.api("DELETE", "queues//q")
    await until(lambda: rig.told(ConsumerLost))
    assert not subscription.ready
    await rig.queue("q")
    await until(lambda: subscription.ready)
    await rig.fill("q", 1)

    await until(lambda: len(inbox.deliveries) == 2)
    assert len(rig.told(Consuming)) == 2


async def test_a_missing_queue_is_never_declared_and_the_waits_grow(rig: Rig):
    subscription = await rig.consume(await rig.queue("q"), Inbox())

    await rig.api("DELETE", "queues//q")
    await until(lambda: len(rig.told(ConsumerLost)) >= 4)

    assert all(queue["name"] != "q" for queue in await rig.api("GET", "queues//"))
    assert any("does not exist" in lost.reason for lost in rig.told(ConsumerLost))
    assert not subscription.ended.done()


async def test_case_204_a_closed_connection_brings_everything_back_and_late_acks_do_nothing(rig: Rig):
    await rig.fill(await rig.queue("q"), 5)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox)
    await until(lambda: len(inbox.deliveries) == 5)

    await asyncio.to_thread(rig.broker.close_connections, at_least=2)
    await until(lambda: len(inbox.deliveries) == 10)
    for late in inbox.deliveries[:5]:
        assert not late.alive
        late.ack()
        late.requeue()
        late.refuse()
    for again in inbox.deliveries[5:]:
        assert again.alive
        assert again.redelivered
        again.ack()
    await subscription.close()

    await rig.stays("q", 0)
    assert {event.purpose for event in rig.told(ConnectionLost)} == {"consume", "publish"}


async def test_a_channel_closed_by_the_broker_is_opened_again(rig: Rig):
    await rig.fill(await rig.queue("q"), 3)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox)
    await until(lambda: len(inbox.deliveries) == 3)

    # An unknown delivery tag, as no public verb can send one: 406 closes the channel and leaves the connection.
    inlet = subscription._epoch.inlet  # type: ignore[attr-defined]
    await inlet.write(inlet.acks(0, [99]))
    await until(lambda: len(inbox.deliveries) == 6)

    assert "unknown delivery tag 99" in rig.told(ConsumerLost)[0].reason
    assert rig.told(ConnectionLost) == []
    inbox.deliveries[-1].ack()
    await subscription.close()
    await rig.stays("q", 2)


async def test_a_handler_that_outlives_the_consumer_timeout_gets_a_new_channel(rig: Rig):
    await rig.queue("q", x_consumer_timeout=3000)
    await rig.fill("q", 1)
    inbox = Inbox()
    subscription = await rig.consume("q", inbox)

    # Before 4.3 a broker looks once in a while only: each second in our image, each minute by default.
    await until(lambda: len(inbox.deliveries) == 2, within=100)
    assert not inbox.deliveries[0].alive
    inbox.deliveries[0].ack()
    inbox.deliveries[1].ack()
    await subscription.close()

    await rig.stays("q", 0)
    why = "cancelled" if rig.broker.release >= (4, 3) else "timed out"
    assert why in rig.told(ConsumerLost)[0].reason


async def test_one_queue_in_trouble_does_not_disturb_another(rig: Rig):
    await rig.queue("sound")
    sound, broken = Inbox(ack=True), Inbox()
    await rig.consume("sound", sound)
    await rig.consume(await rig.queue("broken"), broken)

    await rig.api("DELETE", "queues//broken")
    await until(lambda: rig.told(ConsumerLost))
    await rig.fill("sound", 10)

    await until(lambda: len(sound.deliveries) == 10)
    assert {lost.queue for lost in rig.told(ConsumerLost)} == {"broken"}


async def test_headers_that_are_odd_reach_the_consumer_and_survive_a_copy(rig: Rig):
    await rig.queue("q")
    await rig.queue("copy")
    await rig.transport.publish("", "q", message(b"\xff\x00", message_id="m", headers={"bytes": b"\x80", "float": 1.1}))
    inbox = Inbox(ack=True)
    await rig.consume("q", inbox)
    await until(lambda: inbox.deliveries)

    original = inbox.deliveries[0]
    await rig.transport.publish("", "copy", Message(original.body, original.properties))
    await rig.consume("copy", inbox)
    await until(lambda: len(inbox.deliveries) == 2)

    assert inbox.deliveries[1].properties == original.properties
    assert inbox.deliveries[1].body == b"\xff\x00"


async def test_a_user_who_may_not_read_is_refused(rig: Rig):
    await rig.queue("q")
    await rig.api("PUT", "users/blind", {"password": "blind", "tags": ""})
    try:
        await rig.api("PUT", "permissions//blind", {"configure": "", "write": ".*", "read": ""})
        blind = AioTransport(with_user(rig.broker.url, "blind", "blind"))
        await blind.open()
        with pytest.raises(AccessRefused, match='"q"'):
            await blind.consume("q", prefetch=1, deliver=Inbox())
        await blind.close()
    finally:
        await rig.api("DELETE", "users/blind")
