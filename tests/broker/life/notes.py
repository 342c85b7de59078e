"""The message of these tests: it says itself what is to become of it."""

from __future__ import annotations

from amqpkit.deliver.context import Context
from amqpkit.deliver.payload import Payload


class Note(Payload, type="note"):
    """A message that says how often it is to fail, and whether it kills its worker."""

    failures: int = 0
    deadly: bool = False
    seconds: float = 0.0


class TestFailure(Exception):
    """What a handler of these tests raises."""

    __test__ = False


def fail_as_told(note: Note, context: Context) -> None:
    """Fail on as many attempts as the note says."""
    if context.attempt <= note.failures:
        msg = f"failure {context.attempt}"
        raise TestFailure(msg)
