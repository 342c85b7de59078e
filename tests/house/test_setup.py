"""The set-up works from nothing, and its pins can be trusted."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINS = sorted((ROOT / "requirements").glob("*.txt"))


def names(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.stem)
def test_every_pin_has_its_hashes_and_none_names_an_index(path):
    text = path.read_text()
    for pin in re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).strip()):
        assert re.match(r"[\w.\[\],-]+==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin
    assert "://" not in text
    assert "--index" not in text


def test_the_demo_needs_a_part_of_what_the_tests_need_in_the_same_versions():
    demo, test = names(ROOT / "requirements/demo.txt"), names(ROOT / "requirements/test.txt")
    assert demo.items() <= test.items()
    assert "pytest" not in demo


@pytest.mark.parametrize("target", ["demo", "test", "test-fast", "coverage", "lint", "up", "down", "clean", "help"])
def test_make_knows_what_to_do(target):
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def install(tmp_path: Path, python: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up with a python3 of our making."""
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)
    return subprocess.run(
        [ROOT / "requirements/install", tmp_path / "venv", "requirements/demo.txt"],
        env={**os.environ, "PYTHON": str(fake), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_without_venv_is_named_with_the_command_that_helps(tmp_path):
    done = install(tmp_path, 'case "$*" in *ensurepip*) exit 1;; esac', AMQPKIT_BOOTSTRAP="0")

    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_too_old_is_refused(tmp_path):
    done = install(tmp_path, 'case "$*" in *version_info*) exit 1;; -V) echo Python 3.9.2;; esac')

    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.9.2" in done.stderr


def test_no_python_at_all_is_said():
    done = subprocess.run(
        [ROOT / "requirements/install", "/nowhere", "requirements/demo.txt"],
        env={**os.environ, "PYTHON": "python3-of-nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "No python3-of-nobody here" in done.stderr
