"""The line on a terminal while a command takes long."""

import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from amqpkit.cli.waiting import Waiting


@contextmanager
def terminal(monkeypatch) -> Iterator[list[str]]:
    """Put a terminal in the place of stderr; what was written to it is in the list in the end."""
    master, slave = pty.openpty()
    read: list[bytes] = []
    text: list[str] = []

    def drain():
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # closed: Linux says EIO
                return
            if not data:
                return
            read.append(data)

    reader = threading.Thread(target=drain)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setenv("TERM", "xterm")
        yield text
    reader.join(10)
    os.close(master)
    text.append(b"".join(read).decode())


def test_it_says_what_is_being_done_and_then_what_comes_next(monkeypatch):
    with terminal(monkeypatch) as text, Waiting("checking a.yaml", after=0) as say:
        say._timer.join(10)
        say("reading the broker's queues, page 3 of 100")

    (shown,) = text
    assert "checking a.yaml" in shown
    assert "page 3 of 100" in shown
    assert shown.endswith("\x1b[2K")  # the line is gone


def test_what_is_soon_done_shows_nothing(monkeypatch):
    with terminal(monkeypatch) as text, Waiting("checking a.yaml", after=60) as say:
        say("reading")

    assert text == [""]
    say._timer.join(10)
    assert not say._timer.is_alive()


def test_without_a_terminal_it_is_silent(capsys):
    with Waiting("checking a.yaml", after=0) as say:
        say("reading")

    assert capsys.readouterr() == ("", "")
