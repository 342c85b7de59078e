"""Any topology after any other, on real brokers: what is applied is there, and what is pruned is gone."""

import asyncio
import os

from hypothesis import HealthCheck, Phase, given, settings

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.plan.planning import Wishes
from amqpkit.operate.apply import apply
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from tests.fuzz.topologies import topologies, without_blocked

PAIRS = int(os.environ.get("AMQPKIT_BROKER_PAIRS", "8"))
"""On each broker; more by command: `AMQPKIT_BROKER_PAIRS=100 pytest tests/broker/apply/test_pairs.py`."""


async def change(topology, admin, wishes, pruning):
    plan, _ = await survey(topology, admin, wishes)
    wanted = without_blocked(topology, plan)
    plan, _ = await survey(wanted, admin, wishes)  # what stands in the way of that
    wishes = Wishes(wishes.prune, frozenset(each.name for each in plan.obstacles))
    await apply(wanted, admin, wishes=wishes, pruning=pruning)
    return wanted, wishes


async def one_after_the_other(broker, first, second):
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        sentry = await AioSentry.open(BrokerURL.parse(broker.url), "amqpkit tests")
        try:
            pruning = Pruning(sentry, settle=0.2)  # nobody publishes here, so no statistics can be late
            await change(first, admin, Wishes(), pruning)
            wanted, wishes = await change(second, admin, Wishes(prune=True), pruning)
            plan, actual = await survey(wanted, admin, wishes)
            assert (plan.changes, plan.obstacles, plan.extras) == ((), (), ())
            there = actual.topology
            for each in (*there.bindings, *there.queues, *there.policies, *there.exchanges):
                await admin.delete(each)
        finally:
            await sentry.close()


def test_applying_one_and_then_another_leaves_an_empty_plan(broker):
    @given(topologies(), topologies())
    @settings(
        max_examples=PAIRS,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a pair takes a second; shrinking is for the broker in memory
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    def pairs(first, second):
        asyncio.run(one_after_the_other(broker, first, second))

    pairs()
