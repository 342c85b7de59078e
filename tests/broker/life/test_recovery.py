"""Queues that vanish, connections that fail: the worker says so, comes back by itself, and declares nothing."""

import asyncio
import time
from collections import Counter
from urllib.parse import urlsplit, urlunsplit

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.errors import AccessRefused, QueueMissing
from amqpkit.events import ConnectionLost, ConsumerLost
from amqpkit.testing.proxy import FaultProxy
from tests.broker.life.rig import Rig, applied, handling, until


async def exists(rig: Rig, queue: str) -> bool:
    path = f"queues/{rig.broker.vhost}/{queue}"
    status, _ = await asyncio.to_thread(rig.broker.http, "GET", path)
    return status == 200


async def delete(rig: Rig, queue: str) -> None:
    path = f"queues/{rig.broker.vhost}/{queue}"
    status, answer = await asyncio.to_thread(rig.broker.http, "DELETE", path)
    assert status == 204, answer


async def test_a_queue_that_is_deleted_and_made_again_is_consumed_again_within_ten_seconds(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer) as worker:
            first = await rig.publish()
            await until(lambda: calls.handled == [first], "it works")
            await delete(rig, "work")
            await until(lambda: not worker.ready, "the worker is not ready")
            await until(lambda: len(rig.told(ConsumerLost)) >= 4, "it has tried to consume again")
            assert not worker.ready
            assert not await exists(rig, "work")
            await rig.apply()
            second = await rig.publish()
            await until(lambda: worker.ready, "the worker is ready again", within=10)
            await until(lambda: calls.handled == [first, second], "it works again")

        assert await rig.ledger() == {}


async def test_a_queue_that_is_missing_at_the_start_is_an_error_that_names_the_remedy(broker):
    async with applied(broker) as rig:
        await delete(rig, "work")
        consumer, _ = handling("work")
        with pytest.raises(QueueMissing, match=r'"work" does not exist.*amqpkit apply'):
            async with rig.working(consumer):
                pass
        assert not await exists(rig, "work")


@pytest.mark.parametrize("what", ["password", "vhost"])
async def test_a_refusal_ends_the_start_at_once(broker, what):
    parts = urlsplit(broker.url)
    if what == "password":
        wrong = parts._replace(netloc=f"{parts.username}:wrong-secret@{parts.hostname}:{parts.port}")
    else:
        wrong = parts._replace(path="/no-such-vhost")
    transport = AioTransport(urlunsplit(wrong), name="life")
    began = time.monotonic()
    with pytest.raises(AccessRefused) as refusal:
        await transport.open()
    assert time.monotonic() - began < 5
    assert "wrong-secret" not in str(refusal.value)
    await transport.close()


FAULTS = {"stalled": FaultProxy.stall, "cut": FaultProxy.cut, "half closed": FaultProxy.half_close}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_connection_that_fails_comes_back_and_nothing_is_lost(broker, fault):
    parts = urlsplit(broker.url)
    assert parts.hostname is not None
    assert parts.port is not None
    async with applied(broker) as rig, FaultProxy(parts.hostname, parts.port) as proxy:
        door = asyncio.Event()
        consumer, calls = handling("work", lambda _note, _context: door.wait())
        async with rig.working(consumer, url=proxy.redirect(broker.url), heartbeat=1) as worker:
            sent = [await rig.publish() for _ in range(15)]
            await until(lambda: len(calls.begun) == 10, "a prefetch is begun")
            proxy.refuse()
            FAULTS[fault](proxy)
            sent += [await rig.publish() for _ in range(15)]
            await until(lambda: {event.purpose for event in rig.told(ConnectionLost)} == {"consume", "publish"}, "lost")
            assert not worker.ready
            proxy.resume()
            door.set()
            await until(lambda: worker.ready, "the worker is ready again")
            await until(lambda: set(calls.handled) >= set(sent), "all are handled")
            await until(lambda: len(rig.settled()) == len(calls.begun), "all are settled")

        handled = Counter(calls.handled)
        assert set(handled) == set(sent)
        # what was begun when the connection failed could not be acked, and comes again: no more than that
        assert handled.total() <= len(sent) + 10
        assert await rig.ledger() == {}
