"""What a command is at: a line on the terminal while it takes long, gone when it is done."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS: Final = 1.0
"""A command that is done sooner shows nothing."""


class Waiting:
    """Use it as a context; call it with what comes next. Without a terminal on stderr it is silent."""

    def __init__(self, text: str, *, after: float = SECONDS) -> None:
        """Begin with a text; the line appears `after` seconds."""
        self._text = text
        self._line: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._over = not sys.stderr.isatty()
        self._timer = threading.Timer(after, self._appear)
        self._timer.daemon = True

    def __call__(self, text: str) -> None:
        """Say what comes next."""
        with self._lock:
            self._text = text
            if self._line:
                line, task = self._line
                line.update(task, description=text)

    def __enter__(self) -> Self:
        """Start the clock."""
        if not self._over:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        with self._lock:
            self._over = True
            self._timer.cancel()
            if self._line:
                self._line[0].stop()

    def _appear(self) -> None:
        with self._lock:
            if not self._over:
                self._line = _begun(self._text)


def _begun(text: str) -> "tuple[Progress, TaskID]":
    # Most commands are done before they would show anything: they need not wait for these imports.
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    line = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
    task = line.add_task(text, total=None)
    line.start()
    return line, task


def reading(paths: Sequence[Path]) -> Waiting:
    """Say which files are being read and checked."""
    return Waiting(f"checking {' + '.join(map(str, paths))}")
