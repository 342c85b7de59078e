"""Forks, exits and Ctrl-C, by programs of their own: warnings are shown, and nothing may be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from urllib.parse import quote

import pytest

from tests.broker.blocking.rig import Rig, taken, until
from tests.containers.brokers import Broker

# To fork with threads is what is tested; 3.12 warns of it.
PYTHON = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore:This process:DeprecationWarning"]


def program(name: str, url: str) -> list[str]:
    return [*PYTHON, "-m", "tests.broker.blocking.victim", name, url]


def run(name: str, url: str) -> tuple[int, str, str]:
    """Let a program run: its exit code and what it printed."""
    done = subprocess.run(program(name, url), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def started(name: str, url: str) -> subprocess.Popen[str]:
    """Start a program that talks to us."""
    pipe = subprocess.PIPE
    return subprocess.Popen(program(name, url), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def url(broker: Broker) -> str:
    Rig(broker).queue("q")
    return broker.url


def test_both_sides_of_a_fork_go_on_and_nothing_is_lost(broker: Broker, url: str):
    code, out, err = run("forks", url)

    assert (code, err) == (0, "")
    counts = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}
    assert len(counts) == 4
    expected = {f"{name}-{n}" for name, count in counts.items() for n in range(count)} | {"last"}
    expected |= {f"child-{child}-{n}" for child in range(3) for n in range(50)}
    # each once: a child that wrote into its parent's socket, or sent its parent's messages, would double or lose some
    assert Counter(taken(url, "q", len(expected))) == Counter(expected)


def test_a_transport_that_was_opened_before_the_fork_serves_the_children(broker: Broker, url: str):
    code, _, err = run("preloads", url)

    assert (code, err) == (0, "")
    names = [f"{who}-{n}" for who in ("child-0", "child-1", "parent") for n in range(10)]
    assert sorted(taken(url, "q", len(names))) == sorted(names)


def test_what_was_under_way_at_a_fork_belongs_to_the_parent(broker: Broker, url: str):
    code, _, err = run("pending", url)

    assert (code, err) == (0, "")
    assert sorted(taken(url, "q", 200)) == sorted(f"p-{n}" for n in range(200))


@pytest.mark.parametrize(("name", "code", "says"), [("ends", 0, ""), ("fails", 1, "on purpose\n")])
def test_what_is_under_way_at_exit_is_stored_and_the_connection_closed(
    broker: Broker, url: str, name: str, code: int, says: str
):
    began = time.monotonic()

    assert run(name, url) == (code, "", says)

    assert time.monotonic() - began < 10
    assert sorted(taken(url, "q", 300)) == sorted(f"m-{n}" for n in range(300))
    connections = f"vhosts/{quote(broker.vhost, safe='')}/connections"
    until(lambda: not broker.http("GET", connections)[1])


def test_what_a_forgotten_transport_has_to_send_is_stored_too(url: str):
    code, _, err = run("drops", url)

    assert code == 0
    assert err.count("ResourceWarning: a transport was never closed") == 1
    assert sorted(taken(url, "q", 300)) == sorted(f"m-{n}" for n in range(300))


def test_a_frozen_broker_holds_up_neither_exit_nor_ctrl_c(own_broker: Broker):
    Rig(own_broker).queue("q")
    it_holds_up_the_exit_for_a_few_seconds_only(own_broker)
    taken(own_broker.url, "q")
    ctrl_c_ends_a_wait_and_harms_nothing(own_broker)


def it_holds_up_the_exit_for_a_few_seconds_only(own_broker: Broker) -> None:
    victim = started("stuck", own_broker.url)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "frozen?\n"
    own_broker.pause()
    began = time.monotonic()
    try:
        out, err = victim.communicate("yes\n", timeout=30)
    finally:
        own_broker.unpause()

    assert (victim.returncode, out, err) == (0, "PublishUncertain\n", "")
    assert 1.5 < time.monotonic() - began < 8


def ctrl_c_ends_a_wait_and_harms_nothing(own_broker: Broker) -> None:
    victim = started("interrupted", own_broker.url)
    assert victim.stdout is not None
    assert victim.stdin is not None
    assert victim.stdout.readline() == "frozen?\n"
    own_broker.pause()
    try:
        victim.stdin.write("yes\n")
        victim.stdin.flush()
        assert victim.stdout.readline() == "interrupted\n"
    finally:
        own_broker.unpause()
    out, err = victim.communicate("go on\n", timeout=30)

    assert (victim.returncode, out, err) == (0, "", "")
    assert [name for name in taken(own_broker.url, "q", 2) if name != "m"] == ["first", "second"]


def test_a_forked_child_says_nothing_on_the_connection_of_its_parent(broker: Broker, url: str):
    """The broker would close a connection on which frames of two processes are mixed."""
    rig = Rig(broker)
    with rig.transport as transport:
        pid = os.fork()
        if not pid:
            os._exit(0 if transport._pump is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert rig.send("q") is None
    assert [type(event).__name__ for event in rig.events] == ["Connected"]
