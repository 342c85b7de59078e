"""Deleting queues on real brokers while others use them: no message goes along."""

import asyncio
import itertools
import logging
import threading
from urllib.parse import quote

import pika
import pytest

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.plan.planning import Wishes
from amqpkit.errors import Locked
from amqpkit.model import Binding, Exchange, Holding, Policy, Queue, Topology
from amqpkit.operate.apply import ApplyFailed, apply
from amqpkit.operate.prune import Pruning, prune_queues


@pytest.fixture
def channel(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    if connection.is_open:
        connection.close()


def queue(kind="quorum", name="old/ü%", **arguments):
    return Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments})


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "pika")  # it writes a line for each nack


def confirmed(channel, name, message_id):
    try:
        channel.basic_publish("", name, message_id.encode(), mandatory=True)
    except (pika.exceptions.NackError, pika.exceptions.UnroutableError):
        return False
    return True


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_an_empty_queue_goes_and_one_with_a_message_stays_as_it_was(admin, sentry, channel, kind):
    await admin.create(queue(kind))
    assert confirmed(channel, "old/ü%", "m")

    assert not await sentry.delete_empty(queue(kind))

    async with asyncio.timeout(10):  # what was looked at is on its way back for a moment
        while await sentry.look("old/ü%") != Holding(1, 0):  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)
    _, _, body = channel.basic_get("old/ü%", auto_ack=True)
    assert body == b"m"
    assert await sentry.delete_empty(queue(kind))
    assert await sentry.look("old/ü%") is None


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_queue_with_a_consumer_stays(admin, sentry, channel, kind):
    await admin.create(queue(kind))
    channel.basic_consume("old/ü%", lambda *_: None)

    assert not await sentry.delete_empty(queue(kind))
    assert await sentry.look("old/ü%") == Holding(0, 1)


@pytest.mark.parametrize("begins", [1, 2], ids=["before the fence", "behind the fence"])
@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_queue_that_somebody_publishes_to_stays_with_every_confirmed_message(
    broker, admin, sentry, kind, begins
):
    """Whoever publishes through the default exchange can be unbound by nobody."""
    sent, stop, pauses = [], threading.Event(), []

    def publish():
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for number in itertools.count():
            if confirmed(channel, "old/ü%", str(number)):
                sent.append(number)
            if stop.is_set():
                break
        connection.close()

    publisher = threading.Thread(target=publish)

    async def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == begins:
            publisher.start()
        await asyncio.sleep(0.3)

    idle = queue(kind, "old+(ü)|")
    await admin.create(queue(kind))
    await admin.create(idle)
    try:
        gone, staying = await prune_queues([queue(kind), idle], admin, Pruning(sentry, sleep=pause))
    finally:
        stop.set()
        await asyncio.to_thread(publisher.join)

    assert gone == [idle]  # behind the same fence
    assert "it stays" in str(staying[0][1])
    assert await sentry.look("old/ü%") == Holding(len(sent), 0)
    assert (await admin.read()).policies == ()


NAMES = ("a/b", "a%2Fb", "50%", "x?y#z", "a b", "a;b", "a.b.c", "очередь", "~", "a+b", "it's", '"', "(a|b)", "-x", ".")


async def test_any_name_is_pruned_in_a_vhost_of_any_name(broker):
    """All but what the management API cannot address, which stays and hinders nothing."""
    vhost = f"{broker.vhost}/ü 50%"
    place = quote(vhost, safe="")
    broker.http("PUT", f"vhosts/{place}", {})
    url = f"{broker.url.rpartition('/')[0]}/{place}"
    mine = Topology(
        exchanges=tuple(Exchange(f"x{name}", "topic") for name in NAMES),
        queues=tuple(queue(kind, name) for name, kind in zip(NAMES, itertools.cycle(("quorum", "classic")))),
        bindings=tuple(Binding(f"x{name}", name, name) for name in NAMES),
        policies=(Policy("a/b", "^nobody$", {"max-length": 1}, "queues", 0),),
    )
    owns = Topology(owns=(*NAMES, *(f"x{name}" for name in NAMES)))
    try:
        sentry = await AioSentry.open(BrokerURL.parse(url), "amqpkit tests")
        async with ManagementAdmin(broker.api, vhost=vhost) as admin:
            await apply(mine, admin)
            report = await apply(owns, admin, wishes=Wishes(prune=True), pruning=Pruning(sentry, sleep=briefly))
            there = await admin.read()
        await sentry.close()
    finally:
        broker.http("DELETE", f"vhosts/{place}")

    assert [each.name for each in there.queues] == ["."]
    assert [each.name for each in there.exchanges] == ["x."]
    assert (there.bindings, there.policies) == ((Binding("x.", ".", "."),), ())
    assert {each.address for each in report.kept} == {"queue .", "binding x. -.-> queue .", "exchange x."}


async def briefly(_seconds):
    """Wait until a policy rules, for queues that nobody uses."""
    await asyncio.sleep(0.3)


async def test_two_cannot_hold_the_lock_and_a_crash_frees_it(broker, sentry, channel):
    channel.queue_declare("amqpkit.lock", exclusive=True, arguments={"x-queue-type": "classic"})
    with pytest.raises(Locked, match="somebody else is changing this vhost"):
        await sentry.lock()

    channel.connection.close()
    await sentry.lock()
    assert sentry.trouble is None

    second = await AioSentry.open(BrokerURL.parse(broker.url), "amqpkit tests")
    with pytest.raises(Locked):
        await second.lock()
    await second.close()


async def test_a_broker_that_dies_behind_the_fence_keeps_every_queue_and_the_next_prune_finishes(own_broker):
    old = [queue("classic", "old.classic")]
    if own_broker.release >= (4, 3):  # 4.0 loses a quorum queue that was made seconds before it is killed: it nacks
        old.append(queue(name="old.quorum"))
    owns, wishes = Topology(owns=("old",)), Wishes(prune=True)
    pauses = []

    async def die_behind_the_fence(_seconds):
        pauses.append(None)
        if len(pauses) == 2:
            await asyncio.to_thread(own_broker.kill)

    async with ManagementAdmin(own_broker.api, vhost=own_broker.vhost, timeout=5) as admin:
        for each in old:
            await admin.create(each)
        here = await AioSentry.open(BrokerURL.parse(own_broker.url), "amqpkit tests")
        with pytest.raises(ApplyFailed) as caught:
            await apply(owns, admin, wishes=wishes, pruning=Pruning(here, sleep=die_behind_the_fence))
        await here.close()

        assert caught.value.touched
        assert caught.value.report.deleted == ()
        told = "\n".join(caught.value.reasons)
        for each in old:
            assert f"queue {each.name}: " in told
            assert f"policy amqpkit.fence.{each.name}: " in told  # of each type one

        await asyncio.to_thread(own_broker.start)
        there = await admin.read()
        assert ({each.name for each in there.queues}, len(there.policies)) == ({each.name for each in old}, len(old))
        here = await AioSentry.open(BrokerURL.parse(own_broker.url), "amqpkit tests")
        await apply(owns, admin, wishes=wishes, pruning=Pruning(here, sleep=briefly))
        await here.close()
        there = await admin.read()
        assert (there.queues, there.policies) == ((), ())
