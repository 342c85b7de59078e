"""The command line as a program calls it."""

import gc

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
