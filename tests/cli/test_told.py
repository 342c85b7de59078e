"""The steps of a migration in words."""

import pytest

from amqpkit.cli.told import told
from amqpkit.declare.migration.request import Migration
from amqpkit.declare.migration.scaffold import Scaffold
from amqpkit.declare.migration.steps import Direction, Move, Rebind
from amqpkit.model import Binding, Queue

MIGRATION = Migration(Scaffold("jobs"), Queue("jobs"), None, Queue("jobs.migrating"))
ONE = Binding("shop", "jobs", "a")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Rebind(Direction.IN, (ONE,)), "1 binding: bind jobs.migrating, "),
        (Rebind(Direction.BACK, (ONE, ONE)), "2 bindings: bind jobs, "),
        (Move(Direction.IN, 1, catching_up=False), "move 1 message into jobs.migrating"),
        (Move(Direction.BACK, 1200, catching_up=True), "move 1,200 messages into jobs, while new ones still come"),
    ],
)
def test_one_is_not_many(step, words):
    assert told(step, MIGRATION).startswith(words)
