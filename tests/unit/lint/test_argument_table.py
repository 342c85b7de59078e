"""Queue declarations with the brokers' own verdicts (4.0.5 and 4.3.6): an error where both refuse, and only there."""

import pytest

from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint
from amqpkit.declare.spec.document import to_yaml

DLX = {"x-dead-letter-exchange": ""}
ROWS = [
    ("quorum not durable", "quorum", {}, {"durable": False}, True),
    ("quorum auto-delete", "quorum", {}, {"auto_delete": True}, True),
    ("quorum lazy mode", "quorum", {"x-queue-mode": "lazy"}, {}, True),
    ("quorum max priority", "quorum", {"x-max-priority": 5}, {}, True),
    ("quorum reject-publish-dlx", "quorum", {"x-overflow": "reject-publish-dlx"}, {}, False),
    ("quorum delivery limit -1", "quorum", {"x-delivery-limit": -1}, {}, False),
    ("classic at-least-once", "classic", {**DLX, "x-dead-letter-strategy": "at-least-once"}, {}, True),
    ("type misspelt", "qurom", {}, {}, True),
    ("overflow misspelt", "classic", {"x-overflow": "drop-tail"}, {}, True),
    ("dead letter key without exchange", "classic", {"x-dead-letter-routing-key": "k"}, {}, True),
    ("ttl negative", "classic", {"x-message-ttl": -1}, {}, True),
    ("ttl zero", "classic", {"x-message-ttl": 0}, {}, False),
    ("ttl 2^32", "classic", {"x-message-ttl": 2**32}, {}, False),
    ("ttl 2^40", "classic", {"x-message-ttl": 2**40}, {}, True),
    ("ttl true", "classic", {"x-message-ttl": True}, {}, True),
    ("expires zero", "classic", {"x-expires": 0}, {}, True),
    ("priority 256", "classic", {"x-max-priority": 256}, {}, True),
    ("priority 0", "classic", {"x-max-priority": 0}, {}, False),
    ("stream with dead letter exchange", "stream", DLX, {}, True),
    ("stream with ttl", "stream", {"x-message-ttl": 5}, {}, True),
    ("stream max age in words", "stream", {"x-max-age": "1 month"}, {}, True),
    ("consumer timeout on quorum", "quorum", {"x-consumer-timeout": 60000}, {}, False),
]


def refused(kind, arguments, properties, target=(4, 3)) -> bool:
    text = to_yaml({"version": 1, "queues": {"q": {"type": kind, **properties, "arguments": arguments}}})
    return bool(lint([("topology.yaml", text)], {}, version=target).at_least(Severity.ERROR))


@pytest.mark.parametrize(("row", "kind", "arguments", "properties", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_an_error_is_what_the_broker_refuses(row, kind, arguments, properties, expected):
    assert refused(kind, arguments, properties) is expected


def test_a_verdict_that_depends_on_the_version_is_judged_by_the_one_that_is_meant():
    timeout = {"x-consumer-timeout": 60000}

    assert not refused("classic", timeout, {}, (4, 0))
    assert refused("classic", timeout, {}, (4, 3))
    assert not refused("classic", {"x-queue-version": 1}, {}, (4, 0))
    assert refused("classic", {"x-queue-version": 1}, {}, (4, 3))


def test_an_argument_of_a_plugin_can_be_allowed():
    text = "version: 1\nqueues: {q: {arguments: {x-colour: red, x-mesage-ttl: 1}}}\n"

    report = lint([("topology.yaml", text)], {}, allowed=["x-colour", "x-mesage-ttl"])

    assert report.at_least(Severity.WARNING) == ()
