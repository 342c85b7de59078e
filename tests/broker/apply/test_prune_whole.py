"""A work queue that turns out to be in use is left whole: its worker's retries still have a place to go to."""

import asyncio
from dataclasses import replace

import pika
import pytest

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.identity import address
from amqpkit.declare.plan.planning import Wishes
from amqpkit.declare.spec.parsing import parse
from amqpkit.deliver.publisher import Publisher
from amqpkit.model import Route
from amqpkit.operate.apply import ApplyFailed, apply
from amqpkit.operate.prune import Pruning
from tests.broker.life.notes import Note
from tests.broker.life.rig import ONE_QUEUE, applied, handling, until

WITHOUT = compile_topology(parse([("test.yaml", "version: 1\nowns: [work]\nexchanges: {events: {type: topic}}")], {}))
PRUNE = Wishes(prune=True)


def objects(there):
    return {address(each) for each in (*there.queues, *there.exchanges, *there.bindings, *there.policies)}


async def briefly(_seconds):
    """Wait until a policy rules; nobody's statistics are waited for."""
    await asyncio.sleep(0.3)


class Stale:
    """An admin whose statistics have not yet seen what queues hold."""

    def __init__(self, admin):
        self._admin = admin

    def __getattr__(self, name):
        return getattr(self._admin, name)

    async def surroundings(self):
        return await self._admin.surroundings()

    async def holdings(self, _queues):
        return {}


async def works(rig, message_id):
    """Let a worker fail on the message that is there, and on one through the exchange; each is retried and handled."""
    consumer, calls = handling("work")
    async with rig.working(consumer):
        second = await rig.publish(failures=2)
        await until(lambda: set(calls.handled) == {message_id, second}, "both are handled")
    assert (calls.attempts(message_id), calls.attempts(second)) == ([1, 2], [1, 2, 3])
    assert await rig.ledger() == {}


@pytest.mark.parametrize("pause", [0, 1, 2], ids=["before", "between two looks", "behind the fence"])
async def test_a_message_at_the_last_moment_leaves_a_work_queue_that_works(broker, admin, sentry, pause):
    """At the last moment it comes past the exchange, for the queue is unbound; nobody has counted it when planning."""
    async with applied(broker, ONE_QUEUE) as rig:
        before = objects(await admin.read())
        direct = Publisher(replace(rig.topology, routes={"note": Route("", "work")}), rig.transport)
        came = [await direct.publish(Note(failures=1))] if pause == 0 else []
        pauses = []

        async def wait(seconds):
            pauses.append(seconds)
            if len(pauses) == pause:
                came.append(await direct.publish(Note(failures=1)))
            await briefly(seconds)

        with pytest.raises(ApplyFailed, match=r"queue work: .*it stays") as caught:
            await apply(WITHOUT, Stale(admin), wishes=PRUNE, pruning=Pruning(sentry, sleep=wait))

        assert caught.value.report.deleted == ()
        assert objects(await admin.read()) == before
        await works(rig, came[0])


@pytest.mark.parametrize("holder", ["work", "work.retry.900ms", "work.dlq"])
async def test_what_is_counted_when_planning_leaves_a_work_queue_that_works(broker, admin, sentry, holder):
    """A consumer holds it: of a delay queue that would be a stranger's, who hinders nobody."""
    async with applied(broker, ONE_QUEUE) as rig:
        before = objects(await admin.read())
        connection = await asyncio.to_thread(pika.BlockingConnection, pika.URLParameters(broker.url))
        connection.channel().basic_consume(holder, lambda *_: None)

        async def counted():
            return (await admin.holdings([holder]))[holder].consumers == 1

        await until(counted, "the statistics have it")
        report = await apply(WITHOUT, admin, wishes=PRUNE, pruning=Pruning(sentry, sleep=briefly))

        (kept,) = report.kept
        named = "" if holder == "work" else f"queue {holder}: "
        assert (kept.address, kept.reason) == ("queue work", f"{named}it has 1 consumer; a work queue stays whole")
        assert (report.changed, objects(await admin.read())) == (0, before)
        await asyncio.to_thread(connection.close)
        await works(rig, await rig.publish(failures=1))


async def test_one_that_nobody_uses_goes_with_all_of_its_parts(broker, admin, sentry):
    async with applied(broker, ONE_QUEUE):
        await apply(WITHOUT, admin, wishes=PRUNE, pruning=Pruning(sentry, sleep=briefly))

        assert objects(await admin.read()) == {"exchange events"}
