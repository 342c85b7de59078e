"""The steps of a migration in words."""

from typing import assert_never

from amqpkit.declare.identity import address
from amqpkit.declare.migration.request import Migration
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
    Step,
    Unfence,
    Write,
)


def told(step: Step, migration: Migration) -> str:
    """Say what a step does."""
    name, holding = migration.wanted.name, migration.holding.name
    match step:
        case Write():
            return f"policy {migration.scaffold.guard_name}: keep others off {holding}, and note that a run has begun"
        case Build(objects):
            return f"create {', '.join(map(address, objects))}"
        case Move() | Rebind():
            return _moving(step, holding if step.direction is Direction.IN else name)
        case ClearAway(objects):
            return f"delete {', '.join(map(address, objects))}"
        case Fence() | Unfence() | DeleteOld() | DeclareNew() | DeleteHolding():
            return _remaking(step, name, holding)
        case _:
            assert_never(step)


def _moving(step: Move | Rebind, target: str) -> str:
    if isinstance(step, Rebind):
        count = len(step.bindings)
        return f"{count} binding{'' if count == 1 else 's'}: bind {target}, then unbind, one after the other"
    meanwhile = ", while new ones still come" if step.catching_up else ""
    return f"move {step.messages:,} message{'' if step.messages == 1 else 's'} into {target}{meanwhile}"


def _remaking(step: Fence | Unfence | DeleteOld | DeclareNew | DeleteHolding, name: str, holding: str) -> str:
    match step:
        case Fence():
            return f"refuse who publishes straight to {name}"
        case Unfence():
            return f"let everybody publish to {name} again"
        case DeleteOld():
            return f"delete the old {name} when it is seen empty twice"
        case DeclareNew():
            return f"create the new {name}"
        case DeleteHolding():
            return f"delete {holding} when it is seen empty twice, and what else was put up"
        case _:
            assert_never(step)
