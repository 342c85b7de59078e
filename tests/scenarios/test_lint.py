"""What we show to others passes our own lint: every topology file, and every whole one in a document."""

import re
from pathlib import Path

import pytest

from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.formats import text_lines
from amqpkit.declare.lint.run import lint
from amqpkit.declare.load import read_texts

ROOT = Path(__file__).parents[2]
OVERLAYS = {
    "topology/examples/production.yaml": "topology/examples/full.yaml",
    "examples/shop/short-delays.yaml": "topology/shop.yaml",
}
"""Files that are only laid over another one."""
FILES = sorted(
    str(path.relative_to(ROOT)) for folder in ("topology", "examples") for path in (ROOT / folder).rglob("*.yaml")
)
BLOCKS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md")))
    for number, text in enumerate(re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
    if "# breaks it" not in text
]


def warnings_of(texts):
    return text_lines(lint(texts, {}).at_least(Severity.WARNING))


@pytest.mark.parametrize("name", FILES)
def test_no_topology_file_has_a_warning(name, monkeypatch):
    monkeypatch.chdir(ROOT)

    assert warnings_of(read_texts(*filter(None, (OVERLAYS.get(name), name)))) == []


@pytest.mark.parametrize("text", BLOCKS)
def test_no_topology_in_a_document_has_a_warning(text):
    begin = "" if text.startswith("version:") else "version: 1\n"

    assert warnings_of([("shown.yaml", begin + text)]) == []


def test_there_are_files_and_documents_to_judge():
    assert len(FILES) > 4
    assert len(BLOCKS) > 40
    assert OVERLAYS.keys() <= set(FILES)
