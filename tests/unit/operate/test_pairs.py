"""Any topology after any other: what is applied is there, whatever was there before."""

import asyncio
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.declare.plan.drift import find_drift
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.operate.apply import apply
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from tests.fuzz.topologies import topologies, without_blocked

EXAMPLES = int(os.environ.get("AMQPKIT_PAIRS", "2000"))
"""More by command: `AMQPKIT_PAIRS=50000 pytest tests/unit/operate/test_pairs.py`."""


async def at_once(_seconds):
    """Let no time pass."""


async def change(topology, admin, wishes, pruning):
    """Apply what is not blocked, and give what was wanted in the end."""
    plan, _ = await survey(topology, admin, wishes)
    wanted = without_blocked(topology, plan)
    plan, _ = await survey(wanted, admin, wishes)  # what stands in the way of that
    wishes = Wishes(wishes.prune, frozenset(each.name for each in plan.obstacles))
    await apply(wanted, admin, wishes=wishes, pruning=pruning)
    return wanted, wishes


async def applied_one_after_the_other(first, second, admin, pruning, *, prune):
    """Check the property for one pair."""
    await change(first, admin, Wishes(), pruning)
    wanted, wishes = await change(second, admin, Wishes(prune=prune), pruning)

    plan, actual = await survey(wanted, admin, wishes)
    assert (plan.changes, plan.obstacles) == ((), ())
    assert plan.unchanged == sum(map(len, (wanted.queues, wanted.exchanges, wanted.bindings, wanted.policies)))
    if prune:
        assert plan.extras == ()
        assert (await apply(wanted, admin, wishes=wishes, pruning=pruning)).changed == 0
    drift = find_drift(wanted, actual, wishes.accepted).summary
    assert (drift["missing"], drift["changed"], drift["tightened"]) == (0, 0, 0)
    assert drift["extra"] == len(plan.extras) + len(plan.kept)
    assert make_plan(wanted, actual, wishes) == plan


@given(topologies(), topologies(), st.sampled_from(["4.3", "4.0"]), st.booleans())
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_applying_one_and_then_another_leaves_an_empty_plan(first, second, version, prune):
    admin = MemoryAdmin(MemoryBroker(VirtualClock(), version=version))
    pruning = Pruning(admin, sleep=at_once)
    asyncio.run(applied_one_after_the_other(first, second, admin, pruning, prune=prune))
