"""The command line as a program calls it."""

import gc
from collections.abc import Callable

import pytest

from amqpkit.cli import main, rare_collections


def test_garbage_is_collected_as_before_once_a_command_has_run(capsys: pytest.CaptureFixture[str]) -> None:
    usual = gc.get_threshold()

    with rare_collections():
        within = gc.get_threshold()
    assert main(["--version"]) == 0
    assert main(["nonsense"]) == 64

    assert within[0] > usual[0]
    assert gc.get_threshold() == usual


@pytest.mark.parametrize(
    ("words", "rare"),
    [
        (["validate", "x"], True),
        (["run", "app"], False),
        (["status", "--watch"], False),
        (["jobs", "watch"], False),
    ],
)
def test_a_command_that_lasts_collects_its_garbage_as_any_program(
    words: list[str], rare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, within = gc.get_threshold(), list[tuple[int, int, int]]()

    def build(_words: list[str]) -> Callable[[list[str]], int]:
        def command(_words: list[str]) -> int:
            within.append(gc.get_threshold())
            return 0

        return command

    monkeypatch.setattr("amqpkit.cli.build", build)
    assert main(words) == 0

    assert (within[0] != usual) is rare
