"""What to do next to a queue that is being migrated, judged by what is seen on the broker and by nothing else. Pure.

The way: messages are moved into a holding queue; the bindings follow; the old queue, empty and fenced, is deleted and
the new one made; messages are moved back; the bindings follow. Each step's effect is seen by whoever looks next, so a
run that was killed anywhere is gone on with by asking the same question again.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, assert_never

from amqpkit.declare.migration.scaffold import Note
from amqpkit.model import Binding, DeclaredObject

FEW: Final = 100
"""So many may be behind when the bindings move; those are overtaken by newer messages."""
ROUNDS: Final = 3
"""How often to catch up before: publishers may be as fast as we are."""


class Standing(Enum):
    """The queue of the name, as it stands on the broker."""

    OLD = auto()
    MISSING = auto()
    NEW = auto()


class Direction(Enum):
    """Where messages and bindings move."""

    IN = auto()
    BACK = auto()


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen on the broker, and (the last two) what this run knows of itself.

    The scaffold's own bindings are not among the bindings. `missing` is what the next steps lack, in order, `later`
    what the way back does, `scaffold` what is to be cleared away in the end. A classic queue whose own overflow drops
    messages is not `fenceable`.
    """

    standing: Standing
    holding: bool = False
    bindings: tuple[Binding, ...] = ()
    held_bindings: tuple[Binding, ...] = ()
    ready: int = 0
    held: int = 0
    note: Note | None = None
    fenced: bool = False
    fenceable: bool = True
    missing: tuple[DeclaredObject, ...] = ()
    later: tuple[DeclaredObject, ...] = ()
    scaffold: tuple[DeclaredObject, ...] = ()
    begun: bool = False
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Keep a note for later runs."""

    note: Note


@dataclass(frozen=True, slots=True)
class Build:
    """Create what the next steps need."""

    objects: tuple[DeclaredObject, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Move messages; `catching_up`: as many as there are now, while new ones still come."""

    direction: Direction
    messages: int
    catching_up: bool


@dataclass(frozen=True, slots=True)
class Rebind:
    """Bind the other queue to the same, then unbind this one, binding by binding."""

    direction: Direction
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Let the old queue refuse who publishes to it by its name."""


@dataclass(frozen=True, slots=True)
class DeleteOld:
    """Delete the old queue once it is seen empty twice, by everybody."""


@dataclass(frozen=True, slots=True)
class Unfence:
    """Take the fence away."""


@dataclass(frozen=True, slots=True)
class DeclareNew:
    """Make the new queue."""


@dataclass(frozen=True, slots=True)
class DeleteHolding:
    """Delete the holding queue once it is seen empty twice."""


@dataclass(frozen=True, slots=True)
class ClearAway:
    """Delete what is left of the scaffold."""

    objects: tuple[DeclaredObject, ...]


Step = Write | Build | Move | Rebind | Fence | DeleteOld | Unfence | DeclareNew | DeleteHolding | ClearAway


def next_step(seen: Seen) -> Step | None:
    """Say what to do next; None when there is nothing left to do."""
    if seen.standing is Standing.NEW and not seen.holding:
        return ClearAway(seen.scaffold) if seen.scaffold else None
    note = seen.note or Note()
    if not seen.begun:
        return Write(replace(note, runs=note.runs + 1))
    match seen.standing:
        case Standing.OLD:
            return _forward(seen, note)
        case Standing.MISSING:
            return _between(seen)
        case Standing.NEW:
            return _back(seen, note)
        case _:
            assert_never(seen.standing)


def _forward(seen: Seen, note: Note) -> Step:
    if seen.missing:
        return Build(seen.missing)
    if step := _emptied(Direction.IN, seen, note):
        return step
    return Fence() if seen.fenceable and not seen.fenced else DeleteOld()


def _between(seen: Seen) -> Step:
    if seen.fenced:
        return Unfence()
    return Build(seen.missing) if seen.missing else DeclareNew()


def _back(seen: Seen, note: Note) -> Step:
    if seen.fenced:
        return Unfence()
    if seen.missing:
        return Build(seen.missing)
    return _emptied(Direction.BACK, seen, note) or DeleteHolding()


def _emptied(direction: Direction, seen: Seen, note: Note) -> Step | None:
    """Catch up, move the bindings, move the rest; None when that is done.

    While both queues are bound nothing is moved, and nobody takes from the holding queue: so by how much that one
    grows is how many messages both have got. A run that is not killed writes that down with the bindings.
    """
    forward = direction is Direction.IN
    bindings, waiting = (seen.bindings, seen.ready) if forward else (seen.held_bindings, seen.held)
    if bindings:
        behind = waiting > FEW and seen.rounds < ROUNDS and note.opened is None
        return Move(direction, waiting, catching_up=True) if behind else Rebind(direction, bindings)
    if note.opened is not None:
        return Write(note.closed(seen.held))
    return Move(direction, waiting, catching_up=False) if waiting else None
