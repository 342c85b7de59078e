"""A file that remembers which lines of another are published, so that a run that was killed can go on."""

import json
import secrets
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid5

from amqpkit.deliver.outgoing import Outcome
from amqpkit.errors import AmqpkitError
from amqpkit.events import Fate


class ResumeUnwritableError(AmqpkitError):
    """What is stored cannot be written down any more: nothing further may be sent."""


class Resume:
    """The lines that are stored, and an id for each line that stays the same from run to run.

    Ids are drawn from the run's own token, the line's number and its text: the same file published on purpose a
    second time (with another resume file, or none) is other messages.
    """

    def __init__(self, path: Path | None, run: UUID, stored: dict[int, str]) -> None:
        """Keep what was read; `open` reads."""
        self._path, self._run, self._stored = path, run, stored
        self._file: FileIO | None = None

    @classmethod
    def read(cls, path: Path | None, type: str) -> Self:  # noqa: A002 - AMQP's word
        """Read what an earlier run has left, if any; raises AmqpkitError."""
        fresh = UUID(bytes=secrets.token_bytes(16), version=4)
        if path is None or not path.exists() or not path.stat().st_size:
            return cls(path, fresh, {})
        stored: dict[int, str] = {}
        try:
            with path.open(encoding="utf-8") as file:
                head = json.loads(file.readline())
                run, of = UUID(head["run"]), head["type"]
                for text in file:
                    # the last line of a run that was killed may be half a line
                    entry = json.loads(text) if text.endswith("\n") else {}
                    if entry.get("fate") == Fate.CONFIRMED:
                        stored[entry["line"]] = entry["id"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"{path} is no resume file of `amqpkit publish`: {type_and_text(error)}; name another one"
            raise AmqpkitError(msg) from error
        if of != type:
            msg = f'{path} is of a run that published "{of}", not "{type}"; name another one'
            raise AmqpkitError(msg)
        return cls(path, run, stored)

    def __enter__(self) -> Self:
        """Open the file for what comes; raises AmqpkitError."""
        if self._path is not None:
            try:
                self._file = self._path.open("a+b", buffering=0)
                _mend(self._path, self._file)
            except OSError as error:
                raise self._unwritable(error) from error
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()

    @property
    def stored(self) -> int:
        """How many lines earlier runs have stored."""
        return len(self._stored)

    def id_of(self, line: int, text: str) -> str:
        """The message id of a line."""
        return str(uuid5(self._run, f"{line}\0{text!a}"))

    def has(self, line: int, text: str) -> bool:
        """Whether the line is stored already; raises AmqpkitError when it was another text then."""
        known = self._stored.get(line)
        if known is not None and known != self.id_of(line, text):
            msg = (
                f"line {line} is not what it was when {self._path} was written: publish the changed lines from a file "
                "of their own"
            )
            raise AmqpkitError(msg)
        return known is not None

    def begin(self, type: str) -> None:  # noqa: A002 - AMQP's word
        """Write the head, unless an earlier run has; raises ResumeUnwritableError, and leaves the file empty."""
        if self._file is not None and not self._file.tell():
            self._write({"run": str(self._run), "type": type})

    def note(self, line: int, outcome: Outcome) -> None:
        """Write how a line ended, at once: what is not here when the run is killed is sent again under its id.

        Raises ResumeUnwritableError, and leaves no half a line.
        """
        self._write({"line": line, "id": outcome.message_id, "fate": str(outcome.fate)})

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is None:
            return
        whole, rest = self._file.tell(), json.dumps(entry).encode() + b"\n"
        try:
            while rest:  # a disk that fills takes a part first
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(whole)
                self._file.seek(whole)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ResumeUnwritableError:
        return ResumeUnwritableError(f"the resume file {self._path} cannot be written: {error.strerror or error}")


def _mend(path: Path, file: FileIO) -> None:
    """Cut off half a line, so that the next does not continue it."""
    content = path.read_bytes() if path.stat().st_size else b""
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)
    file.seek(0, 2)


def type_and_text(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"
