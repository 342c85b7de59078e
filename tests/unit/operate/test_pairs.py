"""Any topology after any other: what is applied is there, whatever was there before."""

import asyncio
import os

import pytest
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

PAIRS = int(os.environ.get("AMQPKIT_PAIRS", "2000"))
"""Over all four tests; more by command: `AMQPKIT_PAIRS=50000 pytest tests/unit/operate/test_pairs.py`."""
IN_A_ROW = 4
"""Pairs for each vhost: what one topology has left is what the next one finds."""


async def at_once(_seconds):
    """Let no time pass."""


async def change(topology, admin, wishes, pruning):
    """Apply what is not blocked, and give what was wanted in the end."""
    plan, _ = await survey(topology, admin, wishes)
    wanted = without_blocked(topology, plan)
    if plan.replaces:  # what stands in the way of the rest
        plan, _ = await survey(wanted, admin, wishes)
    wishes = Wishes(wishes.prune, frozenset(each.name for each in plan.obstacles))
    await apply(wanted, admin, wishes=wishes, pruning=pruning)
    return wanted, wishes


async def applied_one_after_the_other(chain, admin, pruning, *, prune):
    """Check the property for each pair of neighbours."""
    await change(chain[0], admin, Wishes(), pruning)
    for topology in chain[1:]:
        await applied_over_the_last(topology, admin, pruning, prune=prune)


async def applied_over_the_last(topology, admin, pruning, *, prune):
    """Check the property for one pair."""
    wanted, wishes = await change(topology, admin, Wishes(prune=prune), pruning)

    plan, actual = await survey(wanted, admin, wishes)
    assert (plan.changes, plan.obstacles) == ((), ())
    assert plan.unchanged == sum(map(len, (wanted.queues, wanted.exchanges, wanted.bindings, wanted.policies)))
    if prune:
        assert plan.extras == ()
        assert (await apply(wanted, admin, wishes=wishes, pruning=pruning)).changed == 0
    drift = find_drift(wanted, actual, wishes.accepted).summary
    assert (drift["missing"], drift["changed"], drift["tightened"]) == (0, 0, 0)
    assert drift["extra"] == len(plan.extras) + sum(1 + len(each.parts) for each in plan.kept)
    assert make_plan(wanted, actual, wishes) == plan


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("version", ["4.3", "4.0"])
def test_applying_one_and_then_another_leaves_an_empty_plan(version, prune):
    @given(st.lists(topologies(), min_size=IN_A_ROW + 1, max_size=IN_A_ROW + 1))
    @settings(
        max_examples=PAIRS // (4 * IN_A_ROW),
        suppress_health_check=[HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.too_slow],
    )
    def pairs(chain):
        admin = MemoryAdmin(MemoryBroker(VirtualClock(), version=version))
        pruning = Pruning(admin, sleep=at_once)
        asyncio.run(applied_one_after_the_other(chain, admin, pruning, prune=prune))

    pairs()
