"""Planning ten thousand queues from recorded listings is quick, and twice as many take about twice as long."""

import time

from amqpkit.brokers.management import wire
from amqpkit.declare.naming import pattern
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology


def wanted(count):
    names = [f"team.{number % 50}.job.{number}" for number in range(count)]
    return Topology(
        exchanges=(Exchange("events", "topic"),),
        queues=tuple(
            Queue(name, arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "events", "x-delivery-limit": 9})
            for name in names
        ),
        bindings=tuple(Binding("events", name, f"{name}.{key}") for name in names for key in ("a", "b")),
        policies=tuple(Policy(f"p.{name}", pattern(name), {"max-length": 1000}) for name in names[::2]),
        owns=("team",),
    )


def recorded(topology):
    """Give the listings that the management API would answer."""
    queues = [
        {
            "name": each.name,
            "type": each.type,
            "durable": True,
            "auto_delete": False,
            "exclusive": False,
            "arguments": dict(each.arguments),
        }
        for each in topology.queues
    ]
    bindings = [
        {
            "source": each.source,
            "destination": each.destination,
            "destination_type": "queue",
            "routing_key": each.routing_key,
            "arguments": {},
        }
        for each in topology.bindings
    ]
    policies = [
        {
            "name": each.name,
            "pattern": each.pattern,
            "definition": dict(each.definition),
            "apply-to": each.apply_to,
            "priority": each.priority,
        }
        for each in topology.policies
    ]
    return queues, bindings, policies


def read(listings, topology):
    queues, bindings, policies = listings
    return Topology(
        exchanges=topology.exchanges,
        queues=tuple(map(wire.queue, queues)),
        bindings=tuple(map(wire.binding, bindings)),
        policies=tuple(map(wire.policy, policies)),
    )


def seconds(count):
    """Plan what is there, then other policies for all, then half of it with prune; give the slowest."""
    topology = wanted(count)
    listings = recorded(topology)
    changed = Topology(
        topology.exchanges,
        topology.queues,
        topology.bindings,
        tuple(Policy(each.name, each.pattern, {"max-length": 5}) for each in topology.policies),
        owns=("team",),
    )
    half = Topology(topology.exchanges, topology.queues[: count // 2], topology.bindings[:count], owns=("team",))
    spent = []
    for want, wishes, changes in (
        (topology, Wishes(), 0),
        (changed, Wishes(), count // 2),
        (half, Wishes(prune=True), None),
    ):
        began = time.process_time()
        plan = make_plan(want, Actual(read(listings, topology)), wishes)
        spent.append(time.process_time() - began)
        assert changes is None or len(plan.changes) == changes
    return max(spent)


def test_ten_thousand_queues_with_twenty_thousand_bindings_take_a_second():
    seconds(500)  # warm up
    small, large = min(seconds(2_500) for _ in range(2)), seconds(10_000)

    # bounds that only something else than linear breaks: four times as much, and a square would be sixteen
    assert large < 4
    assert large < 12 * small
