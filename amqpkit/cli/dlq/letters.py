"""Letters on paper and as JSON."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len

from amqpkit.cli.dlq.wording import Paper, aged, cut, cut_within, harmless, instant_json, sized
from amqpkit.operate.dead_letters.letter import HistoryLine, Letter

_HEAD: Final = ("ID", "AGE", "FATE", "TYPE", "ERROR", "ATTEMPTS", "REPLAYS", "SIZE")
_ID, _TYPE, _ERROR = 0, 3, 4
_ID_ENDS: Final = (8, 6)
"""Characters of an id that are left of it; of a UUIDv7 the instant, to a minute, and random ones."""
_AMPLE: Final = 40
"""Columns for type and error that ids may be whole beside."""
_LEAST: Final = 5
"""As wide as a type's and an error's head."""


def is_called(name: str, called: str) -> bool:
    """Whether an id is the one that is meant: whole, or as a table cut it."""
    if called in (name, harmless(name)):
        return True
    head, middle, tail = called.partition("…")
    return bool(middle and head and tail) and harmless(name).startswith(head) and harmless(name).endswith(tail)


def letter_table(letters: Iterable[Letter], now: datetime, paper: Paper | None = None) -> None:
    """Print letters, one a line: as wide as they are, or cut until they fit a terminal.

    Cut is what tells least: ids in their middle (`dlq show` takes them so), types and errors at their ends; sizes,
    and which run replayed a letter, are left out.
    """
    paper, kept = paper or Paper(), tuple(letters)
    if not kept:
        return
    rows = [_row(letter, now) for letter in kept]
    if paper.width is None or _width((_HEAD, *rows)) <= paper.width:
        paper.table(_HEAD, rows)
    else:
        _narrow(paper, kept, rows, paper.width)


def _row(letter: Letter, now: datetime) -> tuple[str, ...]:
    cells = (
        letter.id,
        aged(letter.at, now),
        letter.fate,
        _versioned(letter)[:60],
        error_text(letter.fate, *letter.error[:2])[:100],
        str(letter.attempts),
        _replays(letter),
        sized(letter.size),
    )
    return tuple(map(harmless, cells))


def _narrow(paper: Paper, letters: Sequence[Letter], rows: Sequence[tuple[str, ...]], width: int) -> None:
    """Print what a terminal has room for: first what says where and why, errors in all the room that is left."""
    are_replayed = any(letter.replays for letter in letters)
    table = [list(_HEAD[: 7 if are_replayed else 6])]
    for letter, row in zip(letters, rows, strict=True):
        table.append([*row[:6], str(letter.replays or "")][: len(table[0])])
    if width - _width(table, without=(_TYPE, _ERROR)) < _AMPLE:
        for cells in table:
            cells[_ID] = cut_within(cells[_ID], *_ID_ENDS)
    room = width - _width(table, without=(_TYPE, _ERROR))
    longest_type, longest_error = (max(cell_len(cells[n]) for cells in table) for n in (_TYPE, _ERROR))
    for_type = min(longest_type, max(_LEAST, room // 3, room - longest_error))
    for cells in table:
        cells[_TYPE] = cut(cells[_TYPE], for_type)
        cells[_ERROR] = cut(cells[_ERROR], max(_LEAST, room - for_type))
    paper.table(table[0], table[1:])


def _width(rows: Sequence[Sequence[str]], without: Collection[int] = ()) -> int:
    columns = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return sum(width for n, width in enumerate(columns) if n not in without) + 2 * (len(columns) - 1)


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
