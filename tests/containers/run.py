"""Who owns what on this machine: marks that tell a test run that lives from one that was killed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

LABEL = "amqpkit.test.run"


def started(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None when there is none. A pid alone is soon reused."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def mark(pid: int | None = None) -> str:
    """Name a process for good: host, pid, start."""
    pid = pid or os.getpid()
    return f"{socket.gethostname()}:{pid}:{started(pid)}"


def lives(owner: str) -> bool:
    """Say whether the run that left this mark goes on; one of another host (or another container) is left alone."""
    host, _, rest = owner.partition(":")
    pid, _, ticks = rest.partition(":")
    return (
        host != socket.gethostname()
        or not pid.isdigit()
        or started(int(pid)) in {ticks, None if ticks == "None" else ticks}
    )


def command(pid: int) -> str:
    """Return the name of a process, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
