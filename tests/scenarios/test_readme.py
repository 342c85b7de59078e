"""README.md says only what is so: its files load, its code runs, its commands and variables exist."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from amqpkit import connect, connect_blocking, load_topology
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.cli import main
from amqpkit.operate.apply import apply
from amqpkit.stores import open_store
from amqpkit.stores.rules import KEEP
from amqpkit.stores.sql import SqlStore
from amqpkit.testing.simulator import Simulator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def code(tmp_path, monkeypatch):
    """What the Python blocks define, one after the other, next to the first YAML block as topology.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("topology.yaml").write_text(blocks("yaml")[0])
    namespace = {"__name__": "readme"}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), namespace)  # noqa: S102 - it is our own
    return namespace


def test_it_begins_with_a_topology_of_three_lines_and_a_consumer_of_ten():
    first_yaml, first_python = blocks("yaml")[0], blocks("python")[0]

    assert README.index(first_yaml) < README.index(first_python) < README.index("## ")
    assert len(first_yaml.splitlines()) == 3
    assert len(first_python.splitlines()) <= 10


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_topology_is_valid(text, tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text(text)

    assert load_topology(file).work_queues


async def test_its_test_passes(code):
    (test,) = (value for name, value in code.items() if name.startswith("test_"))
    await test()


async def test_its_publishers_publish(code, broker, monkeypatch):
    topology = load_topology("topology.yaml")
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(topology, admin)
    monkeypatch.setitem(code, "connect", lambda _: connect(broker.url))
    monkeypatch.setitem(code, "connect_blocking", lambda _: connect_blocking(broker.url))

    await code["welcome"]("ann@example.com")
    await asyncio.to_thread(code["welcome_blocking"], "bob@example.com")

    async with connect(broker.url) as transport:
        assert await transport.depth("email.send") == 2


def test_its_first_consumer_handles_what_the_first_topology_declares(code, capsys):
    assert code["SendEmail"].queue in load_topology("topology.yaml").work_queues
    assert main(["validate"]) == 0


def charges(folder: Path):
    file = folder / "charges.yaml"
    file.write_text("version: 1\nwork_queues: {billing.charge: {}}\n")
    return load_topology(file)


async def test_its_charge_is_booked_exactly_once_in_the_database_that_is_the_store(code, tmp_path):
    (store_url,) = re.findall(r"--store (\S+)", README)
    assert str(code["books"].url) == store_url
    topology = charges(tmp_path)
    async with AsyncExitStack() as stack:
        stack.callback(code["books"].dispose)
        store = SqlStore(store_url)
        stack.push_async_callback(store.close)
        await store.prepare()
        with code["books"].begin() as connection:
            connection.execute(code["text"]("CREATE TABLE charges (invoice TEXT, cents INTEGER)"))
        simulator = Simulator(topology, [code["ChargeCard"]()])
        simulator.use_store(store)
        async with simulator:
            for message_id in ("m-1", "m-1", "m-2"):
                await simulator.publish(code["Charge"](invoice="17", cents=1990), message_id=message_id)
            assert simulator.ledger() == {}
        with code["books"].connect() as connection:
            assert list(connection.execute(code["text"]("SELECT * FROM charges"))) == [("17", 1990)]


@pytest.mark.parametrize("url", ["sqlite:///app.db", "postgresql://somewhere/app", "redis://somewhere", "memory:"])
async def test_its_stores_are_stores(url):
    assert url.partition("//")[0] in README
    await open_store(url).close()


def test_its_store_remembers_for_a_week():
    assert timedelta(days=7) == KEEP


def test_its_commands_are_all_there_are(capsys):
    described = set(re.findall(r"^\| `amqpkit (\w+)", README, re.MULTILINE))
    assert main(["--help"]) == 0

    in_help = set(re.findall(r"^│ (\w+) {2}", capsys.readouterr().out, re.MULTILINE))
    assert described == in_help


def test_its_targets_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {"up", "down"}

    assert set(re.findall(r"`make ([\w-]+)`", README)) <= targets


def test_its_variables_are_read_by_the_tests_or_the_commands():
    readers = [*(ROOT / "tests" / "containers").glob("*.py"), ROOT / "amqpkit" / "cli" / "run.py"]
    read = "".join(file.read_text() for file in readers)

    for variable in re.findall(r"AMQPKIT_\w+", README):
        assert variable in read


def test_the_journey_that_it_shows_is_the_demos(capsys):
    (shown,) = blocks("text")
    assert main(["demo"]) == 0

    assert shown in capsys.readouterr().out


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
