"""`amqpkit publish --json`: one document, whatever became of it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from amqpkit.cli import main
from amqpkit.events import Fate
from tests.cli.office import apply, letters, lines, taken
from tests.containers.brokers import Broker

NOWHERE = "amqp://127.0.0.1:1"


@pytest.fixture
def told(office: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Publish with --json; give the exit code, the document and what else was said."""

    def publish(*words: str, url: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main(["publish", "letter.send", *words, "--json", "--url", url])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return publish


def test_a_stored_message_is_told_with_its_id_and_its_way(broker: Broker, told: Any) -> None:
    apply(broker)
    code, document, _ = told('{"to": "ann"}', url=broker.url)

    (stored,) = taken(broker)
    assert code == 0
    assert document == {
        "outcome": "confirmed",
        "message_id": stored.message_id,
        "type": "letter.send",
        "exchange": "mail",
        "routing_key": "letter.ann",
        "error": None,
    }


def test_a_message_that_is_not_stored_is_told_with_its_fate(broker: Broker, office: Path, told: Any) -> None:
    apply(broker)
    (office / "topology.yaml").write_text(
        "version: 1\nexchanges: {mail: {type: topic}}\nmessages: {letter.send: {exchange: mail, routing_key: other}}\n"
    )
    code, document, err = told("{}", url=broker.url)

    assert (code, document["outcome"], document["routing_key"]) == (1, "unroutable", "other")
    assert uuid.UUID(document["message_id"])
    assert "reaches no queue" in document["error"]
    assert document["error"] in err


def test_a_broker_that_is_not_there_is_no_outcome_of_the_message(told: Any) -> None:
    code, document, err = told('{"to": "ann"}', "--timeout", "2", url=NOWHERE)

    assert (code, document["outcome"]) == (1, "not-tried")
    assert document["error"] in err


def test_without_a_message_there_is_no_document(told: Any) -> None:
    assert told("{", url=NOWHERE)[:2] == (1, None)
    assert told("{}", "--rate", "x", url=NOWHERE)[:2] == (64, None)


def test_of_many_each_is_counted_once_and_each_failure_is_told(broker: Broker, office: Path, told: Any) -> None:
    apply(broker)
    name = lines(office, *letters(2500), "{", '{"copies": 1}')
    words = ["--many", name, "--resume", "r", "--overload", "fail", "--skip-invalid"]
    code, document, _ = told(*words, url=broker.url)

    counts, failed = document["outcomes"], document["failed"]
    assert set(counts) == {*Fate, "stored-before", "invalid", "not-tried"}
    assert (code, sum(counts.values()), counts["invalid"], counts["confirmed"]) == (1, 2502, 2, len(taken(broker)))
    assert counts["nacked"] > 0  # a full queue takes some more before it refuses
    assert len(failed) == counts["nacked"] + 2
    assert failed[-2] == {
        "line": 2501,
        "outcome": "invalid",
        "message_id": None,
        "error": "the body is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    }
    assert {each["outcome"] for each in failed[:-2]} == {"nacked"}
    assert all(uuid.UUID(each["message_id"]) for each in failed[:-2])
    assert [each["line"] for each in failed] == sorted(each["line"] for each in failed)

    code, document, _ = told(*words, url=broker.url)
    assert document["outcomes"]["stored-before"] == counts["confirmed"]
    assert (code, document["not_remembered"]) == (1, [])


def test_of_many_that_are_not_sent_none_was_tried(office: Path, told: Any) -> None:
    name = lines(office, *letters(3), "{")
    code, document, err = told("--many", name, url=NOWHERE)
    assert (code, document["outcomes"]["invalid"], document["outcomes"]["not-tried"]) == (1, 1, 3)
    assert [each["line"] for each in document["failed"]] == [4]
    assert "nothing was sent" in err

    code, document, _ = told("--many", name, "--skip-invalid", "--resume", "/dev/full", url=NOWHERE)
    assert (code, document["outcomes"]["not-tried"]) == (1, 3)


def test_the_help_says_what_the_document_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "--help"]) == 0
    help_ = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--json Print one JSON document: outcome, message id, exchange and routing key;" in help_
