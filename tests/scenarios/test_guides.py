"""The pages in docs/ say only what is so: their files load, they leave out no key, their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amqpkit import load_topology
from amqpkit.declare.spec.format import PARTS, keys_of

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
