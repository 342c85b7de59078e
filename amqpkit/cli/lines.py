"""`amqpkit publish --many`: a file of bodies, one to a line."""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from amqpkit.cli.bodies import Body
from amqpkit.cli.resume import Resume
from amqpkit.deliver.outgoing import Outcome
from amqpkit.errors import AmqpkitError
from amqpkit.events import Fate

TOLD = 10
"""Lines that are named on standard error, of each kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line that holds a body; `number` counts from 1."""

    number: int
    text: str
    body: Body


class Lines:
    """A file of bodies, checked as a whole before the first is sent; empty lines count but hold nothing."""

    def __init__(self, file: IO[bytes], read: Callable[[str], Body], resume: Resume) -> None:
        """Keep the parts; `read` checks a line, and raises AmqpkitError for a bad one."""
        self._file, self._read, self._resume = file, read, resume
        self.invalid = self.skipped = self.total = 0

    @classmethod
    @contextmanager
    def open(cls, path: str, read: Callable[[str], Body], resume: Resume) -> "Iterator[Lines]":
        """Open a file, or standard input for `-`, which is kept in a temporary file; raises AmqpkitError."""
        try:
            with tempfile.TemporaryFile() if path == "-" else Path(path).open("rb") as file:
                if path == "-":
                    shutil.copyfileobj(sys.stdin.buffer, file)
                yield cls(file, read, resume)
        except OSError as error:
            msg = f"{path} cannot be read: {error}"
            raise AmqpkitError(msg) from error

    def check(self) -> None:
        """Check every line and name the bad ones on standard error; counts `invalid`, `skipped` and `total`."""
        for number, text in self._texts():
            try:
                if self._resume.has(number, text):
                    self.skipped += 1
                    continue
                self._read(text)
                self.total += 1
            except AmqpkitError as error:
                self.invalid += 1
                if self.invalid <= TOLD:
                    print(f"line {number}: {error}", file=sys.stderr)
        if self.invalid > TOLD:
            print(f"and {self.invalid - TOLD} more lines", file=sys.stderr)

    def __iter__(self) -> Iterator[Line]:
        """Give the good lines that are not stored yet, reading as it goes."""
        for number, text in self._texts():
            try:
                if not self._resume.has(number, text):
                    yield Line(number, text, self._read(text))
            except AmqpkitError:
                continue  # named and counted by `check`

    def _texts(self) -> Iterator[tuple[int, str]]:
        self._file.seek(0)
        for number, raw in enumerate(self._file, start=1):
            text = raw.decode(errors="surrogateescape").strip()
            if text:
                yield number, text


class Tally:
    """Counts how the lines ended, shows a bar on a terminal, and names what is not stored."""

    def __init__(self, total: int, resume: Resume) -> None:
        """Begin at nothing; `numbers` are the line numbers in the order in which they were taken."""
        self.fates: Counter[Fate] = Counter()
        self.numbers: list[int] = []
        self._resume = resume
        console = Console(stderr=True)
        self._progress = Progress(
            "publishing", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("publishing", total=total)
        self._told: Counter[Fate] = Counter()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar meanwhile."""
        with self._progress:
            yield

    def note(self, outcome: Outcome) -> None:
        """Count one, write it down, name it unless it is stored."""
        line = self.numbers[outcome.index]
        self._resume.note(line, outcome)
        self.fates[outcome.fate] += 1
        self._progress.advance(self._task)
        if outcome.error is not None and self.fates[outcome.fate] <= TOLD:
            print(f"line {line}: {outcome.error}", file=sys.stderr)

    def summary(self, lines: Lines, left: int) -> str:
        """How all lines ended, in one line."""
        counts: list[tuple[int, str]] = [(lines.skipped, "stored before"), (self.fates[Fate.CONFIRMED], "confirmed")]
        counts += [(count, fate.value) for fate, count in self.fates.items() if fate is not Fate.CONFIRMED]
        counts += [(lines.invalid, "invalid"), (left, "not tried")]
        return ", ".join(f"{count} {word}" for count, word in counts if count or word == "confirmed")
