"""A timestamp that its producer sent in milliseconds, or finer, stays the number that it is, wherever a letter goes."""

import json
from pathlib import Path

import pytest

from tests.cli.dlq_desk import Desk

MS, US, NS = 1_772_366_400_500, 1_772_366_400_500_250, 1_772_366_400_500_250_999


def sent(here: Desk, queue: str) -> dict[str | None, tuple[object, object]]:
    """Timestamp and header, as a client that reads no meaning into numbers sees them."""
    return {letter.message_id: (letter.properties.timestamp, letter.headers.get("n")) for letter in here.take(queue)}


@pytest.fixture
def numbers(here: Desk) -> dict[str | None, tuple[object, object]]:
    """Letters whose timestamps are such numbers; one has no headers at all."""
    for name, number in (("s", 1_772_366_400), ("ms", MS), ("us", US), ("ns", NS), ("most", 2**64 - 1)):
        here.send("", "orders.dlq", message_id=name, timestamp=number, headers={"n": 5})
    here.send("", "orders.dlq", message_id="bare", timestamp=MS)
    return {
        "s": (1_772_366_400, 5),
        "ms": (MS, 5),
        "us": (US, 5),
        "ns": (NS, 5),
        "most": (2**64 - 1, 5),
        "bare": (MS, None),
    }


def test_a_replay_changes_no_timestamp(here: Desk, numbers: dict[str | None, tuple[object, object]]) -> None:
    here.dlq("replay", "orders")

    assert sent(here, "orders") == numbers


def test_export_import_and_discard_change_no_timestamp(
    here: Desk, numbers: dict[str | None, tuple[object, object]], tmp_path: Path
) -> None:
    out, audit = tmp_path / "letters.jsonl", tmp_path / "audit.jsonl"
    here.dlq("export", "orders", "--out", str(out))
    told = {line["properties"]["message_id"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert told["ms"]["properties"]["timestamp"] == {"$stamp": str(MS)}
    assert told["s"]["properties"]["timestamp"] == {"$time": "2026-03-01T12:00:00+00:00"}

    here.dlq("discard", "orders", "--reason", "a test", "--yes", "--audit", str(audit))
    for file in (out, audit):
        here.dlq("import", str(file))
        assert sent(here, "orders.dlq") == numbers


@pytest.mark.usefixtures("numbers")
def test_it_is_shown_as_the_instant_that_is_meant_and_as_it_was_sent(here: Desk) -> None:
    out, _ = here.dlq("show", "orders", "ms")
    assert "  timestamp: 2026-03-01T12:00:00.500000+00:00\n" in out
    assert f"  timestamp_sent: {MS}\n" in out
    (letter,) = here.told("show", "orders", "bare")["letters"]
    assert letter["properties"]["timestamp_sent"] == MS
    assert letter["published_at"] == "2026-03-01T12:00:00.500000+00:00"
