"""A file of a package of npm's: fetched once, by exact version and hash, and kept outside of the repository."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.containers import engine

ADVICE = """\
{package} could not be had from npm: {reason}.
Do one of these:
  - install npm (Debian's package npm), and see that `npm view {package}` answers
  - AMQPKIT_NPM_CACHE=DIR: a folder that holds {file}, from a machine that has it
  - make test-fast: only what needs no server"""


class NoPackageError(Exception):
    """The package cannot be had; the message says why and what to do."""


def member(package: str, version: str, integrity: str, path: str) -> bytes:
    """Give a file of a package. Raises NoPackageError."""
    file = f"{package.replace('@', '').replace('/', '-')}-{version}.tgz"
    kept = _cache() / file
    with engine.alone():
        if not kept.is_file():
            _fetch(f"{package}@{version}", kept)
    content = kept.read_bytes()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if f"sha512-{found}" != integrity:
        kept.unlink()
        raise NoPackageError(ADVICE.format(package=package, file=file, reason="what came has another hash"))
    with tarfile.open(kept) as archive:
        opened = archive.extractfile(f"package/{path}")
        if opened is None:
            raise NoPackageError(ADVICE.format(package=package, file=file, reason=f"it has no {path}"))
        return opened.read()


def _cache() -> Path:
    chosen = os.environ.get("AMQPKIT_NPM_CACHE")
    if chosen:
        return Path(chosen)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "amqpkit" / "npm"


def _fetch(package: str, kept: Path) -> None:
    """Let npm fetch it from wherever this machine's npm fetches."""
    problem = {"package": package, "file": kept.name}
    if shutil.which("npm") is None:
        raise NoPackageError(ADVICE.format(**problem, reason="there is no `npm`"))
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", package]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
        packed = Path(folder) / kept.name
        if done.returncode or not packed.is_file():
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise NoPackageError(ADVICE.format(**problem, reason=f"`npm pack` failed ({last})"))
        packed.replace(kept)
