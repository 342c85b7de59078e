"""Servers for the tests: `postgres` gives each a database of its own, `redis` a prefix; `own_…` a server to torment.

A test that gets its server in another way (a parameter, request.getfixturevalue) has `postgresql-server` or
`redis-server` in its id: by that the leader of a run knows what to start.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import fleet, postgresql, server
from tests.servers import redis as redis_server
from tests.servers.fleet import Servers
from tests.servers.packages import NoServerError
from tests.servers.server import Server

FLEET = pytest.StashKey[Servers]()
PATH = pytest.StashKey[Path]()
FIXTURES = {
    "postgres": "postgresql",
    "own_postgres": "postgresql",
    "redis": "redis",
    "own_redis": "redis",
}


def pytest_configure(config: pytest.Config) -> None:
    """The leading process owns the servers; a worker of pytest-xdist is told where to read about them."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[PATH] = Path(worker["amqpkit_servers"])
        return
    began = time.monotonic()

    def say(text: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"[{time.monotonic() - began:5.1f} s] {text}")
            reporter.flush()

    config.stash[PATH] = server.directory() / "servers.json"
    config.stash[FLEET] = Servers(config.stash[PATH], say)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell a worker of pytest-xdist."""
    node.workerinput["amqpkit_servers"] = str(node.config.stash[PATH])  # type: ignore[attr-defined]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Put the server into the test's id."""
    # In one order, for all processes of a run.
    for name in sorted(FIXTURES.keys() & set(metafunc.fixturenames)):
        metafunc.parametrize(name, [None], indirect=True, ids=[f"{FIXTURES[name]}-server"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, so that `-m "not server"` leaves it out."""
    for item in items:
        if fleet.kinds([item.nodeid]):
            item.add_marker(pytest.mark.server)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without pytest-xdist: start the servers now, if tests that are left need them."""
    servers = session.config.stash.get(FLEET, None)
    if servers is not None and not session.config.option.collectonly:
        servers.ensure(fleet.kinds(item.nodeid for item in session.items))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: object, ids: list[str]) -> None:
    """With it: only workers collect."""
    node.config.stash[FLEET].ensure(fleet.kinds(ids))  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once, and last, what to do about a server that is not there."""
    servers = config.stash.get(FLEET, None)
    for reason in servers.reasons if servers is not None else ():
        terminalreporter.section("no server", red=True)
        terminalreporter.write_line(reason)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    servers = config.stash.get(FLEET, None)
    if servers is not None:
        servers.close()


def known(config: pytest.Config, kind: str) -> dict[str, Any]:
    """Return what is known of a server, or fail the test: a missing server is not a reason to skip."""
    try:
        return fleet.read(config.stash[PATH], kind)
    except NoServerError as error:
        first = f"No {fleet.NAMES[kind]} to test on: {error}."
    pytest.fail(f"{first} What to do is said at the end of the run.", pytrace=False)


@dataclass(frozen=True, slots=True)
class Keyspace:
    """A Redis that tests share, and the prefix of this test's keys."""

    url: str
    prefix: str


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database for this test alone, in a PostgreSQL shared by all."""
    with postgresql.fresh_database(known(request.config, "postgresql")["url"]) as url:
        yield url


@pytest.fixture
def redis(request: pytest.FixtureRequest) -> Keyspace:
    """A prefix for this test alone, in a Redis shared by all."""
    return Keyspace(known(request.config, "redis")["url"], f"test-{secrets.token_hex(6)}:")


@pytest.fixture
def own_postgres(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A PostgreSQL for tests that freeze or kill it."""
    facts = known(request.config, "postgresql")
    if facts["given"]:
        pytest.skip("AMQPKIT_TEST_POSTGRES_URL names a server that is not ours to stop")
    started = postgresql.launch(Path(facts["template"]), lambda _: None)
    yield started
    started.discard()


@pytest.fixture
def own_redis(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A Redis for tests that freeze or kill it."""
    if known(request.config, "redis")["given"]:
        pytest.skip("AMQPKIT_TEST_REDIS_URL names a server that is not ours to stop")
    started = redis_server.launch(lambda _: None)
    yield started
    started.discard()
