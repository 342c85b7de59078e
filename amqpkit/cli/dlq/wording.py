"""What a stranger wrote, on an operator's terminal: no control reaches it, no column is broken by it."""

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TextIO

from rich.cells import cell_len

from amqpkit.units import format_duration

_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (C0, C1, DEL), formats (bidi, zero width, tags), surrogates, private and unassigned ones, line breaks."""
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "yellow": "33"}


def harmless(text: str, limit: int | None = None) -> str:
    """Spell out every character that would do something else than be seen; cut at `limit` characters."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_seen, text))


def _seen(character: str) -> str:
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


def harmless_lines(text: str, limit: int) -> list[str]:
    """Harmless text, its line breaks and tabs kept as such."""
    return [harmless(line.replace("\t", "    ")) for line in text[:limit].split("\n")]


class Paper:
    """Where results are printed: styled on a terminal that wants colours, plain elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to standard output unless told otherwise."""
        self._stream = stream or sys.stdout
        if reconfigure := getattr(self._stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # a terminal in Latin-1 must not end the command
        told = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._colours = self._stream.isatty() and not told

    def styled(self, text: str, style: str) -> str:
        """Give text in a style (bold, dim, red, yellow), if there are any."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colours and text else text

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where there is none, and a line may be as long as it likes."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line."""
        print(self.styled(text, style) if style else text, file=self._stream)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]], styles: Sequence[str] = ()) -> None:
        """Print columns; numbers are on the right. A row's style is the one of its place in `styles`."""
        cells = [tuple(map(harmless, row)) for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(head, *cells, strict=True)]
        right = [bool(cells) and all(row[n].isdigit() or not row[n] for row in cells) for n in range(len(head))]
        self.line(_aligned(head, widths, right), "bold")
        for number, row in enumerate(cells):
            self.line(_aligned(row, widths, right), styles[number] if styles else "")


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for text, width, to_the_right in zip(row, widths, right, strict=True):
        room = " " * (width - cell_len(text))
        parts.append(room + text if to_the_right else text + room)
    return "  ".join(parts).rstrip()


def cut(text: str, room: int) -> str:
    """Harmless text of at most so many columns, its end left out."""
    return text if cell_len(text) <= room else f"{_head(text, room - 1)}…"


def cut_within(text: str, head: int, tail: int) -> str:
    """Harmless text with its middle left out; the end of an id tells more than its middle."""
    if cell_len(text) <= head + 1 + tail:
        return text
    return f"{_head(text, head)}…{_head(text[::-1], tail)[::-1]}"


def _head(text: str, room: int) -> str:
    at = max(room, 0)
    while cell_len(text[:at]) > room:
        at -= 1
    return text[:at]


def print_json(document: object) -> None:
    """Print one JSON document, in ASCII: whatever a stranger wrote stays escaped."""
    text = json.dumps(document, indent=2, default=str)
    print(text.replace("\x7f", "\\u007f"))  # the one control that JSON leaves alone


def print_document(document: Mapping[str, Any]) -> None:
    """Print a verb's document with the version of its format: within one major number keys are only added."""
    print_json({"format_version": "1.0", **document})


def note(text: str) -> None:
    """Say something on standard error that is no result."""
    print(harmless(text), file=sys.stderr)


def counted(number: int, word: str) -> str:
    """`1 letter`, `2 letters`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def sized(size: int) -> str:
    """Spell a number of bytes roughly: `13 B`, `5.0 MiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004 - what the units are made of
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def aged(at: datetime | None, now: datetime) -> str:
    """How long ago, in its largest whole unit: `12s`, `3h`, `5d`."""
    if at is None:
        return ""
    seconds = max(0, int((now - at) / timedelta(seconds=1)))
    for size in (86_400, 3_600, 60):
        if seconds >= size:
            return format_duration(seconds // size * size * 1000)
    return format_duration(seconds * 1000)


def stamped(at: datetime | None) -> str:
    """An instant in UTC to the second, or nothing."""
    return f"{at:%Y-%m-%d %H:%M:%SZ}" if at else ""


def instant_json(at: datetime | None) -> Any:
    """An instant as JSON has it."""
    return at.isoformat() if at else None
