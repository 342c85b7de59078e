"""Producers that feel the brakes, on a real broker: the books balance, and every refusal has its name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from amqpkit.errors import MessageTooLarge, Nacked, Overloaded, PublishError, PublishUncertain
from amqpkit.events import DepthUnknown, Event, Fate
from amqpkit.testing.proxy import FaultProxy
from tests.broker.aio.rig import with_user
from tests.broker.producers.kinds import Producer
from tests.broker.producers.rig import Flood, Gated, Plain, balance, contents, until
from tests.containers.brokers import Broker

Make = Callable[..., Awaitable[Producer]]
MANY = 10_000


async def test_ten_thousand_into_a_queue_of_a_thousand_add_up(make: Make, broker: Broker):
    producer = await make(overload="fail", timeout=20.0)
    seen = 0

    def count(_outcome: object) -> None:
        nonlocal seen
        seen += 1

    outcomes = await producer.publish_many((Flood(n=n) for n in range(MANY)), progress=count)
    fates = balance(outcomes, await contents(broker, "flood"), MANY)
    assert seen == MANY
    assert set(fates) == {Fate.CONFIRMED, Fate.NACKED}
    # the broker looks at its limit after it has stored: what was under way meanwhile got in
    assert 1000 <= fates[Fate.CONFIRMED] <= 1000 + 2 * 500


async def test_a_gated_queue_gets_its_limit_and_at_most_a_window_more(make: Make, broker: Broker):
    producer = await make(overload="fail", timeout=20.0)
    outcomes = await producer.publish_many(Gated(n=n) for n in range(3000))
    fates = balance(outcomes, await contents(broker, "gated"), 3000)
    assert set(fates) == {Fate.CONFIRMED, Fate.OVERLOADED}
    assert 1000 <= fates[Fate.CONFIRMED] <= 1000 + 500
    assert producer.pressure == 1.0


async def test_producers_that_fill_a_gated_queue_together_stop_a_little_above_its_limit(make: Make, broker: Broker):
    producers = [await make(overload="fail", timeout=20.0, window=50) for _ in range(3)]
    many = [producer.publish_many(Gated(n=n) for n in range(3000)) for producer in producers]
    outcomes = [outcome for each in await asyncio.gather(*many) for outcome in each]
    stored = await contents(broker, "gated")
    assert sorted(stored) == sorted(outcome.message_id for outcome in outcomes if outcome.error is None)
    # each lets 50 through before it looks again, and does not see the 50 that it has under way
    assert 1000 <= len(stored) <= 1000 + 3 * 100


async def test_a_limit_that_cannot_be_looked_at_holds_nobody_and_is_told_once(make: Make, broker: Broker):
    name = f"once-{broker.vhost}"
    user = f"users/{name}"
    await asyncio.to_thread(broker.http, "PUT", user, {"password": "secret", "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    await asyncio.to_thread(broker.http, "PUT", f"permissions/{broker.vhost}/{name}", everything)
    # to publish takes one connection, and to ask another: the broker does not read from one that it has blocked
    await asyncio.to_thread(broker.http, "PUT", f"user-limits/{name}/max-connections", {"value": 1})
    try:
        events: list[Event] = []
        producer = await make(with_user(broker.url, name, "secret"), on_event=events.append, timeout=2.0)
        for n in range(3):
            await producer.publish(Gated(n=n))
        unknown = [event for event in events if isinstance(event, DepthUnknown)]
        assert [event.queue for event in unknown] == ["gated"]
        assert unknown[0].reason
    finally:
        await asyncio.to_thread(broker.http, "DELETE", user)


async def test_who_waits_for_a_gated_queue_goes_on_when_it_is_emptied(make: Make, broker: Broker):
    producer = await make(timeout=20.0)
    await producer.publish_many(Gated(n=n) for n in range(1000))
    waiting = asyncio.create_task(producer.publish(Gated(n=1000)))
    with pytest.raises(Overloaded) as caught:
        await producer.publish(Gated(n=1001), overload="fail")
    assert (caught.value.queue, caught.value.depth >= 1000, caught.value.retry_after >= 1) == ("gated", True, True)
    assert not waiting.done()
    await asyncio.to_thread(broker.http, "DELETE", f"queues/{broker.vhost}/gated/contents")
    assert await contents(broker, "gated") == [await waiting]


async def test_a_nacked_message_is_sent_again_until_it_fits_or_its_time_is_over(make: Make, broker: Broker):  # case 304
    producer = await make()
    await producer.publish_many((Flood(n=n) for n in range(2000)), overload="fail")
    begun = time.monotonic()
    with pytest.raises(Nacked, match='default exchange with key "flood" was refused') as caught:
        await producer.publish(Flood(), timeout=1.0)
    assert time.monotonic() - begun < 2
    assert caught.value.message_id
    waiting = asyncio.create_task(producer.publish(Flood(), timeout=20.0))
    await asyncio.sleep(0)
    await asyncio.to_thread(broker.http, "DELETE", f"queues/{broker.vhost}/flood/contents")
    assert await contents(broker, "flood") == [await waiting]


async def test_the_first_message_after_a_silent_loss_is_never_called_stored(make: Make, broker: Broker):  # case 306
    place = urlsplit(broker.url)
    async with FaultProxy(place.hostname or "", place.port or 0) as proxy:
        producer = await make(proxy.redirect(broker.url), heartbeat=1)
        first = await producer.publish(Plain())
        idle = proxy.accepted
        await asyncio.sleep(2.5)  # two heartbeats and more: whoever sends none is closed by the broker
        second = await producer.publish(Plain())
        assert proxy.accepted == idle, "an idle producer keeps its connection"
        proxy.stall()
        with pytest.raises(PublishUncertain):
            await producer.publish(Plain(), message_id="lost", timeout=0.5)
        proxy.cut()  # what it held back is gone with it
        proxy.resume()
        await producer.publish(Plain(), message_id="lost", timeout=20.0)
        assert await contents(broker, "plain") == [first, second, "lost"]


async def test_a_message_over_16_mib_is_refused_and_harms_no_other(make: Make, broker: Broker):  # case 309
    producer = await make()
    sizes = [15 * 2**20, 17 * 2**20, 10]

    async def outcome(size: int) -> PublishError | None:
        try:
            await producer.publish(Plain(text="x" * size), message_id=f"of {size}")
        except PublishError as error:
            return error
        return None

    results = await asyncio.gather(*map(outcome, sizes))
    assert [type(result) for result in results] == [type(None), MessageTooLarge, type(None)]
    assert "message of 17825792 to the default exchange" in str(results[1])
    assert "17825809 bytes; 16777216 are allowed" in str(results[1])
    assert sorted(await contents(broker, "plain")) == ["of 10", "of 15728640"]


async def test_a_lost_connection_in_the_middle_of_many_is_accounted_for(make: Make, broker: Broker):
    place = urlsplit(broker.url)
    async with FaultProxy(place.hostname or "", place.port or 0) as proxy:
        producer = await make(proxy.redirect(broker.url), timeout=20.0)
        seen: list[object] = []
        many = asyncio.create_task(producer.publish_many((Plain(n=n) for n in range(3000)), progress=seen.append))
        await until(lambda: len(seen) > 500)
        proxy.cut()
        fates = balance(await many, await contents(broker, "plain"), 3000)
    assert set(fates) <= {Fate.CONFIRMED, Fate.UNCERTAIN}
    assert fates[Fate.CONFIRMED] > 1000
