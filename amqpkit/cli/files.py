"""Which topology files a command reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amqpkit.cli.usage import UsageError

DEFAULT_FILE: Final = Path("topology.yaml")
DEFAULT_FOLDER: Final = Path("topology")


def topology_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Give the files named on the command line, or the default: `topology.yaml`, else the one in `topology/`.

    Raises UsageError when there is no such file, or more than one.
    """
    if paths:
        return tuple(paths)
    if DEFAULT_FILE.is_file():
        return (DEFAULT_FILE,)
    found = sorted(DEFAULT_FOLDER.glob("*.yaml"))
    if len(found) == 1:
        return (found[0],)
    many = f" has {len(found)} files ({', '.join(path.name for path in found)})" if found else " has no *.yaml"
    msg = f"which topology? There is no {DEFAULT_FILE}, and {DEFAULT_FOLDER}/{many}: name the files"
    raise UsageError(msg)


def topology_files_if_any(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Give the files as `topology_files` does, and none where there is no default."""
    there = paths or DEFAULT_FILE.is_file() or len(list(DEFAULT_FOLDER.glob("*.yaml"))) == 1
    return topology_files(paths) if there else ()
