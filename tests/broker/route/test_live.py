"""`lint --live`, `route --live` and `graph --live` on real brokers."""

import time
from urllib.parse import quote

import pytest

from amqpkit import cli
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.declare.load import load_topology
from amqpkit.declare.policies import PolicyIndex
from amqpkit.model import Exchange, Policy, Queue
from amqpkit.operate.apply import apply

FILE = """\
version: 1
exchanges: {ev: {type: topic}, odd: {type: x-odd}}
queues: {log: {bindings: [{source: ev, routing_key: "#"}], arguments: {x-max-age: 1D}, type: stream}}
work_queues:
  jobs:
    bindings: [{source: ev, routing_key: "jobs.*"}]
    limits: {depth: 5}
    dead_letter: {owner: me, alert: {messages: 1}}
"""


@pytest.fixture
def connection(broker):
    return ("--live", "--url", broker.url, "--api", broker.api)


@pytest.fixture
async def declared(broker, tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text(FILE.replace(", odd: {type: x-odd}", ""))
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(load_topology(path), admin)
        await admin.create(Policy("theirs", "^jobs", {"max-length": 3}, "quorum_queues", 200))
    status, _ = broker.http(
        "PUT",
        f"operator-policies/{quote(broker.vhost, safe='')}/cap",
        {"pattern": "dlq$", "apply-to": "queues", "priority": 1, "definition": {"delivery-limit": 4}},
    )
    assert status in {201, 204}
    return path


def test_lint_sees_what_rules_over_us_and_what_the_broker_lacks(broker, declared, connection, tmp_path, capsys):
    (tmp_path / "odd.yaml").write_text(FILE)

    assert cli.main(["lint", str(tmp_path / "odd.yaml"), *connection]) == 1

    out = capsys.readouterr().out
    assert 'AK701 policy "theirs" (priority 200) rules instead of ours on jobs' in out
    assert 'AK702 operator policy "cap": delivery-limit is 4 instead of -1 on jobs.dlq' in out
    assert "AK705 this broker has no x-odd exchanges" in out


def test_route_and_graph_read_the_broker(broker, declared, connection, capsys):
    assert cli.main(["route", "ev", "jobs.a", *connection]) == 0
    out = capsys.readouterr().out
    assert "reaches 2 queues" in out
    assert "jobs  ev -jobs.*-> jobs" in out

    assert cli.main(["graph", *connection]) == 0
    out = capsys.readouterr().out
    assert 'subgraph g1["jobs"]' in out
    assert '"10s"' in out


def ruled(broker, count: int) -> dict[str, str]:
    """Ask which policy rules each queue; RabbitMQ 4.0 says it with its statistics, some seconds later."""
    deadline = time.monotonic() + 20
    while True:
        items = broker.http("GET", f"queues/{quote(broker.vhost, safe='')}")[1]
        found = {item["name"]: item["policy"] for item in items if item.get("policy")}
        if len(found) == count or time.monotonic() > deadline:
            return found
        time.sleep(0.3)


async def test_the_policy_that_rules_is_the_one_the_broker_says(broker):
    policies = [
        Policy("mixed", "^a", {"max-length": 1, "delivery-limit": 3}, "queues", 9),
        Policy("plain", "^(a|b)", {"max-length": 2}, "queues", 5),
        Policy("last", r"^b\.c", {"max-length": 3}, "classic_queues", 7),
        Policy("timed", "^d", {"consumer-timeout": 60000, "max-length": 3}, "queues", 1),
        Policy("both", "^c", {"max-length": 4, "alternate-exchange": "x"}, "all", 1),
    ]
    queues = [
        Queue(f"{name}/{kind}", kind, arguments={"x-queue-type": kind})
        for name in ("a", "b.c", "ab", "c", "d")
        for kind in ("classic", "quorum")
    ]
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        for policy in policies:
            await admin.create(policy)
        for queue in queues:
            await admin.create(queue)
        await admin.create(Exchange("c"))
    index = PolicyIndex(policies)
    exchange = broker.http("GET", f"exchanges/{quote(broker.vhost, safe='')}/c")[1]

    assert exchange["policy"] == index.ruling(Exchange("c")).winner.name == "both"
    assert ruled(broker, len(queues)) == {queue.name: index.ruling(queue).winner.name for queue in queues}
