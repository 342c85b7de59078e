"""What `amqpkit run` writes for people: one line for each record, whatever a stranger's message says."""

import logging

import pytest

from amqpkit.cli.monitoring import TextFormatter


def written(text: str, *args: object, error: Exception | None = None) -> str:
    info = (type(error), error, None) if error else None
    return TextFormatter().format(logging.LogRecord("amqpkit", logging.WARNING, __file__, 1, text, args, info))


@pytest.mark.parametrize("spiteful", ["x\n2026-11-30 ERROR lost", "x\r", "x\x1b[31m", "x\u2028y", "x\u202ey", "x\ty"])
def test_a_stranger_s_message_id_writes_no_line_of_its_own_and_moves_no_cursor(spiteful: str) -> None:
    line = written("catalogue.import %s, attempt 1", spiteful)

    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert " WARNING catalogue.import x" in line
    assert line.endswith(", attempt 1")


def test_what_is_harmless_is_left_as_it_is() -> None:
    assert written("Grüße, %d of %d", 1, 2).endswith(" WARNING Grüße, 1 of 2")


def test_an_exception_stands_below_its_line_and_looks_like_none() -> None:
    lines = written("it failed", error=ValueError("a\n2026-11-30 10:00:00,000 ERROR all is lost\x07")).splitlines()

    assert lines[0].endswith(" WARNING it failed")
    assert lines[1:] == ["    ValueError: a", r"    2026-11-30 10:00:00,000 ERROR all is lost\x07"]
