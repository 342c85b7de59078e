"""The table of `amqpkit status` as a person sees it, on a wide and on a usual terminal."""

from contextlib import suppress

import pytest
from rich.console import Console

from amqpkit.brokers.url import BrokerURL
from amqpkit.cli import main
from amqpkit.cli.connect import Place
from amqpkit.cli.status import Snapshot, _Table, _watch
from amqpkit.declare.load import load_topology
from amqpkit.errors import ConnectionFailed
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


def shown(width: int, unreachable: tuple[str, ...] = ()) -> str:
    place = Place(BrokerURL.parse("amqp://guest:secret@rabbit.example:5672/shop"), "http://guest:secret@rabbit.example")
    table = _Table(place, BrokerInfo("4.0.5", "rabbit@one"), asked=False)
    table.console = Console(width=width, highlight=False, force_terminal=False)
    with table.console.capture() as capture:
        table.console.print(table.render(Snapshot(TOPOLOGY, READINGS, {"email.send": 25.0}, unreachable)))
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


def test_a_worker_that_is_down_hides_nothing_else() -> None:
    text = shown(100, ("no worker's metrics at http://w2:9108/metrics: Connection refused",))

    assert "25s!" in text
    assert "warning  no worker's metrics at http://w2:9108/metrics: Connection refused" in text


class Enough(Exception):
    """The test has seen it."""


async def watched(reads: list[object]) -> tuple[list[Snapshot], list[str]]:
    shown: list[Snapshot] = []
    told: list[str] = []

    async def read() -> Snapshot:
        if not reads:
            raise Enough
        found = reads.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Snapshot)
        return found

    with suppress(Enough):
        await _watch(read, shown.append, told.append, 0)
    return shown, told


async def test_a_watch_outlives_its_broker_and_says_once_that_it_is_away() -> None:
    now, away = Snapshot(TOPOLOGY, READINGS, {}), ConnectionFailed("the broker is away")

    assert await watched([now, away, away, now, away]) == ([now, now], ["the broker is away; it is asked again"] * 2)


async def test_a_watch_of_a_broker_that_never_answered_is_an_error() -> None:
    with pytest.raises(ConnectionFailed):
        await watched([ConnectionFailed("the broker is away")])


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_a_usage_error(every: str, capsys) -> None:
    assert main(["status", "topology/shop.yaml", "--watch", "--every", every]) == 64
    assert "--every" in capsys.readouterr().err
