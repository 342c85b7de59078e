"""Reading RabbitMQ's definitions: which vhost, what is missing, what is wrong, what is not for a topology file."""

import pytest

from amqpkit.declare.importing.definitions import read
from amqpkit.errors import AmqpkitError, TopologyError
from amqpkit.model import Binding, Exchange, Policy, Queue

CLUSTER = {
    "rabbitmq_version": "4.3.6",
    "rabbitmq_definition_format": "cluster",
    "vhosts": [{"name": "/"}, {"name": "shop", "limits": {"max-queues": 9}, "metadata": {"description": "the shop"}}],
    "users": [{"name": "ann", "password_hash": "hash-of-ann"}],
    "queues": [{"name": "a", "vhost": "/"}, {"name": "b", "vhost": "shop"}],
    "parameters": [
        {"component": "shovel", "name": "s", "vhost": "shop", "value": {"src-uri": ["amqp://u:shovel-secret@h"]}},
        {"component": "operator_policy", "name": "cap", "vhost": "shop", "value": {}},
        {"component": "vhost-limits", "name": "limits", "vhost": "shop", "value": {}},
        {"component": "shovel", "name": "other", "vhost": "/", "value": {}},
    ],
}


def test_what_is_missing_has_rabbitmqs_default():
    document = {
        "exchanges": [{"name": "x", "type": "topic"}],
        "queues": [{"name": "q"}],
        "bindings": [{"source": "x", "destination": "q"}, {"source": "", "destination": "q", "routing_key": "q"}],
        "policies": [{"name": "p", "pattern": ".*", "definition": {"max-length": 1}}],
    }

    there = read(document, "f").topology

    assert there.exchanges == (Exchange("x", "topic"),)
    assert there.queues == (Queue("q", "classic", arguments={"x-queue-type": "classic"}),)
    assert there.bindings == (Binding("x", "q"),)
    assert there.policies == (Policy("p", ".*", {"max-length": 1}, "all", 0),)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"type": "quorum"}, "quorum"),
        ({"arguments": {"x-queue-type": "stream"}}, "stream"),
        ({"arguments": []}, "classic"),
        ({}, "classic"),
    ],
)
def test_a_queues_type_is_its_arguments_or_its_own_word_or_classic(item, kind):
    assert read({"queues": [{"name": "q", **item}]}, "f").topology.queues[0].type == kind


@pytest.mark.parametrize(("said", "kind"), [("quorum", "quorum"), ("undefined", "classic"), (None, "classic")])
def test_a_queue_without_a_type_has_the_vhosts_default(said, kind):
    document = {"metadata": {"default_queue_type": said}, "queues": [{"name": "q"}]}

    assert read(document, "f").topology.queues[0].type == kind


def test_of_several_vhosts_one_must_be_chosen():
    with pytest.raises(AmqpkitError, match='f has several vhosts: "/", "shop"; say which with --vhost'):
        read(CLUSTER, "f")
    with pytest.raises(AmqpkitError, match='f has no vhost "shp"; it has "/", "shop"'):
        read(CLUSTER, "f", "shp")


def test_the_chosen_vhost_brings_its_own_and_no_other():
    found = read(CLUSTER, "f", "shop")

    assert [queue.name for queue in found.topology.queues] == ["b"]
    assert {note.subject: note.message for note in found.notes} == {
        "users": "ann: not managed here",
        "operator policy cap": "not managed here; where it reaches queues of the file, plan wants --accept-policy cap",
        "shovel parameters": "s: not managed here",
        "vhost limits": "not managed here",
        "the vhost's description": "not managed here",
        "the definitions file": "it holds secrets, of which nothing was taken over: parameters.shovel.src-uri, "
        "users.password_hash; keep it out of repositories",
    }
    assert "secret@" not in repr(found)
    assert "hash-of-ann" not in repr(found)


def test_a_file_of_one_vhost_names_it_once():
    document = {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": "shop", "queues": []}

    assert read(document, "f").topology.vhost == "shop"
    with pytest.raises(AmqpkitError, match='f has no vhost "other"; it has "shop"'):
        read(document, "f", "other")


@pytest.mark.parametrize("document", [[], "text", 5, None, {}, {"version": 1, "work_queues": {}}])
def test_what_is_no_definitions_file_is_said_to_be_none(document):
    with pytest.raises(TopologyError, match=r"^some\.json: not a definitions file of RabbitMQ"):
        read(document, "some.json")


def test_every_fault_is_told_at_its_place_and_no_value_is_shown():
    document = {
        "exchanges": [{"name": 5, "durable": "secret"}],
        "queues": [{"arguments": "secret"}, {"name": "fine"}],
        "bindings": [{"source": "x", "destination": "q", "destination_type": "shelf"}],
        "policies": [{"name": "p", "pattern": ".*", "definition": {"a": 1}, "priority": True}],
    }

    with pytest.raises(TopologyError) as caught:
        read(document, "f")

    assert str(caught.value).splitlines() == [
        "f: exchanges[0].name: expected text",
        "f: exchanges[0].durable: expected true or false",
        "f: queues[0].arguments: expected an object",
        "f: queues[0]: has no name",
        "f: bindings[0].destination_type: neither queue nor exchange",
        "f: policies[0].priority: expected a whole number",
    ]


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"queues": {"name": "q"}}, "queues: expected a list"),
        ({"users": [1], "queues": []}, r"users\[0\]: expected an object"),
    ],
)
def test_a_section_of_the_wrong_shape_is_told(document, fault):
    with pytest.raises(TopologyError, match=fault):
        read(document, "f")
