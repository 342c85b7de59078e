"""Where a server's program is on this machine, or how it comes here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.containers import engine
from tests.containers.engine import Say

ADVICE = """\
No {name} to test on: {reason}.
Do one of these:
  - {variable}={example} make test: a server of yours
  - install {package}, so that `{program}` can be started
  - run as root on Debian, without AMQPKIT_BOOTSTRAP=0: the tests install Debian's {package} themselves
  - make test-fast: only what needs no server"""

POLICY = Path("/usr/sbin/policy-rc.d")


class NoServerError(Exception):
    """There is no server; the message says why."""


def program(name: str, package: str, say: Say) -> Path:
    """Return the path of a program, having installed its package if need be. Raises NoServerError."""
    with engine.alone():
        found = find(name)
        if found is not None:
            return found
        reason = why_not_here(dict(os.environ))
        if reason is not None:
            message = f"there is no `{name}` here, and {reason}"
            raise NoServerError(message)
        with not_started():
            try:
                engine.install((package,), say)
            except engine.NoEngineError as error:
                raise NoServerError(str(error)) from error
    found = find(name)
    if found is None:
        message = f"{package} is installed and has no `{name}`"
        raise NoServerError(message)
    return found


def find(name: str) -> Path | None:
    """Look along the path, and where Debian keeps PostgreSQL's programs: the newest first."""
    there = shutil.which(name, path=engine.daemon_path())
    if there is not None:
        return Path(there)
    debian = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return max(debian, key=lambda path: int(path.parts[-3]), default=None)


def why_not_here(environ: dict[str, str]) -> str | None:
    """Name the reason why this run must not install a server; None when it may."""
    if environ.get("AMQPKIT_BOOTSTRAP") == "0":
        return "AMQPKIT_BOOTSTRAP=0 forbids to install one"
    if os.geteuid() != 0:
        return "only root can install one"
    if not engine.is_debian():
        return "only on Debian can the tests install one"
    return None


@contextmanager
def not_started() -> Iterator[None]:
    """Keep Debian's packages from starting servers of their own on the usual ports."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
