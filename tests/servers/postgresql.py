"""A PostgreSQL that does not wait for its disk: initialised once, copied for whoever needs one of his own."""

from __future__ import annotations

import os
import pwd
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.containers.brokers import free_port
from tests.containers.engine import Say
from tests.servers import packages, server
from tests.servers.server import Server

USER = "tester"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # What is committed survives the server, which tests kill; it need not survive the machine.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "150",
}


def initialise(say: Say) -> Path:
    """Make a data directory to copy. Raises NoServerError."""
    program = packages.program("initdb", "postgresql", say)
    made = server.directory()
    data = made / "data"
    password = secrets.token_hex(8)
    secret = made / "password"
    secret.write_text(password, encoding="utf-8")
    data.mkdir(mode=0o700)
    for path in (made, secret, data):
        hand_over(path)
    done = subprocess.run(
        [
            str(program),
            *("--pgdata", str(data), "--username", USER, "--pwfile", str(secret)),
            *("--auth", "password", "--encoding", "UTF8", "--no-locale", "--no-sync"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=made,
        **as_user(),
    )
    if done.returncode != 0:
        message = f"initdb failed: {done.stderr.strip()}"
        raise packages.NoServerError(message)
    return made


def launch(template: Path, say: Say) -> Server:
    """Start a server on a copy of the template."""
    made = server.directory()
    subprocess.run(["cp", "-a", str(template / "data"), str(made)], check=True)
    hand_over(made)
    port = free_port()
    url = f"postgresql://{USER}:{(template / 'password').read_text(encoding='utf-8')}@127.0.0.1:{port}/postgres"
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    program = packages.program("postgres", "postgresql", say)
    command = [str(program), "-D", str(made / "data"), "-p", str(port), *settings]
    started = Server(url, made, command, lambda: answers(url), as_user())
    started.start()
    return started


def answers(url: str) -> str:
    """Give the version of the server at a URL. Raises OSError when there is none."""
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            return str(connection.execute("SHOW server_version").fetchone()[0])
    except psycopg.OperationalError as error:
        raise OSError(str(error)) from error


@contextmanager
def fresh_database(url: str) -> Iterator[str]:
    """Lend a database that did not exist before and does not afterwards; gives its URL."""
    name = f"test_{secrets.token_hex(6)}"
    execute(url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    head, _, tail = url.rpartition("/")
    try:
        yield f"{head}/{name}{''.join(tail.partition('?')[1:])}"
    finally:
        # A server that a test has killed has nothing to tidy up.
        with suppress(psycopg.OperationalError):
            execute(url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def execute(url: str, statement: sql.Composed) -> None:
    """Run a statement by itself."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(statement)


def as_user() -> dict[str, Any]:
    """Choose who runs PostgreSQL: it refuses to be root's."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    message = "there is neither a user postgres nor nobody to run PostgreSQL, which refuses to run as root"
    raise packages.NoServerError(message)


def hand_over(path: Path) -> None:
    """Give a path to that user."""
    who = as_user()
    if who:
        os.chown(path, who["user"], who["group"])
