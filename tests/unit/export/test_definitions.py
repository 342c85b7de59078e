"""Definitions: sorted, of one vhost or of a cluster, and read back as what they were written from."""

import json
from pathlib import Path

from hypothesis import given, settings

from amqpkit.declare.export.definitions import definitions
from amqpkit.declare.importing.definitions import read
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.model import Binding, Policy, Queue, Topology
from tests.fuzz.topologies import topologies

FULL = Path(__file__).parents[1] / "declare" / "full.yaml"


def test_objects_are_sorted_and_nothing_else_is_there():
    document = definitions(load_topology(FULL))

    assert list(document) == ["exchanges", "queues", "bindings", "policies"]
    for section in ("exchanges", "queues", "policies"):
        names = [item["name"] for item in document[section]]
        assert names == sorted(names)
    assert all("x-queue-type" in queue["arguments"] for queue in document["queues"])
    ends = [(each["source"], each["destination_type"], each["destination"]) for each in document["bindings"]]
    assert ends == sorted(ends)


def test_a_clusters_definitions_name_the_vhost_with_every_object():
    document = definitions(load_topology(FULL), "shop/one")

    assert document["vhosts"] == [{"name": "shop/one"}]
    for section in ("exchanges", "queues", "bindings", "policies"):
        assert {item["vhost"] for item in document[section]} == {"shop/one"}


@settings(deadline=None, max_examples=60)
@given(topologies())
def test_any_topology_survives_its_definitions(topology):
    text = json.dumps(definitions(topology), default=dict)

    there = read(json.loads(text), "f").topology

    plan = make_plan(topology, Actual(there))
    assert (plan.changes, plan.extras) == ((), ())


def test_the_text_does_not_depend_on_the_order_in_which_keys_were_written():
    """A broker lists arguments in an order of its own; kept under version control that would be a difference."""

    def topology(*order):
        values = {"x-max-length": 5, "x-queue-type": "classic", "t": dict.fromkeys(order, 1)}
        arguments = {key: values[key] for key in order}
        return Topology(
            queues=(Queue("q", "classic", arguments=arguments),),
            policies=(Policy("p", "^q$", dict.fromkeys(order, 1)),),
            bindings=(Binding("amq.headers", "q", arguments={key: [1, dict.fromkeys(order, 2)] for key in order}),),
        )

    keys = ("x-max-length", "x-queue-type", "t")

    assert json.dumps(definitions(topology(*keys))) == json.dumps(definitions(topology(*reversed(keys))))
