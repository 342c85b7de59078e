"""A JSON object of long listings, taken apart so that each element knows its place.

Pure. Python's decoder tells no places, so it is asked for one element after the other.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Item:
    """An element of a listing, and where it stands in the text; line and column count from 1."""

    value: Any
    line: int
    column: int


def outermost(text: str) -> Iterator[tuple[str, Any]]:
    """Take the outermost object apart, its listings as items; raises JSONDecodeError, RecursionError."""
    decoder = json.JSONDecoder()
    lines = _Lines(text)
    at = _after(text, 0, "{")
    while text[at : at + 1] != "}":
        key, at = decoder.raw_decode(text, at)
        if not isinstance(key, str):
            msg = "expecting a name in double quotes"
            raise json.JSONDecodeError(msg, text, at)
        at = _after(text, at, ":")
        if text[at : at + 1] == "[":
            items, at = _items(decoder, lines, text, at)
            yield key, items
        else:
            value, at = decoder.raw_decode(text, at)
            yield key, value
        at = _next(text, at, "}")
    end = _skip(text, at + 1)
    if end != len(text):
        msg = "extra data"
        raise json.JSONDecodeError(msg, text, end)


def _items(decoder: json.JSONDecoder, lines: "_Lines", text: str, at: int) -> tuple[list[Item], int]:
    items: list[Item] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        line, column = lines.place(at)
        value, at = decoder.raw_decode(text, at)
        items.append(Item(value, line, column))
        at = _next(text, at, "]")
    return items, at + 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _after(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        msg = f"expecting '{mark}'"
        raise json.JSONDecodeError(msg, text, at)
    return _skip(text, at + 1)


def _next(text: str, at: int, end: str) -> int:
    """Go on behind a comma, or stay at the end."""
    at = _skip(text, at)
    if text[at : at + 1] == end:
        return at
    following = _after(text, at, ",")
    if text[following : following + 1] == end:
        msg = "illegal trailing comma"
        raise json.JSONDecodeError(msg, text, at)
    return following


class _Lines:
    """Lines and columns of ascending offsets; the text is walked once, however long its lines are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._at, self._begin = 1, 0, 0

    def place(self, at: int) -> tuple[int, int]:
        if breaks := self._text.count("\n", self._at, at):
            self._line += breaks
            self._begin = self._text.rfind("\n", self._at, at) + 1
        self._at = at
        return self._line, at - self._begin + 1
