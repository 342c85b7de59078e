"""What to do next to a queue that is being migrated, for everything that may be seen."""

from dataclasses import replace

import pytest

from amqpkit.declare.migration.foresight import foresee, steps_ahead
from amqpkit.declare.migration.scaffold import Note, Scaffold
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
    Unfence,
    Write,
    next_step,
)
from amqpkit.model import Binding, Exchange, Policy

OLD, MISSING, NEW = Standing.OLD, Standing.MISSING, Standing.NEW
IN, BACK = Direction.IN, Direction.BACK
BOUND = (Binding("x", "work", "a"),)
HELD = (Binding("x", "work.migrating", "a"),)
X = (Exchange("work.migrating", "fanout"),)
OPEN, SHUT = Note(1, 5, opened=7), Note(1, 5)


def old(**more):
    return Seen(OLD, begun=True, holding=True, note=SHUT, **more)


def missing(**more):
    return Seen(MISSING, begun=True, holding=True, note=SHUT, **more)


def new(**more):
    return Seen(NEW, begun=True, **{"holding": True, "note": SHUT, **more})


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (Seen(NEW), None),
        (Seen(NEW, scaffold=X), ClearAway(X)),
        (Seen(OLD), Write(Note(1))),
        (Seen(OLD, note=Note(2, 9, opened=3)), Write(Note(3, 9, opened=3))),
        (Seen(MISSING, holding=True), Write(Note(1))),
        (Seen(NEW, holding=True, note=Note(1)), Write(Note(2))),
        (old(missing=X, bindings=BOUND), Build(X)),
        (old(bindings=BOUND, ready=101), Move(IN, 101, catching_up=True)),
        (old(bindings=BOUND, ready=101, rounds=3), Rebind(IN, BOUND)),
        (old(bindings=BOUND, ready=100), Rebind(IN, BOUND)),
        (replace(old(bindings=BOUND, ready=999), note=OPEN), Rebind(IN, BOUND)),
        (replace(old(ready=999, held=10), note=OPEN), Write(Note(1, 8))),
        (replace(old(ready=999, held=6), note=OPEN), Write(Note(1, 5))),
        (old(ready=1, held_bindings=HELD), Move(IN, 1, catching_up=False)),
        (old(ready=1, fenced=True), Move(IN, 1, catching_up=False)),
        (old(held=9), Fence()),
        (old(fenced=True), DeleteOld()),
        (old(fenceable=False), DeleteOld()),
        (missing(fenced=True, missing=X), Unfence()),
        (missing(missing=X), Build(X)),
        (missing(held=9, held_bindings=HELD), DeclareNew()),
        (new(fenced=True), Unfence()),
        (new(missing=X), Build(X)),
        (new(held=101, held_bindings=HELD), Move(BACK, 101, catching_up=True)),
        (new(held=101, held_bindings=HELD, rounds=3), Rebind(BACK, HELD)),
        (new(held=1, held_bindings=HELD, bindings=BOUND), Rebind(BACK, HELD)),
        (new(held=999, held_bindings=HELD, note=OPEN), Rebind(BACK, HELD)),
        (new(held=9, bindings=BOUND, note=OPEN), Write(Note(1, 7))),
        (new(held=9, ready=50, bindings=BOUND), Move(BACK, 9, catching_up=False)),
        (new(ready=50, bindings=BOUND), DeleteHolding()),
    ],
)
def test_what_is_seen_says_what_is_next(seen, step):
    assert next_step(seen) == step


def test_while_both_queues_are_bound_nothing_moves_and_nothing_is_deleted():
    """Else what the holding queue grows by would not be how many messages both have got."""
    for standing in (OLD, NEW):
        for waiting in (0, 1, 1000):
            seen = Seen(standing, True, BOUND, HELD, waiting, waiting, OPEN, begun=True)
            assert isinstance(next_step(seen), Rebind)


def test_every_way_ends_and_the_old_queue_goes_only_when_it_is_unbound_and_empty():
    for ready in (0, 50, 5000):
        seen = Seen(OLD, bindings=BOUND, ready=ready, missing=X, later=X, scaffold=())
        for step in steps_ahead(seen):
            if isinstance(step, DeleteOld):
                assert (seen.ready, seen.bindings, seen.holding, seen.fenced) == (0, (), True, True)
            if isinstance(step, DeleteHolding):
                assert (seen.held, seen.held_bindings, seen.bindings) == (0, (), (Binding("x", "work", "a"),))
            seen = foresee(seen, step)
        assert (seen.standing, seen.holding) == (NEW, False)


@pytest.mark.parametrize("note", [Note(), Note(3, 17), Note(1, 0, opened=0), Note(12, 3, opened=300)])
@pytest.mark.parametrize("name", ["work", "a/ü% (?#b)", "a|b[c]"])
def test_a_note_survives_in_the_pattern_of_the_guard(name, note):
    guard = Scaffold(name).guard(note)

    assert Scaffold.note_of(guard) == note
    assert Scaffold.note_of(Policy("p", "^a$", {"max-length": 1})) is None
