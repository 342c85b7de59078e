"""A file to which lines are only ever appended, and which has them before anybody goes on."""

import os
from collections.abc import Iterable
from pathlib import Path

_PRIVATE = 0o600
"""Letters hold what customers sent."""


class AuditFile:
    """Appends lines and waits until the disk has them."""

    def __init__(self, path: Path) -> None:
        """Open or create it, for its owner alone; raises OSError."""
        self.path = path
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _PRIVATE)
        if is_new:
            _sync_directory(path.parent)

    def append(self, lines: Iterable[str]) -> None:
        """Have all lines on disk when it returns; raises OSError, and then some may be there, the last one torn."""
        data = ("" if self._ends_whole() else "\n") + "".join(f"{line}\n" for line in lines)
        rest = memoryview(data.encode())
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

    def _ends_whole(self) -> bool:
        """Whether the last line is complete: one that was torn by a crash must not take the next one with it."""
        size = os.fstat(self._file).st_size
        return size == 0 or os.pread(self._file, 1, size - 1) == b"\n"


def _sync_directory(directory: Path) -> None:
    """Have a new file's name on disk too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
