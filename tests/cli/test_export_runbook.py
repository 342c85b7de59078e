"""The runbook of a dead-letter queue: whose it is, what each fate means, and commands that can be typed."""

import re
import shlex

import pytest

from amqpkit.cli import _COMMANDS, build, main
from amqpkit.operate.look import BY_BROKER, FATES

FILE = "topology/examples/full.yaml"


@pytest.fixture
def text(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", "runbook", FILE, "--queue", "orders.ship"]) == 0
    return capsys.readouterr().out


def test_it_says_whose_it_is_when_it_alerts_and_where_the_team_s_own_is(text) -> None:
    assert text.startswith("# orders.ship.dlq\n")
    assert "| owner | team-shipping |" in text
    assert "| alert | from 1 on, and when one has waited 10m |" in text
    assert "https://runbooks.example.com/orders-ship" in text
    assert "5 attempts, with 30s, 2m, 10m, 1h between them" in text


def test_every_fate_that_a_letter_can_have_is_explained(text) -> None:
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)

    assert set(sections) >= FATES
    (brokers,) = (section for section in sections if "expired" in section)
    assert set(re.split(r", | or ", brokers)) == BY_BROKER


def test_the_commands_are_commands(text) -> None:
    lines = re.findall(r"^(amqpkit .+?)  # .+$", text, re.MULTILINE)
    assert len(lines) == 16
    app = build()
    known = {name for name, *_ in _COMMANDS}
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] in known:
            app.parse_args(words, exit_on_error=False)  # raises when a word of it is wrong
        else:
            assert words[0] == "dlq", line
    assert "amqpkit dlq replay orders.ship topology/examples/full.yaml --fate exhausted --rate 20/s" in text


def test_without_files_the_commands_name_none(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.yaml").write_text("version: 1\nwork_queues:\n  a queue: {}\n  b: {}\n")

    assert main(["export", "runbook"]) == 0
    text = capsys.readouterr().out
    assert "amqpkit dlq groups 'a queue'  #" in text
    assert "nobody: write `dead_letter.owner` into the topology file" in text
    assert re.findall(r"^# (.+)$", text, re.MULTILINE) == ["a queue.dlq", "b.dlq"]


def test_a_queue_that_is_not_there_is_a_usage_error(capsys) -> None:
    assert main(["export", "runbook", FILE, "--queue", "orders.shp"]) == 64
    assert "no work queue orders.shp" in capsys.readouterr().err
