"""Migrating a queue in memory, under its people's hands, killed before every effect."""

import asyncio

import pytest

from amqpkit.declare.identity import identity
from amqpkit.operate.survey import survey
from tests.unit.operate.migrate.mortal import BINDINGS, NAME, World, classic, quorum, topology


def world(old=None, wanted=None, **options):
    return World(old or classic(), topology(wanted or quorum()), **options)


async def settled(here, report):
    """Check that all is as wanted, nothing is lost, and no more is there twice than was said."""
    plan, actual = await survey(here.wanted, here.admin)
    assert (plan.changes, plan.obstacles, plan.extras) == ((), (), ())
    assert [each.name for each in actual.topology.queues] == [NAME]
    assert [each.name for each in actual.topology.exchanges] == ["x"]
    assert {identity(each) for each in actual.topology.bindings} == {identity(each) for each in BINDINGS}
    assert actual.topology.policies == ()
    handled = here.everything()
    assert here.people.refused == []
    assert set(handled) == set(here.people.confirmed)
    doubled = handled.total() - len(handled)
    assert doubled <= report.duplicates
    return doubled


@pytest.mark.parametrize("version", ["4.3", "4.0"])
@pytest.mark.parametrize(
    ("old", "wanted"),
    [
        (classic(), quorum()),
        (quorum(), quorum(**{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "elsewhere"})),
        (classic(**{"x-overflow": "drop-head"}), quorum()),
        (quorum(), classic(**{"x-max-priority": 5})),
    ],
)
async def test_a_queue_becomes_another_while_it_is_used(version, old, wanted):
    here = world(old, wanted, backlog=300, version=version)

    report, _ = await here.migrate()

    assert report.moved_in > 200
    assert report.moved_back >= report.moved_in
    assert (report.left, report.runs) == (0, 1)
    assert await settled(here, report) <= report.duplicates <= 20
    assert here.people.cancels == 1


async def test_what_is_as_wanted_is_left_alone():
    here = world(quorum())
    report, effects = await here.migrate()
    assert (effects, report.moved_in, here.steps) == (0, 0, [])


def test_killed_before_any_effect_and_run_again_nothing_is_lost():
    async def life(effects):
        here = world()
        report, used = await here.migrate(effects)
        if report is None:
            report, _ = await here.migrate()
        await settled(here, report)
        return used

    total = asyncio.run(life(None))
    assert total > 40
    for effects in range(total):
        assert asyncio.run(life(effects)) == effects
