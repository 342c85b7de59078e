"""A terminal as a program's user has it."""

import os
import select
import signal
import time


def read_until(terminal: int, word: bytes | None, seconds: float = 30) -> bytes:
    """Read what a terminal shows until a word comes, or until it is hung up."""
    said, deadline = b"", time.monotonic() + seconds
    while word is None or word not in said:
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # hung up, as Linux says it
                return said
            if not piece:
                return said
            said += piece
    return said


def hears_ctrl_c() -> None:
    """Run in a child before its program: a shell that starts the tests in the background has them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
