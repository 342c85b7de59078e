"""`amqpkit migrate queue` on real brokers."""

import json
from pathlib import Path

import pika
import pytest

from amqpkit.cli import main

BEFORE = """
version: 1
exchanges: {shop: {type: topic}}
queues: {orders: {type: classic, bindings: [{source: shop, routing_key: "order.#"}]}}
"""
AFTER = """
version: 1
exchanges: {shop: {type: topic}}
work_queues: {orders: {bindings: [{source: shop, routing_key: "order.#"}]}}
"""


@pytest.fixture
def files(tmp_path):
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    return str(before), str(after)


def channel_of(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def run(*arguments):
    """Watch for more than two intervals of the test brokers' statistics."""
    return main(["migrate", "queue", "orders", *arguments, "--settle", "2500ms"])


def _text_of(capsys, code):
    assert code == 0
    return capsys.readouterr().out


def test_a_plain_queue_becomes_a_work_queue_with_what_is_in_it_though_it_stops_on_the_way(broker, capsys, files, urls):
    before, after = files
    assert main(["apply", before, *urls(), "--yes"]) == 0
    channel = channel_of(broker)
    for number in range(30):
        properties = pika.BasicProperties(message_id=str(number), expiration="60000", headers={"n": number})
        channel.basic_publish("shop", "order.new", str(number).encode(), properties, mandatory=True)
    held, _, _ = channel.basic_get("orders")
    capsys.readouterr()

    assert run(after, *urls(), "--dry-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["report"]) == ("planned", None)
    assert {each["name"]: each["after"] for each in document["differences"]}["x-queue-type"] == "quorum"
    assert any('routing key "orders" cannot be seen' in each for each in document["cautions"])
    assert "create the new orders" in document["steps"]
    assert "x-queue-type: classic -> quorum" in _text_of(capsys, run(after, *urls(), "--dry-run"))

    assert run(after, *urls()) == 1
    assert "there is no terminal to ask at" in capsys.readouterr().err

    assert run(after, *urls(), "--yes", "--timeout", "1s", "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["report"]["moved_in"]) == ("stopped", 29)
    assert "messages of orders are with consumers, unacknowledged" in document["errors"][0]
    assert main(["apply", after, *urls(), "--yes"]) == 1
    assert "finish it with `amqpkit migrate queue orders`" in capsys.readouterr().err

    channel.basic_nack(held.delivery_tag, requeue=True)
    assert run(after, *urls(), "--yes") == 0
    out, err = capsys.readouterr()
    assert "Migrated queue orders. Moved 1 in and 30 back, 0 left; at most 100 may be there twice" in out
    assert "(1 runs before this one were interrupted)" in out
    assert err == ""

    for number in (*range(1, 30), 0):
        method, properties, body = channel.basic_get("orders", auto_ack=True)
        assert (body, method.routing_key, properties.expiration) == (str(number).encode(), "order.new", "60000")
        origin = {"amqpkit-exchange": "shop", "amqpkit-routing-key": "order.new"}
        assert properties.headers == {"n": number, **origin}
    channel.connection.close()

    assert run(after, *urls(), "--json") == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "unchanged"
    assert main(["apply", after, *urls(), "--yes"]) == 0
    assert main(["plan", after, *urls(), "--detailed-exitcode"]) == 0


def test_what_cannot_be_is_refused_and_changes_nothing(broker, capsys, files, urls, user):
    before, after = files
    assert run(after, *urls(), "--yes") == 1
    assert "queue orders: it is not there: apply creates it" in capsys.readouterr().err
    assert main(["apply", before, *urls(), "--yes"]) == 0
    assert main(["migrate", "queue", "nobody", after, *urls(), "--yes"]) == 1
    assert "queue nobody: it is not in the topology file" in capsys.readouterr().err
    assert run(after, *urls(user("management")), "--yes") == 1
    assert "needs the tag policymaker" in capsys.readouterr().err
    assert run(after, *urls(user("policymaker", configure="^amqpkit")), "--yes") == 1
    assert "configure" in capsys.readouterr().err
    Path(after).write_text(BEFORE.replace("classic,", "quorum, arguments: {x-max-length: many},"))
    assert run(after, *urls(), "--yes") == 1
    assert run(before, *urls(), "--timeout", "5") == 64
    assert main(["migrate", "exchange", "shop", after, *urls()]) == 64
    assert main(["plan", before, *urls(), "--detailed-exitcode"]) == 0


@pytest.mark.parametrize("tags", ["policymaker", "administrator"])
@pytest.mark.parametrize(
    ("permission", "pattern", "lacking"),
    [
        ("configure", r"^(orders(\..*)?|amqpkit\.lock)$(?<!back)", 'configure "orders.migrating.back"'),
        ("write", r"^(?!orders\.migrating$)", 'write "orders.migrating"'),
        ("read", r"^(?!shop$)", 'read "shop"'),
    ],
)
def test_what_a_user_may_not_do_on_the_way_is_told_before_the_first_step(
    broker, capsys, files, urls, user, tags, permission, pattern, lacking
):
    before, after = files
    assert main(["apply", before, *urls(), "--yes"]) == 0
    credentials = user(tags)
    rights = {"configure": ".*", "write": ".*", "read": ".*", permission: pattern}
    broker.http("PUT", f"permissions/{broker.vhost}/{credentials.partition(':')[0]}", rights)
    capsys.readouterr()

    assert run(after, *urls(credentials), "--yes") == 1

    err = capsys.readouterr().err
    assert f"it lacks permission to {lacking}" in err
    assert "nothing was changed" in err
    assert {each["name"] for each in broker.http("GET", f"queues/{broker.vhost}")[1]} == {"orders"}
    assert broker.http("GET", f"policies/{broker.vhost}")[1] == []
    assert not [each for each in broker.http("GET", f"exchanges/{broker.vhost}")[1] if "orders" in each["name"]]
