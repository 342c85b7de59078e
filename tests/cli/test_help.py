"""Every command's help says what the command does and how it ends."""

import re

import pytest

from amqpkit.cli import main

NESTED = ("dlq", "export", "jobs", "schema")


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--help"]) == 0
    return capsys.readouterr().out


def commands(page: str) -> list[str]:
    return re.findall(r"^│ ([a-z]+) {2}", page, re.MULTILINE)


def test_every_command_tells_its_exit_codes(capsys):
    above = [(name,) for name in commands(helped(capsys)) if name not in NESTED]
    below = [(name, verb) for name in NESTED for verb in commands(helped(capsys, name))]

    silent = [words for words in above + below if "Exit codes: 0" not in " ".join(helped(capsys, *words).split())]

    assert len(below) > len(NESTED)
    assert not silent


def test_no_help_shows_an_empty_default(capsys):
    above = [(name,) for name in commands(helped(capsys)) if name not in NESTED]
    below = [(name, verb) for name in NESTED for verb in commands(helped(capsys, name))]

    pages = {words: helped(capsys, *words) for words in above + below}

    assert not [words for words, page in pages.items() if re.search(r"\[default: (\(\)|\"\"|None)?\]", page)]


def test_the_help_of_definitions_tells_what_they_are_not_for(capsys):
    assert "over existing objects it changes nothing" in " ".join(helped(capsys, "export", "definitions").split())
