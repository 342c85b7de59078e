"""Which alerts of the file hold, as a table."""

from dataclasses import replace

import pytest

from amqpkit.model import Alert, Consume
from amqpkit.operate.alerts import alerts_of, findings, spoken, warnings_of
from amqpkit.operate.observe import Reading
from amqpkit.operate.status import document
from tests.worker.parts import topology

TOPOLOGY = topology()
WORK = replace(TOPOLOGY.work_queues["task"], owner="team-a", runbook="https://runbooks.example.com/task")
FINE = Reading("task", depth=0, dead=0, consumers=1, consumer_timeout=1800.0)


@pytest.mark.parametrize(
    ("alert", "limit", "reading", "names"),
    [
        (Alert(messages=2), None, replace(FINE, dead=1), []),
        (Alert(messages=2), None, replace(FINE, dead=2), ["dead-letters"]),
        (Alert(age=60.0), None, replace(FINE, dead=9, oldest_letter=59.9), []),
        (Alert(age=60.0), None, replace(FINE, dead=1, oldest_letter=60.0), ["dead-letter-age"]),
        (Alert(1, 60.0), None, replace(FINE, dead=1, oldest_letter=60.0), ["dead-letters", "dead-letter-age"]),
        (Alert(1, 60.0), None, replace(FINE, dead=None), []),
        (Alert(), 100, replace(FINE, depth=99), []),
        (Alert(), 100, replace(FINE, depth=100), ["depth"]),
        (Alert(), None, replace(FINE, depth=10**6, dead=10**6, oldest_letter=1e9), []),
    ],
)
def test_an_alert_holds_from_its_threshold_on(alert, limit, reading, names) -> None:
    work = replace(WORK, alert=alert, depth_limit=limit)

    assert [finding.name for finding in alerts_of(work, reading)] == names


@pytest.mark.parametrize(
    ("timeout", "reading", "p95", "names"),
    [
        (30.0, FINE, 23.9, []),
        (30.0, FINE, 24.0, ["near-timeout"]),
        (None, replace(FINE, consumer_timeout=10.0), 8.0, ["near-consumer-timeout"]),
        (None, FINE, None, []),
        (30.0, replace(FINE, consumers=0), None, ["no-consumer"]),
        (30.0, replace(FINE, consumers=None), None, []),
        (30.0, replace(FINE, consumers=0, missing=("task",)), None, ["missing"]),
        (30.0, replace(FINE, consumer_timeout=30.0), None, ["timeout-order"]),
    ],
)
def test_what_nobody_wants_is_warned_of(timeout, reading, p95, names) -> None:
    work = replace(WORK, consume=Consume(timeout=timeout))

    assert [finding.name for finding in warnings_of(work, reading, p95)] == names


def test_a_finding_says_the_fact_the_threshold_the_owner_and_the_runbook() -> None:
    (finding,) = alerts_of(replace(WORK, alert=Alert(messages=1)), replace(FINE, dead=1))

    assert str(finding) == (
        "task: 1 dead letter in task.dlq (alert from 1) (owner: team-a), see https://runbooks.example.com/task"
    )


def test_the_document_names_what_is_unknown_null() -> None:
    told = document(TOPOLOGY, (Reading("task", why_not="because"),), {})

    (queue,) = told["queues"]
    assert (queue["depth"], queue["oldest"], queue["oldest_unknown_because"], queue["p95"]) == (
        None,
        None,
        "because",
        None,
    )
    assert (told["alerts"], told["warnings"]) == ([], [])
    assert findings(TOPOLOGY, (FINE,), {}) == ((), ())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0004, "0ms"), (0.35, "350ms"), (1.44, "1.4s"), (5.0, "5s"), (59.9, "59s"), (125, "2m 5s"),
     (3600, "1h"), (90_061, "1d 1h"), (691_200, "8d")],
)  # fmt: skip
def test_a_duration_is_spoken_in_two_units(seconds, text) -> None:
    assert spoken(seconds) == text
