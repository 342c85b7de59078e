"""What an AsyncAPI document says of a topology, and how payload schemas get into it."""

import pytest

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.export.asyncapi import asyncapi, without_schema
from amqpkit.declare.export.schemas import adapted
from amqpkit.declare.spec.format import Spec

MAIL = {
    "version": 1,
    "vhost": "shop",
    "exchanges": {"mail": {"type": "topic"}, "odd": {"type": "x-random"}},
    "queues": {"plain {x}": {}},
    "work_queues": {
        "email.send": {
            "accepts": ["email.send", "email/urgent"],
            "bindings": [{"source": "mail", "routing_key": "email.#"}],
            "dead_letter": {"owner": "mailers"},
        },
        "jobs": {},
    },
    "messages": {
        "email.send": {"exchange": "mail", "routing_key": "email.{template}.{to}"},
        "event": {"exchange": "odd"},
        "own": {"exchange": "amq.topic", "routing_key": "k"},
    },
}
SCHEMAS = {
    ("email.send", 1): {"type": "object", "description": "Send a mail."},
    ("email.send", 2): {"type": "object"},
    ("jobs", 1): {"type": "object"},
}


@pytest.fixture
def document():
    topology = compile_topology(Spec.model_validate(MAIL))
    return asyncapi(topology, SCHEMAS, title="Mail", version="2.0.0")


def test_a_work_queue_is_received_from_in_every_version_and_its_parts_are_no_channels(document):
    channel = document["channels"]["queue.email.send"]

    assert channel["address"] == "email.send"
    assert list(channel["messages"]) == ["email.send.v1", "email.send.v2", "email_urgent"]
    assert channel["bindings"]["amqp"]["queue"] == {
        "name": "email.send",
        "durable": True,
        "exclusive": False,
        "autoDelete": False,
        "vhost": "shop",
    }
    assert channel["x-amqpkit"] == {
        "queue-type": "quorum",
        "bindings": [{"exchange": "mail", "routing_key": "email.#"}],
        "attempts": 4,
        "dead-letter-queue": "email.send.dlq",
        "owner": "mailers",
    }
    receive = document["operations"]["receive.email.send"]
    assert receive["action"] == "receive"
    assert receive["messages"][0] == {"$ref": "#/channels/queue.email.send/messages/email.send.v1"}
    assert not [name for name in document["channels"] if "retry" in name or "dlq" in name]


def test_a_route_is_sent_to_in_the_newest_version_and_its_placeholders_are_parameters(document):
    channel = document["channels"]["exchange.mail.email.send"]

    assert channel["address"] == "email.{template}.{to}"
    assert channel["parameters"] == {
        "template": {"location": "$message.payload#/template"},
        "to": {"location": "$message.payload#/to"},
    }
    assert channel["bindings"]["amqp"]["exchange"] == {
        "name": "mail",
        "type": "topic",
        "durable": True,
        "autoDelete": False,
        "vhost": "shop",
    }
    assert document["operations"]["send.email.send"]["messages"] == [
        {"$ref": "#/channels/exchange.mail.email.send/messages/email.send.v2"}
    ]


def test_a_payload_without_a_route_of_its_own_is_sent_to_its_queue(document):
    assert document["operations"]["send.jobs"]["channel"] == {"$ref": "#/channels/queue.jobs"}


def test_what_asyncapi_cannot_say_is_left_open(document):
    channels = document["channels"]

    assert channels["queue.plain__x_"]["address"] is None
    assert channels["exchange.odd.event"]["bindings"]["amqp"]["exchange"]["x-type"] == "x-random"
    assert channels["exchange.amq.topic.own"]["bindings"]["amqp"]["exchange"] == {"name": "amq.topic", "vhost": "shop"}


def test_versions_are_told_apart_by_their_header_and_payloads_are_schemas(document):
    messages = document["components"]["messages"]

    assert messages["email.send.v1"]["description"] == "Send a mail."
    assert "required" not in messages["email.send.v1"]["headers"]
    assert messages["email.send.v2"]["headers"] == {
        "type": "object",
        "properties": {"amqpkit-version": {"type": "integer", "const": 2}},
        "required": ["amqpkit-version"],
    }
    assert messages["email.send.v2"]["payload"] == {"$ref": "#/components/schemas/email.send.v2"}
    assert "payload" not in messages["email_urgent"]


def test_types_that_no_schema_describes_are_named():
    topology = compile_topology(Spec.model_validate(MAIL))

    assert without_schema(topology, SCHEMAS) == ("email/urgent", "event", "own")


def test_every_reference_leads_somewhere(document):
    def references(value):
        if isinstance(value, dict):
            yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    found = list(references(document))
    assert len(found) > 10
    for reference in found:
        here = document
        for step in reference.removeprefix("#/").split("/"):
            here = here[step]


def test_two_names_that_would_have_one_identifier_get_two():
    spec = {"version": 1, "queues": {"a/b": {}, "a b": {}}}

    document = asyncapi(compile_topology(Spec.model_validate(spec)), {}, title="t", version="1")

    assert {each["address"]: key for key, each in document["channels"].items()} == {
        "a b": "queue.a_b",
        "a/b": "queue.a_b-2",
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$schema": "x", "type": "string"}, {"type": "string"}),
        ({"items": {"$ref": "#/$defs/A"}}, {"items": {"$ref": "#/components/schemas/p.v1.A"}}),
        ({"prefixItems": [{"type": "string"}]}, {"items": [{"type": "string"}]}),
        ({"prefixItems": [{}], "items": False}, {"items": [{}], "additionalItems": False}),
        ({"discriminator": {"propertyName": "kind", "mapping": {}}}, {"discriminator": "kind"}),
        (
            {"properties": {"discriminator": {"type": "string"}, "$ref": {"const": "#/$defs/A"}}},
            {"properties": {"discriminator": {"type": "string"}, "$ref": {"const": "#/$defs/A"}}},
        ),
        (
            {"default": {"$schema": "kept"}, "x-limits": {"$id": "1"}},
            {"default": {"$schema": "kept"}, "x-limits": {"$id": "1"}},
        ),
    ],
)
def test_a_schema_of_2020_12_says_the_same_in_draft_7(schema, expected):
    assert adapted(schema, "p.v1") == (expected, {})


def test_definitions_within_a_schema_become_schemas_that_its_references_find():
    schema = {"$defs": {"A[int]": {"items": {"$ref": "#/$defs/A%5Bint%5D"}}}, "$ref": "#/$defs/A%5Bint%5D"}

    own, inner = adapted(schema, "p.v1")

    assert own == {"$ref": "#/components/schemas/p.v1.A_int_"}
    assert inner == {"p.v1.A_int_": {"items": {"$ref": "#/components/schemas/p.v1.A_int_"}}}
