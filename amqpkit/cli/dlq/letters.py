"""Letters on paper and as JSON."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from amqpkit.cli.dlq.wording import Paper, aged, instant_json, sized
from amqpkit.operate.dead_letters.letter import HistoryLine, Letter


def letter_table(letters: Iterable[Letter], now: datetime) -> None:
    """Print letters, one a line; what a stranger wrote is cut short."""
    rows = [
        (
            letter.id,
            aged(letter.at, now),
            letter.fate,
            _versioned(letter)[:60],
            error_text(letter.fate, *letter.error[:2])[:100],
            str(letter.attempts),
            _replays(letter),
            sized(letter.size),
        )
        for letter in letters
    ]
    if rows:
        Paper().table(("ID", "AGE", "FATE", "TYPE", "ERROR", "ATTEMPTS", "REPLAYS", "SIZE"), rows)


def _versioned(letter: Letter) -> str:
    return f"{letter.type} v{letter.version}" if letter.type and letter.version else letter.type


def error_text(fate: str, kind: str, message: str) -> str:
    """An error in one line; a type that only repeats the fate is left out."""
    if kind == fate:
        return message
    return f"{kind}: {message}" if kind and message else kind or message


def _replays(letter: Letter) -> str:
    return f"{letter.replays} ({letter.replay_run})" if letter.replay_run else str(letter.replays or "")


def letter_json(letter: Letter) -> dict[str, Any]:
    """A letter as JSON has it, without its traceback and history."""
    kind, message, _ = letter.error
    return {
        "id": letter.id,
        "queue": letter.queue,
        "own_queue": letter.own_queue,
        "exchange": letter.exchange,
        "routing_key": letter.routing_key,
        "type": letter.type,
        "version": letter.version,
        "source": letter.source,
        "fate": letter.fate,
        "error": {"type": kind, "message": message},
        "published_at": instant_json(letter.published_at),
        "died_at": instant_json(letter.died_at),
        "attempts": letter.attempts,
        "replays": letter.replays,
        "replay_run": letter.replay_run,
        "key": letter.key,
        "size": letter.size,
    }


def history_json(line: HistoryLine) -> dict[str, Any]:
    """A line of a letter's history as JSON has it."""
    return {
        "at": instant_json(line.at),
        "attempt": line.attempt,
        "type": line.type,
        "message": line.message,
        "delay": line.delay,
    }
