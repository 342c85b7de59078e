"""Judging what is there against what is declared."""

import pytest

from amqpkit.model import Binding, Exchange, Policy, Queue, Topology
from amqpkit.operate.compare import compare


def conflicts(wanted, found):
    topology = Topology(queues=(found,)) if isinstance(found, Queue) else Topology(exchanges=(found,))
    result = compare([[wanted]], topology)
    assert not result.steps
    return [(each.object, each.argument, each.wanted, each.actual) for each in result.conflicts]


def queue(type_="quorum", **more):
    arguments = {"x-queue-type": type_, **more.pop("arguments", {})}
    return Queue("q", type=type_, arguments=arguments, **more)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (queue(), queue()),
        (Queue("q"), queue()),
        (Queue("q", type="classic"), queue("classic")),
        (queue(arguments={"a": 1, "b": 2}), queue(arguments={"b": 2, "a": 1})),
        (queue(arguments={"x-max-age": "1h"}), queue(arguments={"x-max-age": "60m"})),
        (queue(arguments={"x-max-age": "7D"}), queue(arguments={"x-max-age": "168h"})),
        (queue(arguments={"l": (1, "a")}), queue(arguments={"l": [1, "a"]})),
        (queue(arguments={"x-message-ttl": 2**40}), queue(arguments={"x-message-ttl": 2**40})),
        (Exchange("x", arguments={}), Exchange("x")),
    ],
)
def test_equal_in_other_words_is_equal(wanted, found):
    assert conflicts(wanted, found) == []


@pytest.mark.parametrize(
    ("wanted", "found", "argument", "wish", "fact"),
    [
        (queue(arguments={"x-message-ttl": 2}), queue(arguments={"x-message-ttl": 1}), "x-message-ttl", "2", "1"),
        (queue(arguments={"x-message-ttl": 2}), queue(), "x-message-ttl", "2", "not set"),
        (queue(), queue(arguments={"x-message-ttl": 1}), "x-message-ttl", "not set", "1"),
        (queue("classic"), queue(), "x-queue-type", "classic", "quorum"),
        (Queue("q", type="classic"), queue(), "x-queue-type", "classic", "quorum"),
        (queue(durable=False), queue(), "durable", "false", "true"),
        (queue(auto_delete=True), queue(), "auto_delete", "true", "false"),
        (
            queue(arguments={"x-dead-letter-exchange": "a"}),
            queue(arguments={"x-dead-letter-exchange": "b"}),
            "x-dead-letter-exchange",
            "a",
            "b",
        ),
        (queue(arguments={"x-mine": 1}), queue(arguments={"x-mine": "1"}), "x-mine", "1", '"1"'),
        (queue(arguments={"x-mine": True}), queue(arguments={"x-mine": 1}), "x-mine", "true", "1"),
        (queue(arguments={"x-max-age": "1h"}), queue(arguments={"x-max-age": "2h"}), "x-max-age", "1h", "2h"),
        (Exchange("x", type="topic"), Exchange("x"), "type", "topic", "direct"),
        (Exchange("x", durable=False), Exchange("x"), "durable", "false", "true"),
        (Exchange("x"), Exchange("x", internal=True), "internal", "false", "true"),
        (Exchange("x"), Exchange("x", arguments={"alternate-exchange": "a"}), "alternate-exchange", "not set", "a"),
    ],
)
def test_what_cannot_be_changed_is_a_conflict(wanted, found, argument, wish, fact):
    kind = "queue q" if isinstance(wanted, Queue) else "exchange x"

    assert conflicts(wanted, found) == [(kind, argument, wish, fact)]


def test_every_difference_of_every_object_is_named():
    wanted = (queue("classic", durable=False), Exchange("x", type="topic"))
    found = Topology(queues=(queue(),), exchanges=(Exchange("x"),))

    result = compare([wanted], found)

    assert [each.argument for each in result.conflicts] == ["x-queue-type", "durable", "type"]
    assert result.unchanged == 0
    assert all("new name" in each.remedy for each in result.conflicts)


def test_what_is_missing_is_created_in_the_order_given():
    exchange, binding = Exchange("x"), Binding("x", "q")

    result = compare([[exchange], [queue()], [binding]], Topology(queues=(queue(),)))

    assert [[step.wanted for step in stage] for stage in result.stages] == [[exchange], [binding]]
    assert [step.symbol for step in result.steps] == ["+", "+"]
    assert result.unchanged == 1


def test_what_nobody_declares_is_left_alone():
    foreign = Topology(
        exchanges=(Exchange("other"),), queues=(queue(),), policies=(Policy("other", ".*", {"max-length": 1}),)
    )

    result = compare([[Exchange("x")]], foreign)

    assert [step.address for step in result.steps] == ["exchange x"]


POLICY = Policy("p", "^q$", {"max-length": 1, "overflow": "reject-publish"})


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        (Policy("p", "^q$", {"overflow": "reject-publish", "max-length": 1}), None),
        (
            Policy("p", "^q$", {"max-length": 2, "overflow": "reject-publish"}),
            (("max-length", "2", "1"),),
        ),
        (
            Policy("p", "^r$", {"max-length": 1, "expires": 5}, apply_to="all", priority=7),
            (
                ("pattern", "^r$", "^q$"),
                ("apply-to", "all", "quorum_queues"),
                ("priority", "7", "100"),
                ("expires", "5", "not set"),
                ("overflow", "not set", "reject-publish"),
            ),
        ),
    ],
)
def test_a_policy_that_differs_is_overwritten_and_says_in_what(found, changes):
    result = compare([[POLICY]], Topology(policies=(found,)))

    assert [step.changes for step in result.steps] == ([changes] if changes else [])
    assert [step.symbol for step in result.steps] == (["~"] if changes else [])
    assert result.unchanged == (0 if changes else 1)


def test_bindings_that_differ_only_in_an_arguments_type_are_different_bindings():
    def bound(value):
        return Binding("x", "q", arguments={"n": value})

    result = compare([[bound(1), bound("1"), bound(True), bound(1.0)]], Topology(bindings=(bound(1),)))

    assert [step.wanted.arguments["n"] for step in result.steps] == ["1", True, 1.0]
    assert result.steps[0].address == "binding x -[n='1']-> queue q"


def test_a_binding_to_an_exchange_is_not_one_to_the_queue_of_that_name():
    to_exchange = Binding("x", "n", "k", destination_type="exchange")

    result = compare([[to_exchange]], Topology(bindings=(Binding("x", "n", "k"),)))

    assert [step.address for step in result.steps] == ["binding x -k-> exchange n"]
