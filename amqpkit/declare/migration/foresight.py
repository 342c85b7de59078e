"""What the steps of a migration will be if nothing comes between, for showing them before. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from amqpkit.declare.migration.steps import (
    Build,
    ClearAway,
    DeclareNew,
    DeleteHolding,
    DeleteOld,
    Direction,
    Fence,
    Move,
    Rebind,
    Seen,
    Standing,
    Step,
    Unfence,
    Write,
    next_step,
)


def steps_ahead(seen: Seen) -> Iterator[Step]:
    """Give the steps from here to the end."""
    while step := next_step(seen):
        yield step
        seen = foresee(seen, step)


def foresee(seen: Seen, step: Step) -> Seen:
    """Say what will be seen after a step."""
    match step:
        case Write(note):
            return replace(seen, note=note, begun=True)
        case Build():
            return replace(seen, missing=(), holding=True)
        case Move() | Rebind():
            return _moved(seen, step)
        case Fence() | Unfence():
            return replace(seen, fenced=isinstance(step, Fence))
        case DeleteOld() | DeclareNew() | DeleteHolding():
            return _remade(seen, step)
        case ClearAway():
            return replace(seen, scaffold=())
        case _:
            assert_never(step)


def _moved(seen: Seen, step: Move | Rebind) -> Seen:
    forward = step.direction is Direction.IN
    if isinstance(step, Move):
        held = seen.held + step.messages if forward else 0
        return replace(seen, ready=0 if forward else seen.ready, held=held, rounds=seen.rounds + 1)
    if forward:
        return replace(seen, bindings=(), held_bindings=(*seen.held_bindings, *step.bindings), rounds=0)
    return replace(seen, held_bindings=(), bindings=(*seen.bindings, *step.bindings))


def _remade(seen: Seen, step: DeleteOld | DeclareNew | DeleteHolding) -> Seen:
    match step:
        case DeleteOld():
            return replace(seen, standing=Standing.MISSING, bindings=(), ready=0)
        case DeclareNew():
            return replace(seen, standing=Standing.NEW, missing=seen.later, later=())
        case DeleteHolding():
            return replace(seen, holding=False, held=0, held_bindings=())
        case _:
            assert_never(step)
