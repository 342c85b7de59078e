"""Any topology after any other, where what is blocked is migrated and not left out."""

import asyncio
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.declare.plan.planning import Wishes
from amqpkit.model import Message, Properties, Queue
from amqpkit.operate.apply import apply
from amqpkit.operate.migrate.prepare import prepare
from amqpkit.operate.migrate.run import Tools, migrate
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from tests.fuzz.topologies import topologies, without_blocked

PAIRS = int(os.environ.get("AMQPKIT_MIGRATED_PAIRS", "250"))
"""Over both tests; more by command: `AMQPKIT_MIGRATED_PAIRS=5000 pytest tests/unit/operate/migrate/test_pairs.py`."""


async def at_once(_seconds):
    for _ in range(8):
        await asyncio.sleep(0)


async def wishes_for(topology, admin):
    """Accept whatever other policies rule."""
    plan, _ = await survey(topology, admin)
    return Wishes(accepted=frozenset(each.name for each in plan.obstacles))


async def one_after_the_other(first, second, broker):
    admin, transport = MemoryAdmin(broker), MemoryTransport(broker)
    await transport.open()
    await apply(first, admin, wishes=await wishes_for(first, admin))
    plan, _ = await survey(second, admin)
    # Exchanges are not migrated, and what they would become may take other bindings.
    kept = [change for change in plan.replaces if not isinstance(change.wanted, Queue)]
    second = without_blocked(second, replace(plan, replaces=tuple(kept)))
    queues = [change.wanted.name for change in plan.replaces if isinstance(change.wanted, Queue)]
    for name in queues:
        await transport.publish("", name, Message(b"x", Properties(message_id=name)), mandatory=False)
    for name in queues:
        prospect = await prepare(name, second, admin, await wishes_for(second, admin))
        before = broker.depth(name)
        report = await migrate(prospect.migration, Tools(admin, Pruning(admin, at_once), transport))
        assert report.moved_in == report.moved_back == before
    await apply(second, admin, wishes=await wishes_for(second, admin))

    plan, actual = await survey(second, admin, await wishes_for(second, admin))
    assert (plan.changes, plan.obstacles) == ((), ())
    names = {each.name for each in (*actual.topology.queues, *actual.topology.exchanges, *actual.topology.policies)}
    assert not [name for name in names if "migrating" in name or "fence" in name]
    await transport.close()


@pytest.mark.parametrize("version", ["4.3", "4.0"])
def test_migrating_what_is_blocked_and_applying_the_rest_leaves_an_empty_plan(version):
    @given(topologies(), topologies())
    @settings(max_examples=PAIRS // 2, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
    def pairs(first, second):
        asyncio.run(one_after_the_other(first, second, MemoryBroker(VirtualClock(), version=version)))

    pairs()
