"""Migrating queues of real brokers while they are used, killed and gone on with."""

import signal

import pytest

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Queue
from amqpkit.operate.migrate.report import Report
from amqpkit.operate.survey import survey
from tests.broker.migrate.rig import NAME, WANTED, Migrations, in_use
from tests.broker.migrate.victim import Notes

CLASSIC = Queue(NAME, "classic", arguments={"x-queue-type": "classic"})


@pytest.fixture
def migrations(broker, tmp_path):
    here = Migrations(broker, tmp_path / "notes")
    yield here
    here.close()


@pytest.fixture
def notes(tmp_path):
    return Notes(tmp_path / "notes")


async def nothing_left(admin):
    plan, actual = await survey(compile_topology(parse([("test.yaml", WANTED)], {})), admin)
    assert (plan.changes, plan.obstacles, plan.extras) == ((), (), ())
    assert sorted(queue.name for queue in actual.topology.queues) == ["dead", NAME]
    assert sorted(exchange.name for exchange in actual.topology.exchanges) == ["dead", "shop"]
    assert actual.topology.policies == ()


async def test_a_classic_queue_becomes_a_quorum_queue_with_a_dead_letter_exchange_while_it_is_used(broker, migrations):
    async with in_use(broker, CLASSIC, backlog=300) as (people, admin):
        async with people.at_work():
            report = await migrations.run()
        assert isinstance(report, Report)
        assert people.uncertain == []
        assert set(people.handled) == set(people.confirmed)
        assert people.doubled <= report.duplicates <= 60
        assert report.moved_back > 100
        assert (report.left, report.runs) == (0, 1)
        assert {origin for origin, _ in people.origins} == {"shop"}
        assert {key for _, key in people.origins} == {"order.new", "refund"}
        await nothing_left(admin)


async def test_killed_after_every_step_and_run_again_nothing_is_lost(broker, migrations, notes):
    async with in_use(broker, CLASSIC, backlog=300) as (people, admin):
        async with people.at_work():
            killed = [await migrations.run(kill_at_message=30)]
            report = None
            while not isinstance(report := await migrations.run(kill_before_step=3), Report):
                killed.append(report)
                assert len(killed) < 40
        assert set(killed) == {-signal.SIGKILL}
        assert len(killed) > 10
        assert set(people.handled) - set(people.uncertain) == set(people.confirmed)
        assert people.doubled <= report.duplicates
        assert {"Move", "Rebind", "DeleteOld", "DeclareNew", "DeleteHolding"} <= set(notes.read())
        await nothing_left(admin)
