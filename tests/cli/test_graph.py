"""`graph`: what it writes where; Graphviz reads its DOT whatever the names."""

import subprocess
from pathlib import Path

import pytest

from amqpkit import cli
from amqpkit.declare.graph.dot import dot
from amqpkit.declare.graph.picture import picture
from tests.servers import packages
from tests.unit.graph.test_graph import HOSTILE, shop, topology

SHOP = str(Path(__file__).parents[2] / "topology" / "shop.yaml")


@pytest.fixture(scope="session")
def graphviz() -> str:
    """Graphviz's program, installed if need be."""
    try:
        return str(packages.program("dot", "graphviz", print))
    except packages.NoServerError as error:
        pytest.fail(f"no Graphviz: {error}", pytrace=False)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine without Graphviz."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_drawing_that_is_there_already_is_kept_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shop.mmd"
    out.write_text("mine")

    assert cli.main(["graph", SHOP, "--out", str(out)]) == 1
    assert "exists already; give another --out, or --force to replace it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert cli.main(["graph", SHOP, "--out", str(out), "--force"]) == 0
    assert out.read_text().startswith("flowchart")


def test_mermaid_is_what_one_gets(capsys):
    assert cli.main(["graph", SHOP]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.mmd", "flowchart"), ("a.dot", "digraph"), ("a.gv", "digraph"), ("a.html", "<!DOCTYPE html>")],
)
def test_the_ending_says_the_format(tmp_path, capsys, name, start):
    out = tmp_path / name

    assert cli.main(["graph", SHOP, "--out", str(out)]) == 0
    assert out.read_text().startswith(start)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{out}: ")


def test_the_format_that_is_asked_for_wins_over_the_ending(tmp_path):
    assert cli.main(["graph", SHOP, "-o", str(tmp_path / "a.txt"), "--format", "dot"]) == 0
    assert (tmp_path / "a.txt").read_text().startswith("digraph")


def test_svg_without_graphviz_says_what_to_install(nowhere, capsys):
    assert cli.main(["graph", SHOP, "--format", "svg"]) == 1
    assert "Graphviz's program `dot` (Debian's package graphviz)" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    assert cli.main(["graph", SHOP, "-o", str(tmp_path / "no" / "a.dot")]) == 1
    assert "a.dot cannot be written: no such file or directory" in capsys.readouterr().err


def test_files_and_a_broker_at_once_are_too_much(capsys):
    assert cli.main(["graph", SHOP, "--live"]) == 64
    assert "give one of the two" in capsys.readouterr().err


@pytest.mark.server
def test_graphviz_reads_our_dot_and_shows_every_name_as_it_is(graphviz):
    drawings = [dot(picture(shop()))] + [dot(picture(topology(name, f"{name}!"))) for name in HOSTILE]

    done = subprocess.run(
        [graphviz, "-Tsvg"], input="".join(drawings), capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stderr == ""
    assert done.stdout.count("<svg ") == len(drawings)
    assert "<script" not in done.stdout
    assert "onmouseover=&quot;" in done.stdout


@pytest.mark.server
def test_svg_is_written_by_graphviz(graphviz, tmp_path):
    out = tmp_path / "shop.svg"

    assert cli.main(["graph", SHOP, "-o", str(out)]) == 0
    text = out.read_text()
    assert "email.send.dlq" in text
    assert text.rstrip().endswith("</svg>")
