"""Work that takes a while: a bar with the time left on a terminal, and Ctrl-C that ends it cleanly."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amqpkit.cli.dlq.wording import note

STOPPED: Final = 130
"""The exit code of what was ended by a signal, as shells have it."""


@contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """Give an event that the first SIGINT or SIGTERM sets; the second ends all: raises KeyboardInterrupt."""
    stop, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()

    def obey() -> None:
        if stop.is_set():
            if task is not None:
                task.cancel()
            return
        note("stopping: what is under way is finished, the rest goes back; once more to end at once")
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, obey)
    try:
        yield stop
    except asyncio.CancelledError:
        if stop.is_set():  # by the second signal: nobody else cancels a command, and it is no error to be traced
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Bar:
    """How far it is, on standard error, if that is a terminal."""

    def __init__(self, what: str) -> None:
        """Name the work."""
        columns = (
            *(TextColumn(what, markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}")),
            *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False)),
        )
        shown = sys.stderr.isatty()
        self._progress = Progress(*columns, console=Console(stderr=True, markup=False), disable=not shown)
        self._task = self._progress.add_task(what, total=None, note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def at(self, done: int, total: int | None, note: str = "") -> None:
        """So far."""
        self._progress.update(self._task, completed=done, total=total, note=note)
