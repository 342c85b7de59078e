"""The table of `amqpkit status` as a person sees it, on a wide and on a usual terminal."""

import pytest
from rich.console import Console

from amqpkit.brokers.url import BrokerURL
from amqpkit.cli.connect import Place
from amqpkit.cli.status import Snapshot, _Table
from amqpkit.declare.load import load_topology
from amqpkit.operate.observe import NOT_BEFORE_4_3, Reading
from amqpkit.ports import BrokerInfo

TOPOLOGY = load_topology("topology/shop.yaml", environ={})
READINGS = (
    Reading(
        "email.send",
        depth=12_345,
        oldest=3725.0,
        in_flight=20,
        consumers=2,
        consumer_timeout=1800.0,
        rate=12.5,
        failure_rate=0.25,
        waiting={"2s": 3, "10s": 0, "1m": 140},
        dead=7,
        letters={"exhausted": 5, "invalid": 2},
        oldest_letter=90.0,
    ),
    Reading("lead.report", depth=1, why_not=NOT_BEFORE_4_3, consumers=0, waiting={}, dead=0),
)


def shown(width: int) -> str:
    place = Place(BrokerURL.parse("amqp://guest:secret@rabbit.example:5672/shop"), "http://guest:secret@rabbit.example")
    table = _Table(place, BrokerInfo("4.0.5", "rabbit@one"), asked=False)
    table.console = Console(width=width, highlight=False, force_terminal=False)
    with table.console.capture() as capture:
        table.console.print(table.render(Snapshot(TOPOLOGY, READINGS, {"email.send": 25.0})))
    return capture.get()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_that_matters_is_cut_off(width: int) -> None:
    text = shown(width)

    (line,) = (line for line in text.splitlines() if line.startswith("email.send"))
    for fact in ("12345", "1h 2m", "20", "12.5/s", "25%", "25s!", "30s", " 2 ", "7"):
        assert fact in line
    assert ("30m" in line) is (width == 200)
    assert "5 exhausted, 2 invalid, oldest 1m 30s" in text
    assert "2s: 3" in text
    assert "1m: 140" in text
    assert "ALERT    email.send: 7 dead letters in email.send.dlq (alert from 1)" in text
    assert "secret" not in text


def test_what_is_wrong_or_unknown_is_said_below() -> None:
    text = shown(200)

    assert "warning  email.send: p95 of handling time is 25s: 83% of its timeout (30s) (owner: team-messaging)" in text
    assert "warning  lead.report: nobody consumes it (owner: team-sales)" in text
    assert (
        f"oldest of lead.report is unknown: {NOT_BEFORE_4_3}; the workers' amqpkit_age_at_handling_seconds tells"
        in text
    )
    assert "p95 is unknown: name the workers' metrics with --metrics" in text
