"""The compiled topology as plain data."""

import json
from pathlib import Path

from amqpkit.declare.load import load_topology
from amqpkit.declare.rendering import rendered
from amqpkit.model import Topology

FULL = rendered(load_topology(Path(__file__).with_name("full.yaml")))


def test_objects_have_the_keys_of_rabbitmqs_definitions():
    assert FULL["exchanges"][2] == {
        "name": "mail",
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {"alternate-exchange": "mail.unrouted"},
    }
    assert FULL["queues"][1] == {
        "name": "email.send.dlq",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-delivery-limit": -1, "x-overflow": "reject-publish", "x-queue-type": "quorum"},
    }
    assert FULL["bindings"][1] == {
        "source": "email.send.retry",
        "destination": "email.send",
        "destination_type": "queue",
        "routing_key": "return",
        "arguments": {},
    }
    assert FULL["policies"][1] == {
        "name": "amqpkit.email.send.parts",
        "pattern": r"^email\.send\.(retry\..+|dlq)$",
        "apply-to": "quorum_queues",
        "priority": 100,
        "definition": {"delivery-limit": -1, "overflow": "reject-publish"},
    }


def test_work_queues_are_spelled_as_in_a_file():
    queue = FULL["work_queues"]["email.send"]

    assert queue["consume"] == {"prefetch": 20, "concurrency": 20, "timeout": "30s", "rate": "50/s"}
    assert queue["delays"][1] == {"delay": "2m", "queues": ["email.send.retry.2m"]}
    assert (queue["attempts"], queue["max-length"], queue["consumer-timeout"]) == (5, 100_000, "15m")
    assert queue["dead_letter"] == {
        "exchange": "email.send.dlx",
        "queue": "email.send.dlq",
        "owner": "team-messaging",
        "runbook": "https://runbooks.example.com/email-send",
        "alert": {"messages": 1, "age": "10m"},
        "replay": {"rate": "20/s", "max_replays": 3},
    }
    assert FULL["messages"] == {"email.send": {"exchange": "mail", "routing_key": "email.send.{template_id}"}}


def test_the_result_is_plain_json():
    assert json.loads(json.dumps(FULL)) == FULL
    assert list(rendered(Topology())) == [
        "owns",
        "exchanges",
        "queues",
        "bindings",
        "policies",
        "work_queues",
        "messages",
    ]
    assert rendered(Topology(vhost="shop"))["vhost"] == "shop"
