"""Which permissions a plan takes, held against a user's patterns."""

from itertools import pairwise

import pytest

from amqpkit.declare.plan.changes import Create, Delete, requires
from amqpkit.declare.plan.permissions import MOST, lacking, needs, questions, sample
from amqpkit.model import Binding, Exchange, Policy, Queue, Rights


def queue(name, **arguments):
    return Queue(name, arguments={"x-queue-type": "quorum", **arguments})


@pytest.mark.parametrize(
    ("pattern", "given"),
    [
        (".*", True),
        ("mail", True),  # it is searched for
        ("^mail$", False),
        (r"^e\.mail$", True),
        ("", False),
        ("^$", False),
        ("^(orders|e)[.]", True),
        ("[[:upper:]]", False),
        (r"^\w{1,}\v", True),  # RabbitMQ reads \v in its own way
        ("^((e", True),  # nobody can read it here
    ],
)
def test_a_pattern_is_read_as_rabbitmq_reads_it_and_doubt_lacks_nothing(pattern, given):
    assert lacking(Create(queue("e.mail")), Rights(pattern, "", "")) == (() if given else ("configure e.mail",))


def test_each_permission_has_its_own_pattern():
    dead = Create(queue("q", **{"x-dead-letter-exchange": "dead"}))

    assert lacking(dead, Rights("q", "dead", "q")) == ()
    assert lacking(dead, Rights("q", "q", "dead")) == ("read q", "write dead")
    assert lacking(Create(Binding("x", "q", "k")), Rights("", "q", "")) == ("read x",)
    assert lacking(Create(Policy("p", "^q$", {"max-length": 1})), Rights("", "", "")) == ()


def test_a_name_is_bytes_to_a_pattern():
    assert lacking(Create(queue("ё")), Rights("^..$", "", "")) == ()


def test_to_dead_letter_to_the_default_exchange_takes_a_permission_on_it():
    """Measured on 4.0 and 4.3: 403 for write access to amq.default."""
    assert requires(Create(queue("q", **{"x-dead-letter-exchange": ""}))) == (
        "configure q",
        "read q",
        "write amq.default",
    )


def test_the_fence_of_a_deletion_is_no_name():
    assert needs(Delete(queue("q"))) == ("configure q", "write amq.default")


def test_what_is_deleted_is_asked_about_without_what_it_dead_letters_to():
    doomed = queue("q", **{"x-dead-letter-exchange": "dead"})

    bare, plug = questions(Delete(doomed))
    assert (bare.name, bare.arguments) == ("q", {})
    assert (plug.destination, plug.destination_type) == ("", "exchange")
    assert questions(Delete(Exchange("x", arguments={"alternate-exchange": "y"}))) == (Exchange("x"),)
    assert questions(Create(doomed)) == (doomed,)
    assert questions(Delete(Binding("x", "q", "k"))) == (Binding("x", "q", "k"),)
    assert questions(Create(Policy("p", "^q$", {"max-length": 1}))) == ()


def test_the_broker_is_asked_about_few_names_from_the_whole_plan_and_of_every_kind():
    steps = [
        Create(Policy("p", "^q", {"max-length": 1})),
        *(Create(Exchange(f"x{number}")) for number in range(4)),
        *(Create(queue(f"q{number}")) for number in range(1000)),
        *(Create(Binding("x0", f"q{number}", "k")) for number in range(1000)),
    ]

    asked = [step.wanted for step in sample(steps)]

    assert len(asked) == MOST
    assert [each.name for each in asked if isinstance(each, Exchange)] == ["x0", "x1", "x2", "x3"]
    queues = [int(each.name[1:]) for each in asked if isinstance(each, Queue)]
    assert (queues[0], queues[-1], len(queues)) == (0, 999, 10)
    assert max(after - before for before, after in pairwise(queues)) <= 112
    assert len([each for each in asked if isinstance(each, Binding)]) == 11


def test_what_takes_the_same_permissions_is_asked_about_once():
    keys = [Create(Binding("x", "q", str(number))) for number in range(100)]

    assert sample(keys) == (keys[0],)
    assert sample([Create(queue("only"))]) == (Create(queue("only")),)
    assert sample([]) == ()
