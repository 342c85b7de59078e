"""`--rate` is one thing, whichever command has it."""

import pytest

from amqpkit.cli import main
from amqpkit.cli.rates import rate_of
from amqpkit.cli.usage import UsageError

COMMANDS = (["publish", "letter.send", "{}"], ["dlq", "replay", "orders"], ["dlq", "import", "letters.jsonl"])
NOWHERE = ["--url", "amqp://nowhere.invalid"]


@pytest.mark.parametrize(
    ("text", "rate"),
    [(None, None), ("20/s", 20.0), ("600/m", 10.0), ("20", 20.0), ("0.5", 0.5), (" 20 ", 20.0), ("36/h", 0.01)],
)
def test_a_rate_is_a_number_a_second_or_names_its_unit(text: str | None, rate: float | None) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize(
    "text", ["", "0", "0/s", "-5", "nan", "inf", "1e3", "fast", "20/x", "20 per s", "9" * 400, f"{'9' * 400}/s"]
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a rate; write 20/s, 600/m, or a number of messages a second"):
        rate_of(text)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[-2])
def test_every_command_says_the_same_of_it_before_it_connects(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--rate", "20/x", *NOWHERE]) == 64
    expected = "amqpkit: --rate '20/x' is not a rate; write 20/s, 600/m, or a number of messages a second\n"
    assert capsys.readouterr().err == expected
    assert main([*command[: 1 if command[0] == "publish" else 2], "--help"]) == 0
    help_ = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--rate STR How fast at most: 20/s, 600/m, or a bare number of messages a second." in help_
