"""What a walk writes onto the copies that it sends: why, how often, and what has become of it.

Pure.
"""

import traceback
from collections.abc import Sequence
from typing import Any, Final

from amqpkit.deliver import headers as h
from amqpkit.deliver.case import Case, Judged
from amqpkit.deliver.effects import GivenUp, Undone
from amqpkit.deliver.retry import Dead, Snooze

PIECE_MAX: Final = 1000
"""Characters kept of one frame, or of the error's text, in a traceback."""


def retry_headers(case: Case, judged: Judged, delay: str) -> dict[str, Any]:
    """What is new on a copy that comes back after `delay`, with one attempt fewer left."""
    trouble, attempt = _trouble(case, judged, "failed"), case.past.attempt + 1
    return {
        h.ATTEMPT: attempt,
        h.CRASHES: None,
        h.SNOOZES: None,
        h.NOT_BEFORE: None,
        h.FATE: None,
        h.COMPENSATIONS: None,
        h.ERROR: trouble.header(),
        h.HISTORY: h.history_with(case.received, trouble, attempt, delay),
    }


def snooze_headers(case: Case, snooze: Snooze) -> dict[str, Any]:
    """What is new on a copy that comes back with as many attempts as before."""
    return {
        h.ATTEMPT: case.past.attempt,
        h.CRASHES: case.past.crashes,
        h.SNOOZES: case.past.snoozes + 1,
        h.NOT_BEFORE: h.format_instant(snooze.until),
        h.FATE: None,
        h.COMPENSATIONS: None,
    }


def dead_headers(case: Case, judged: Judged, dead: Dead, undone: Sequence[Undone] = ()) -> dict[str, Any]:
    """What is new on a dead letter; `undone` are the compensations that were tried before, in their order."""
    trouble = _trouble(case, judged, dead.reason, kind=dead.fate)
    attempt = case.past.attempt + (1 if judged.handled else 0)
    error = trouble.header() | ({"errors": [dict(e) for e in judged.details]} if judged.details else {})
    return {
        h.ATTEMPT: attempt,
        h.CRASHES: case.past.crashes or None,
        h.NOT_BEFORE: None,
        h.FATE: dead.fate,
        h.COMPENSATIONS: h.compensations(undone) if undone else None,
        h.ERROR: error,
        h.HISTORY: h.history_with(case.received, trouble, attempt, None),
    }


def _trouble(case: Case, judged: Judged, reason: str, *, kind: str = "") -> h.Trouble:
    error, at, worker = judged.error, judged.moment.now, case.terms.worker
    if error is None:
        return h.Trouble(kind, reason, "", at, worker)
    if isinstance(error, GivenUp):  # told again by another worker than the one that it happened to
        return h.Trouble(error.kind or kind, error.message, "", at, worker)
    return h.Trouble(type(error).__qualname__, h.text_of(error), _story_of(error), at, worker)


def _story_of(error: BaseException) -> str:
    # each piece cut: a text of 300 kB would leave no room for the frames that it follows
    pieces = traceback.format_exception(error, limit=-30)
    return "".join(piece if len(piece) <= PIECE_MAX else f"{piece[:PIECE_MAX]}…\n" for piece in pieces)


def reason_of(judged: Judged, otherwise: str) -> str:
    """Why, in a line: the failure, or something else to say."""
    if judged.error is None:
        return otherwise
    if isinstance(judged.error, GivenUp):
        return judged.error.line[:500]
    return f"{type(judged.error).__qualname__}: {h.text_of(judged.error)}"[:500]
