"""What a script's play looks like from outside, and where two plays of it part.

Pure: knows no broker. Both players write the same values, so that comparing is `==`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from tests.twin.differential.script import Script


class Answer(Enum):
    """What the broker says of a publish."""

    CONFIRMED = "confirmed"
    NACKED = "nacked"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a client gets it."""

    message_id: str | None
    exchange: str | None
    routing_key: str | None
    redelivered: bool
    headers: Mapping[str, Any]


Result = Answer | tuple[Seen, ...]

Depths = Mapping[str, int]
"""How many messages are ready, by queue."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a step gave (nothing, for a wait or an empty queue), and what was ready once all had come to rest."""

    result: Result
    depths: Depths


@dataclass(frozen=True, slots=True)
class Course:
    """A play from its first step to its last, and what was left in each queue, in order.

    It ends at the moment in which it parts from another, if it was told to look: then nothing is left.
    """

    moments: tuple[Moment, ...]
    left: Mapping[str, tuple[Seen, ...]]


def plain(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Leave out of `x-death` the instants, which must differ, and make the client's own kinds of int plain."""
    return {name: _plain(value) for name, value in (headers or {}).items()}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items() if name != "time"}
        case list():
            return [_plain(inner) for inner in value]
        case int() if not isinstance(value, bool):
            return int(value)
        case _:
            return value


def difference(script: Script, real: Course, ours: Course) -> str | None:
    """Say where two plays part first, or None: the script up to there, and what each side saw."""
    for number, (theirs, mine) in enumerate(zip(real.moments, ours.moments, strict=False)):
        if theirs != mine:
            return "\n".join([*_told(script, number + 1), *_apart("", theirs, mine)])
    if real.left != ours.left:
        return "\n".join([*_told(script, len(script.steps)), "  left at the end:", *_apart("", real.left, ours.left)])
    return None


def _told(script: Script, steps: int) -> Iterator[str]:
    yield f"seed {script.seed}"
    for queue in script.topology.queues:
        yield f"  {queue.name} {dict(queue.arguments)}"
    for number, step in enumerate(script.steps[:steps], 1):
        yield f"  step {number}: {step}"


def _apart(where: str, real: Any, ours: Any) -> Iterator[str]:
    """Follow two values of one shape down to what differs."""
    if real == ours:
        return
    inside, outside = _parts(real), _parts(ours)
    if type(real) is type(ours) and inside.keys() == outside.keys() and inside:
        for name, part in inside.items():
            yield from _apart(f"{where} {name}", part, outside[name])
    else:
        yield f"   {where}\n      real: {real}\n      ours: {ours}"


def _parts(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return value
    return {str(at): part for at, part in enumerate(value)} if isinstance(value, list | tuple) else {}
