"""Creating over AMQP: the same objects, and the same refusals, as one by one over the management API."""

import asyncio

import pytest

from amqpkit.brokers.aio.declarer import AioDeclarer
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.load import load_topology
from amqpkit.errors import Refused
from amqpkit.model import Binding, Exchange, Policy, Queue
from amqpkit.operate.apply import apply
from amqpkit.operate.survey import survey
from tests.broker.apply.test_apply import FULL, NAMES


class Counting(ManagementAdmin):
    """Counts what is left to the management API."""

    created = 0

    async def create(self, wanted):
        self.created += 1
        await super().create(wanted)


@pytest.fixture
async def admin(broker):
    async with Counting(broker.api, vhost=broker.vhost) as here:
        yield here


@pytest.fixture
async def declarer(broker, admin):
    here = await AioDeclarer.open(admin, BrokerURL.parse(broker.url), "test")
    yield here
    await here.close()


def queue(name, kind="quorum", **arguments):
    return Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments})


async def test_a_topology_is_made_over_amqp_but_for_its_policies(admin, declarer):
    topology = load_topology(FULL)

    report = await apply(topology, declarer)

    assert admin.created == len(topology.policies)
    assert len(report.created) == sum(
        map(len, (topology.exchanges, topology.queues, topology.bindings, topology.policies))
    )
    plan, _ = await survey(topology, admin)
    assert plan.changes == ()


async def test_every_property_and_name_arrives(admin, declarer):
    exchanges = [
        Exchange("x", "topic", durable=False, auto_delete=True, internal=True, arguments={"alternate-exchange": "y"}),
        Exchange("y", "headers"),
    ]
    queues = [
        queue("t", "classic", **{"x-max-length": 2**40, "x-single-active-consumer": True, "x-overflow": "drop-head"}),
        Queue("short", "classic", auto_delete=True, arguments={"x-queue-type": "classic"}),
        queue("s", "stream", **{"x-max-age": "7D"}),
        *map(queue, NAMES),
    ]
    bindings = [Binding("x", "y", "k", "exchange"), *(Binding("y", name, name) for name in NAMES)]
    bindings += [Binding("y", "t", "", arguments={"n": 1}), Binding("y", "t", "", arguments={"n": "1"})]
    for each in (*exchanges, *queues, *bindings):
        await declarer.create(each)

    there = await admin.read()

    assert set(map(repr, there.exchanges)) == set(map(repr, exchanges_as_read(exchanges)))
    assert {each.name: (each.type, dict(each.arguments), each.auto_delete) for each in there.queues} == {
        each.name: (each.type, dict(each.arguments), each.auto_delete) for each in queues
    }
    assert len(there.bindings) == len(bindings)
    assert admin.created == 2  # the bindings with arguments


def exchanges_as_read(exchanges):
    from types import MappingProxyType

    return [
        Exchange(
            each.name, each.type, each.durable, each.auto_delete, each.internal, MappingProxyType({**each.arguments})
        )
        for each in exchanges
    ]


async def test_a_refusal_is_the_management_apis_own_and_hinders_no_other(admin, declarer):
    await declarer.create(queue("jobs", "classic"))

    with pytest.raises(Refused) as refused:
        await declarer.create(queue("jobs", "quorum"))
    await asyncio.gather(*(declarer.create(queue(f"q{number}", "classic")) for number in range(20)))

    assert admin.created == 1
    with pytest.raises(Refused, match="RabbitMQ's own"):
        await declarer.create(queue("amq.mine"))
    assert (refused.value.argument, refused.value.wanted, refused.value.actual) == ("x-queue-type", "quorum", "classic")
    assert {each.name for each in (await admin.read()).queues} == {"jobs", *(f"q{number}" for number in range(20))}


async def test_a_connection_that_is_lost_on_the_way_is_made_up_for(admin, declarer):
    """4.3 closes the connection for what it denies; here it is cut."""
    await declarer.create(queue("a", "classic"))
    await declarer.close()

    await declarer.create(queue("b", "classic"))
    await declarer.create(Policy("p", "^a$", {"max-length": 1}, "queues", 0))

    there = await admin.read()
    assert {each.name for each in there.queues} == {"a", "b"}
    assert admin.created == 2


async def test_what_ends_the_connection_is_told_with_the_queues_name_and_the_others_are_made(broker, admin, declarer):
    """4.3 answers this argument with 541 and hangs up, as every broker does that denies transient queues."""
    denied = queue("odd", "classic", **{"x-queue-master-locator": "min-masters"})
    told = await asyncio.gather(
        *(declarer.create(each) for each in (queue("a"), denied, queue("b"))), return_exceptions=True
    )

    await declarer.create(queue("c"))
    there = {each.name for each in (await admin.read()).queues}
    if broker.release >= (4, 3):
        assert isinstance(told[1], Refused)
        assert str(told[1]).startswith("queue odd: ")
        assert "queue_master_locator" in str(told[1])
        assert there == {"a", "b", "c"}
    else:
        assert there == {"a", "b", "c", "odd"}
    assert (told[0], told[2]) == (None, None)
