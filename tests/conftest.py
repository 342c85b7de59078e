"""Brokers for the tests: `broker` gives each a virtual host of its own, on every RabbitMQ there is."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.containers import brokers
from tests.containers.brokers import Broker, Fleet, NoBrokerError

# PostgreSQL and Redis: the fixtures `postgres`, `redis`, `own_postgres`, `own_redis`.
pytest_plugins = ["tests.servers.plugin"]

FLEET = pytest.StashKey[Fleet]()
PATH = pytest.StashKey[Path]()
FIXTURES = frozenset({"broker", "own_broker"})

# How long an example takes says how busy the machine is: the tests share two processors with four brokers.
settings.register_profile("amqpkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("amqpkit")


def pytest_configure(config: pytest.Config) -> None:
    """The leading process owns the brokers; a worker of pytest-xdist is told where to read about them."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[PATH] = Path(worker["amqpkit_brokers"])
        return
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="amqpkit-brokers-"))

    def say(text: str) -> None:
        # Straight to the terminal: a minute of silence looks like a hang.
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"[{time.monotonic() - began:5.1f} s] {text}")
            reporter.flush()

    config.stash[PATH] = directory / "brokers.json"
    config.stash[FLEET] = Fleet(config.stash[PATH], say)
    # A CI that gives up sends SIGTERM; containers and engine must go then too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell a worker of pytest-xdist."""
    node.workerinput["amqpkit_brokers"] = str(node.config.stash[PATH])  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker, so that `-m "not broker"` leaves it out."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without pytest-xdist: start the brokers now, if a test that is left needs one."""
    fleet = session.config.stash.get(FLEET, None)
    if (
        fleet is not None
        and not session.config.option.collectonly
        and any(item.get_closest_marker("broker") for item in session.items)
    ):
        fleet.ensure()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: object, ids: list[str]) -> None:
    """With it: only workers collect. The leader knows a test that needs a broker by the broker in its id."""
    named = re.compile(rf"[\[-]rabbitmq-({'|'.join(map(re.escape, brokers.ids(dict(os.environ))))})[]-]")
    if any(named.search(each) for each in ids):
        node.config.stash[FLEET].ensure()  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once, and last, what to do about a broker that is not there."""
    fleet = config.stash.get(FLEET, None)
    if fleet is not None and fleet.reason:
        terminalreporter.section("no broker", red=True)
        terminalreporter.write_line(fleet.reason)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    fleet = config.stash.get(FLEET, None)
    if fleet is not None:
        fleet.close()
        fleet.path.unlink(missing_ok=True)
        fleet.path.parent.rmdir()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per RabbitMQ."""
    for fixture in FIXTURES & set(metafunc.fixturenames):
        names = brokers.ids(dict(os.environ))
        metafunc.parametrize(fixture, names, indirect=True, ids=[f"rabbitmq-{name}" for name in names])


def this_runs(config: pytest.Config) -> tuple[dict[str, Broker], str]:
    """Return the brokers, or fail the test: a missing broker is not a reason to skip."""
    try:
        return brokers.read(config.stash[PATH])
    except NoBrokerError as error:
        # Once per test is enough: the advice stands at the end of the run, not in every failure.
        first = brokers.ADVICE.splitlines()[0].format(reason=error)
    pytest.fail(f"{first} What to do is said at the end of the run.", pytrace=False)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A RabbitMQ shared by all tests, and in it a virtual host for this one."""
    shared, _ = this_runs(request.config)
    with brokers.fresh_vhost(shared[request.param]) as mine:
        yield mine


@pytest.fixture
def own_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A RabbitMQ in a container of its own, for tests that stop, freeze or starve it (about five seconds)."""
    shared, owner = this_runs(request.config)
    image = shared[request.param].image
    if image is None:
        pytest.skip("AMQPKIT_TEST_URL names a broker that is not ours to stop")
    started = brokers.launch(image, request.param, owner, own=True)
    try:
        with brokers.fresh_vhost(started) as mine:
            yield mine
    finally:
        brokers.discard(started)
