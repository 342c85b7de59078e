"""Servers are started only where that is allowed, kept apart, and swept; nobody else's things are touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.containers import engine, run
from tests.servers import fleet, packages, server

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("environ", "user", "debian", "reason"),
    [
        ({"AMQPKIT_BOOTSTRAP": "0"}, 0, True, "AMQPKIT_BOOTSTRAP=0"),
        ({}, 1000, True, "only root"),
        ({}, 0, False, "only on Debian"),
        ({}, 0, True, None),
    ],
)
def test_a_server_is_installed_only_where_that_is_allowed(environ, user, debian, reason, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(engine, "is_debian", lambda: debian)

    why = packages.why_not_here(environ)

    assert (why is None) is (reason is None)
    assert reason is None or reason in why


def test_what_is_missing_and_may_not_be_installed_is_said(monkeypatch):
    monkeypatch.setenv("AMQPKIT_BOOTSTRAP", "0")
    with pytest.raises(packages.NoServerError, match="no `no-such-server` here, and AMQPKIT_BOOTSTRAP=0 forbids"):
        packages.program("no-such-server", "none", lambda _: None)


def test_a_package_starts_no_server_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
    with packages.not_started():
        assert subprocess.run([packages.POLICY], check=False).returncode == 101
    assert not packages.POLICY.exists()

    packages.POLICY.write_text("somebody's")
    with packages.not_started():
        pass
    assert packages.POLICY.read_text() == "somebody's"


@pytest.mark.parametrize(
    ("node", "kinds"),
    [
        ("test_x[postgresql-server]", {"postgresql"}),
        ("test_x[a-redis-server-b]", {"redis"}),
        ("test_x[postgresql-server-redis-server]", {"postgresql", "redis"}),
        ("test_redis-server", set()),
        ("test_x[redis]", set()),
    ],
)
def test_a_tests_id_tells_which_servers_it_needs(node, kinds):
    assert fleet.kinds([node]) == kinds


def test_the_servers_of_a_killed_run_are_swept_and_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(server.tempfile, "gettempdir", lambda: str(tmp_path))
    left, mine, dead = (subprocess.Popen(["sleep", "60"]) for _ in range(3))
    gone = run.mark(dead.pid)
    dead.kill()
    dead.wait()
    for process, owner, name in ((left, gone, "left"), (mine, run.mark(), "mine")):
        made = tmp_path / f"{server.PREFIX}{name}"
        made.mkdir()
        note = {"pid": process.pid, "started": run.started(process.pid), "owner": owner}
        (made / server.NOTE).write_text(json.dumps(note))
    (tmp_path / f"{server.PREFIX}strange").mkdir()

    try:
        server.sweep()

        assert left.wait(10) == -9
        assert mine.poll() is None
    finally:
        for process in (left, mine):
            process.kill()
            process.wait()
    assert {path.name for path in tmp_path.iterdir()} == {f"{server.PREFIX}mine", f"{server.PREFIX}strange"}


def test_each_test_has_a_database_of_its_own(postgres):
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def run_tests(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run some tests as a person would."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AMQPKIT", "COV_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**inherited, "AMQPKIT_BOOTSTRAP": "0", **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_given_server_that_does_not_answer_fails_the_tests_that_need_it(workers):
    done = run_tests(
        *("-n", workers, "tests/servers/test_servers.py", "-k", "test_each_test_has_a_database"),
        AMQPKIT_TEST_POSTGRES_URL="postgresql://u:p@127.0.0.1:1/x",
    )

    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "skipped" not in done.stdout
    assert "No PostgreSQL to test on: the server of AMQPKIT_TEST_POSTGRES_URL does not answer" in done.stdout
    assert "AMQPKIT_TEST_POSTGRES_URL=postgresql://" in done.stdout


def test_what_needs_no_server_starts_none():
    done = run_tests("tests/servers/test_servers.py", "-m", "not server", "-k", "test_a_tests_id")

    assert done.returncode == 0, done.stdout
    assert "starting" not in done.stdout
