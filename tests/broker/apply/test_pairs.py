"""Any topology after any other, on real brokers: what is applied is there, and what is pruned is gone."""

import asyncio
import os

from hypothesis import HealthCheck, Phase, given, note, settings

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.plan.planning import Wishes
from amqpkit.model import Topology
from amqpkit.operate.apply import apply
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from tests.fuzz.topologies import topologies, without_blocked

PAIRS = int(os.environ.get("AMQPKIT_BROKER_PAIRS", "24"))
"""On each broker; more by command: `AMQPKIT_BROKER_PAIRS=100 pytest tests/broker/apply/test_pairs.py`."""


async def change(topology, admin, wishes, pruning):
    plan, _ = await survey(topology, admin, wishes)
    wanted = without_blocked(topology, plan)
    plan, _ = await survey(wanted, admin, wishes)  # what stands in the way of that
    wishes = Wishes(wishes.prune, frozenset(each.name for each in plan.obstacles))
    await apply(wanted, admin, wishes=wishes, pruning=pruning)
    return wanted, wishes


async def opened(broker):
    """Open what applying takes; nobody publishes here, so no statistics can be late."""
    admin = ManagementAdmin(broker.api, vhost=broker.vhost)
    sentry = await AioSentry.open(BrokerURL.parse(broker.url), "amqpkit tests")
    return admin, sentry, Pruning(sentry, settle=0.2)


async def applied(topology, admin, pruning):
    """Apply over what the topology before has left, which is exactly that, and look."""
    wanted, wishes = await change(topology, admin, Wishes(prune=True), pruning)
    plan, _ = await survey(wanted, admin, wishes)
    assert (plan.changes, plan.obstacles, plan.extras) == ((), (), ())
    return wanted


def test_applying_one_and_then_another_leaves_an_empty_plan(broker):
    with asyncio.Runner() as runner:
        admin, sentry, pruning = runner.run(opened(broker))
        there = [Topology()]

        @given(topologies())
        @settings(
            max_examples=PAIRS + 1,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # a pair takes its time; shrinking is for the broker in memory
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        def pairs(topology):
            note(f"over {there[-1]}")
            there.append(runner.run(applied(topology, admin, pruning)))

        try:
            pairs()
            assert len(there) > PAIRS
        finally:
            runner.run(sentry.close())
            runner.run(admin.close())
