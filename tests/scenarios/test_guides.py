"""The pages in docs/ say only what is so: their files load, they leave out no key, their links lead somewhere."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from amqpkit import connect, load_topology
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.cli import main
from amqpkit.declare.spec.format import PARTS, keys_of
from amqpkit.model import Message, Properties
from amqpkit.testing.simulator import Simulator

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "examples").rglob("*.md"))
TOPOLOGY = (ROOT / "docs" / "topology.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_topology_of_the_guide_is_valid(tmp_path):
    (text,) = blocks(TOPOLOGY, "yaml")
    file = tmp_path / "topology.yaml"
    file.write_text(text)

    assert load_topology(file).work_queues


def test_the_guide_names_every_key_of_a_topology_file():
    tables = "".join(re.findall(r"^\|.*\n", TOPOLOGY, re.MULTILINE))
    said = {word for span in re.findall(r"`([^`]+)`", tables) for word in re.findall(r"[\w-]+", span)}

    assert {key for part in PARTS for key in keys_of(part)} <= said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)#?([^)]*)\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        if heading:
            assert heading in anchors(file), f"{target}#{heading}"


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


STATUS = (ROOT / "docs" / "monitoring.md").read_text().split("## Status")[1]
DEAD_LETTERS = (ROOT / "docs" / "dead-letters.md").read_text()
TESTING = (ROOT / "docs" / "testing.md").read_text()
OF_EVERY_DOCUMENT = {"format_version", "broker", "version", "cluster_name", "vhost", "unreachable"}
FIRST = blocks((ROOT / "README.md").read_text(), "yaml")[0]


@pytest.fixture
def guide(tmp_path, monkeypatch):
    """What the guide to testing defines, next to the README's first topology."""
    monkeypatch.chdir(tmp_path)
    Path("topology.yaml").write_text(FIRST)
    (code,) = blocks(TESTING, "python")
    namespace = {"__name__": "guide"}
    exec(compile(code, "testing.md", "exec", dont_inherit=True), namespace)  # noqa: S102 - it is our own
    return namespace


@pytest.mark.parametrize("name", re.findall(r"^async def (test_\w+)", TESTING, re.MULTILINE))
async def test_the_tests_of_the_guide_pass(name, guide):
    await guide[name]()


@pytest.mark.parametrize("verb", re.findall(r"`(?:broker\.)?([a-z]\w+)\(", TESTING.split("|---|---|")[1]))
def test_what_the_guide_calls_is_there(verb):
    assert any(hasattr(owner, verb) for owner in (Simulator, MemoryBroker))


def test_the_readme_names_every_extra():
    (said,) = re.findall(r"^Extras: (.*?)\n\n", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(re.findall(r"`([a-z]+)`", said)) == set(extras) - {"sql", "uvloop"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_its_programs_import_is_there(page):
    for code in blocks(page.read_text(), "python"):
        for module, names in re.findall(r"^from (amqpkit[\w.]*) import (.+)$", code, re.MULTILINE):
            assert all(hasattr(import_module(module), name) for name in names.split(", "))


def keys(document: object) -> set[str]:
    match document:
        case dict():
            return {*document, *(key for value in document.values() for key in keys(value))}
        case list():
            return {key for value in document for key in keys(value)}
    return set()


def named(page: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))


async def bury(url: str) -> None:
    letter = Properties(message_id="m-1", headers={"amqpkit-fate": "permanent"})
    async with connect(url) as transport:
        await transport.publish("email.send.dlx", "email.send", Message(body=b"{}", properties=letter))


def test_the_guides_name_every_key_that_dlq_and_status_print(broker, tmp_path, capsys):
    file = tmp_path / "topology.yaml"
    file.write_text(FIRST)
    assert main(["apply", str(file), "--yes", "--url", broker.url, "--api", broker.api]) == 0
    asyncio.run(bury(broker.url))
    capsys.readouterr()
    guide = named(DEAD_LETTERS.split("## With --json")[1])
    of_the_message = {"amqpkit", "message_id", "delivery_mode", "amqpkit-fate", "permanent"}
    where = ["--url", broker.url, "--api", broker.api, "--json"]

    for words in (
        ["list", str(file)],
        ["list", str(file), "--letters", "email.send"],
        ["show", "email.send", "m-1", str(file)],
        ["groups", "email.send", str(file)],
        ["replay", "email.send", str(file), "--dry-run"],
        ["discard", "email.send", str(file), "--dry-run", "--reason", "none"],
    ):
        assert main(["dlq", *words, *where]) == 0
        said = keys(json.loads(capsys.readouterr().out))
        assert {key for key in said - of_the_message if not key.startswith("x-")} <= guide, words

    assert main(["status", str(file), *where]) == 0
    delays_and_fates = {"10s", "1m", "10m", "permanent", "unread"}
    assert keys(json.loads(capsys.readouterr().out)) - delays_and_fates - OF_EVERY_DOCUMENT <= named(STATUS)
