"""`amqpkit publish --many`: a file of bodies, one to a line."""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from amqpkit.cli.bodies import Body
from amqpkit.cli.resume import Resume, ResumeUnwritableError
from amqpkit.deliver.outgoing import Outcome
from amqpkit.errors import AmqpkitError
from amqpkit.events import Fate

NOT_TRIED: Final = "not-tried"
TOLD: Final = 10
"""Lines that are named on standard error, of each kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line that holds a body; `number` counts from 1."""

    number: int
    text: str
    body: Body


class Lines:
    """A file of bodies, checked as a whole before the first is sent; empty lines count but hold nothing."""

    def __init__(self, file: IO[bytes], read: Callable[[str], Body], resume: Resume, path: str) -> None:
        """Keep the parts; `read` checks a line, and raises AmqpkitError for a bad one."""
        self._file, self._read, self._resume, self._path = file, read, resume, path
        self.invalid = self.skipped = self.total = 0
        self.faults: list[dict[str, Any]] = []

    @classmethod
    @contextmanager
    def open(cls, path: str, read: Callable[[str], Body], resume: Resume) -> "Iterator[Lines]":
        """Open a file, or standard input for `-`, which is kept in a temporary file; raises AmqpkitError."""
        with tempfile.TemporaryFile() if path == "-" else _opened(path) as file:
            if path == "-":
                try:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                except OSError as error:
                    raise _unreadable(path, error) from error
            yield cls(file, read, resume, path)

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
                self.faults.append(_failed(number, "invalid", None, error))
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
        try:
            self._file.seek(0)
            for number, raw in enumerate(self._file, start=1):
                text = raw.decode(errors="surrogateescape").strip()
                if text:
                    yield number, text
        except OSError as error:  # of the reading: what happens to a line is raised elsewhere
            raise _unreadable(self._path, error) from error


def _opened(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> AmqpkitError:
    return AmqpkitError(f"{path} cannot be read: {error}")


class Tally:
    """Counts how the lines ended, shows a bar on a terminal, and names what is not stored."""

    def __init__(self, total: int, resume: Resume) -> None:
        """Begin at nothing; `numbers` are the line numbers in the order in which they were taken."""
        self.fates: Counter[Fate] = Counter()
        self.numbers: list[int] = []
        self.forgotten: list[int] = []
        """Lines that are stored without the resume file knowing."""
        self._resume = resume
        console = Console(stderr=True)
        self._progress = Progress(
            "publishing", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("publishing", total=total)
        self._failed: list[dict[str, Any]] = []

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar meanwhile."""
        with self._progress:
            yield

    def note(self, outcome: Outcome) -> None:
        """Count one, name it unless it is stored, write it down; raises ResumeUnwritableError, which ends the run."""
        line = self.numbers[outcome.index]
        self.fates[outcome.fate] += 1
        self._progress.advance(self._task)
        if outcome.error is not None:
            self._failed.append(_failed(line, outcome.fate.value, outcome.message_id or None, outcome.error))
            if self.fates[outcome.fate] <= TOLD:
                print(f"line {line}: {outcome.error}", file=sys.stderr)
        try:
            self._resume.note(line, outcome)
        except ResumeUnwritableError:
            if outcome.fate is Fate.CONFIRMED:
                self.forgotten.append(line)
            raise

    def summary(self, lines: Lines) -> str:
        """How all lines ended, in one line."""
        counts: list[tuple[int, str]] = [(lines.skipped, "stored before"), (self.fates[Fate.CONFIRMED], "confirmed")]
        counts += [(count, fate.value) for fate, count in self.fates.items() if fate is not Fate.CONFIRMED]
        counts += [(lines.invalid, "invalid"), (self._left(lines), "not tried")]
        return ", ".join(f"{count} {word}" for count, word in counts if count or word == "confirmed")

    def as_json(self, lines: Lines) -> dict[str, Any]:
        """How all lines ended: each is counted once, and those that failed are told one by one."""
        fates = {fate.value: self.fates[fate] for fate in Fate}
        others = {"stored-before": lines.skipped, "invalid": lines.invalid, NOT_TRIED: self._left(lines)}
        return {
            "outcomes": fates | others,
            "failed": sorted([*lines.faults, *self._failed], key=lambda each: each["line"]),
            "not_remembered": sorted(self.forgotten),
        }

    def _left(self, lines: Lines) -> int:
        return lines.total - sum(self.fates.values())


def _failed(line: int, outcome: str, message_id: str | None, error: Exception) -> dict[str, Any]:
    return {"line": line, "outcome": outcome, "message_id": message_id, "error": str(error)}


def spans(numbers: Iterable[int]) -> str:
    """Name numbers in few words: `1, 3-7, 9`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
