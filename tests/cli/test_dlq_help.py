"""The help of `dlq`, and words that are none."""

import pytest

from amqpkit.cli import main

VERBS = ("list", "show", "groups", "replay", "discard", "export", "import")


def test_dlq_is_among_the_commands_and_names_its_verbs(capsys):
    assert main(["--help"]) == 0
    assert "─ operate ─" in capsys.readouterr().out
    assert main(["dlq", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"│ {verb} " in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_its_options_and_its_exit_codes(verb, capsys):
    assert main(["dlq", verb, "--help"]) == 0

    out = capsys.readouterr().out
    assert f"Usage: amqpkit dlq {verb}" in out
    assert "Exit codes: 0" in " ".join(out.split())
    assert "--url" in out


@pytest.mark.parametrize("words", [["nope"], ["dlq", "nope"], ["dlq", "show"], ["dlq", "show", "q", "id", "--nope"]])
def test_words_that_are_none_are_a_wrong_command_line(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err.startswith("╭─ Error")
