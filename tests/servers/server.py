"""One server of the tests' own: a directory, a port, a process that can be frozen, killed and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.containers import run
from tests.servers.packages import NoServerError

PREFIX = "amqpkit-server-"
STARTS_WITHIN = 60.0
NOTE = "note.json"


@dataclass(slots=True)
class Server:
    """A server as a child of this process; `answers` says whether its URL can be used, by raising if not."""

    url: str
    directory: Path
    command: list[str]
    answers: Callable[[], object]
    user: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on its one port, and wait until it answers. Raises NoServerError, having left nothing."""
        try:
            self._start()
        except BaseException:
            self.discard()
            raise

    def _start(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._answers_before(deadline):
            # PostgreSQL's children outlive a killed server for a moment and keep its memory.
            time.sleep(0.2)

    def _answers_before(self, deadline: float) -> bool:
        """Start the process and wait for its answer; False when it ended and is worth another try."""
        log = self.directory / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                # Ctrl-C stops the tests; they stop the server.
                start_new_session=True,
                **self.user,
            )
        sign(self.directory, self.process.pid)
        while True:
            try:
                self.answers()
            except OSError as error:
                ended, late = self.process.poll() is not None, time.monotonic() > deadline
                if ended and not late and "shared memory block" in log.read_text(errors="replace")[-400:]:
                    return False
                if ended or late:
                    last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                    message = f"{Path(self.command[0]).name} does not start ({error}); its last words:\n{last}"
                    raise NoServerError(message) from error
                time.sleep(0.05)
            else:
                return True

    def freeze(self) -> None:
        """Stop every process of it: its sockets stay open and silent, as with a machine that hangs."""
        for pid in family(self._pid):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        for pid in family(self._pid):
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End every process of it without a chance to say anything."""
        if self.process is not None:
            end(self._pid)
            self.process.wait()
            self.process = None

    def discard(self) -> None:
        """End it, and leave nothing of it."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _pid(self) -> int:
        if self.process is None:
            message = "the server is not running"
            raise RuntimeError(message)
        return self.process.pid


def family(pid: int) -> Iterator[int]:
    """Give a process and its children, as PostgreSQL has one for each connection."""
    yield pid
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text(encoding="utf-8", errors="replace")
            if int(text.rpartition(")")[2].split()[1]) == pid:
                yield int(stat.parent.name)


def end(pid: int) -> None:
    """Kill a process and its children."""
    for each in list(family(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def directory() -> Path:
    """Make a directory that the server's own user may enter."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    made.chmod(0o755)
    sign(made, os.getpid())
    return made


def sign(made: Path, pid: int) -> None:
    """Note whose directory this is, and which process must end before it goes."""
    note = {"pid": pid, "started": run.started(pid), "owner": run.mark()}
    (made / NOTE).write_text(json.dumps(note), encoding="utf-8")


def sweep() -> None:
    """Remove the servers of runs that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            note = json.loads((left / NOTE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # Just being made, by somebody else.
            continue
        if not run.lives(note["owner"]):
            if run.started(note["pid"]) == note["started"]:
                end(note["pid"])
            shutil.rmtree(left, ignore_errors=True)
