"""Exporting: the letters of a queue as lines, which stay in the queue."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from amqpkit.model import Received, WorkQueue
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.letter import read_letter
from amqpkit.operate.dead_letters.lines import to_line
from amqpkit.ports import Clock, Transport

_PRIVATE = 0o600
"""Letters hold what customers sent."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export came to.

    `total` letters were there and `seen` of them were looked at, `written` are lines now, `stayed` were not asked for,
    `unwritable` (id and why) could not be written. `trouble` says why it ended before the end.
    """

    total: int
    seen: int
    written: int
    stayed: int
    unwritable: tuple[tuple[str, str], ...] = ()
    trouble: str = ""

    @property
    def complete(self) -> bool:
        """Whether every letter that was meant is a line."""
        return not (self.trouble or self.unwritable)


async def export_letters(  # noqa: PLR0913 - keyword-only settings, each with its default
    transport: Transport,
    queue: str,
    write: Callable[[str], object],
    *,
    filter: Filter | None = None,  # noqa: A002 - what it is
    limit: int | None = None,
    work: WorkQueue | None = None,
    clock: Clock,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[int], None] = lambda _seen: None,
) -> Exported:
    """Write each letter as a line, without its line break; all are given back in order.

    `limit` is how many to write. Raises QueueMissing, AccessRefused, and what `write` raises.
    """
    meant = filter or Filter()
    seen = written = stayed = 0
    unwritable: list[tuple[str, str]] = []

    def visit(received: Received) -> bool:
        nonlocal seen, written, stayed
        seen += 1
        letter = read_letter(received, work=work)
        if not meant.admits(letter):
            stayed += 1
        else:
            try:
                line = to_line(received)
            except ValueError as error:
                unwritable.append((letter.id, str(error)))
            else:
                write(line)
                written += 1
        on_progress(seen)
        return limit is None or written < limit

    none = 0 if limit is not None and limit <= 0 else None
    browsed = await browse(transport, queue, visit, clock=clock, stop=stop, limit=none)
    return Exported(browsed.total, browsed.seen, written, stayed, tuple(unwritable), browsed.trouble)


class NewFile:
    """Lines that get their name when they are whole; until then, and when they never are, they are in `NAME.part`."""

    def __init__(self, path: Path, file: TextIO) -> None:
        """Write into an open part; `new_file` opens."""
        self._path, self._file = path, file
        self.finished = False

    def write(self, line: str) -> None:
        """Write one line; raises OSError."""
        self._file.write(line)
        self._file.write("\n")

    def finish(self) -> None:
        """Say that this is all: the file is on disk, then gets its name. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())
        part_of(self._path).rename(self._path)
        self.finished = True


def part_of(path: Path) -> Path:
    """Where the lines of a file are that is not finished; the next try begins it anew."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """Open a new file for its owner alone. Raises FileExistsError rather than overwrite, and OSError."""
    if path.exists():
        raise FileExistsError(f"{path} exists; give another name, or move it away")
    handle = os.open(part_of(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
        yield NewFile(path, file)
