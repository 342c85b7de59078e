"""Judging what is there against what is declared."""

import pytest

from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Create, Delete, Replace, Update
from amqpkit.declare.plan.planning import Wishes, make_plan, to_be_counted
from amqpkit.model import Binding, Exchange, Holding, Policy, Queue, Topology


def queue(type_="quorum", name="q", **more):
    arguments = {"x-queue-type": type_, **more.pop("arguments", {})}
    return Queue(name, type=type_, arguments=arguments, **more)


def topology(*objects, **more):
    def of(kind):
        return tuple(each for each in objects if isinstance(each, kind))

    return Topology(
        exchanges=of(Exchange), queues=of(Queue), bindings=of(Binding), policies=of(Policy), **{"owns": ("q",), **more}
    )


def plan(wanted, found=(), prune=False, holdings=None, **more):
    wanted = wanted if isinstance(wanted, Topology) else topology(*wanted, **more)
    return make_plan(wanted, Actual(topology(*found), holdings=holdings or {}), Wishes(prune=prune))


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
        (
            Policy("p", "^q$", {"max-length": 1, "max-age": "1h"}),
            Policy("p", "^q$", {"max-age": "60m", "max-length": 1}),
        ),
    ],
)
def test_equal_in_other_words_is_equal(wanted, found):
    result = plan([wanted], [found])

    assert (result.changes, result.unchanged, result.blocked) == ((), 1, False)


@pytest.mark.parametrize(
    ("wanted", "found", "name", "after", "before"),
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
def test_what_cannot_be_changed_must_be_replaced_and_blocks(wanted, found, name, after, before):
    result = plan([wanted], [found])

    (change,) = result.changes
    assert isinstance(change, Replace)
    assert [(each.name, each.after, each.before) for each in change.differences] == [(name, after, before)]
    assert (result.steps, result.blocked, result.unchanged) == ((), True, 0)
    assert (judged.symbol(change), judged.risk(change)) == ("-/+", "replace")


def test_every_difference_of_every_object_is_named():
    result = plan([queue("classic", durable=False), Exchange("x", type="topic")], [queue(), Exchange("x")])

    named = [(judged.address(change), each.name) for change in result.replaces for each in change.differences]
    assert named == [("exchange x", "type"), ("queue q", "x-queue-type"), ("queue q", "durable")]


def test_a_replacement_tells_what_is_at_stake_and_the_ways_around():
    wanted = queue("classic", arguments={"x-dead-letter-exchange": "dlx"})
    found = [queue("classic"), Exchange("x"), Binding("x", "q", "a"), Binding("x", "q", "b")]

    (change,) = plan([wanted], found, holdings={"q": Holding(5, 1)}).replaces

    text = judged.reason(change)
    assert "it holds 5 messages and has 1 consumer" in text
    assert "`amqpkit migrate queue q`" in text
    assert "it would lose its 2 bindings" in text
    assert "or set dead-letter-exchange by a policy" in text
    assert change.bindings == tuple(found[2:])


def test_queues_are_counted_that_a_plan_would_replace_or_delete():
    wanted, found = [queue(durable=False)], [queue(), queue(name="q.old")]

    assert to_be_counted(plan(wanted, found), Wishes()) == ("q",)
    assert to_be_counted(plan(wanted, found, prune=True), Wishes(prune=True)) == ("q", "q.old")


def test_what_is_missing_is_created_stage_by_stage():
    result = plan([Exchange("x"), queue(), Binding("x", "q")], [queue()])

    assert result.stages == ((Create(Exchange("x")),), (Create(Binding("x", "q")),))
    assert [judged.symbol(change) for change in result.steps] == ["+", "+"]
    assert result.unchanged == 1


@pytest.mark.parametrize(
    ("found", "differing"),
    [
        (Policy("p", "^q$", {"max-length": 2, "overflow": "reject-publish"}), ["max-length: 2 -> 1"]),
        (
            Policy("p", "^r$", {"max-length": 1, "expires": 5}, apply_to="all", priority=7),
            [
                "pattern: ^r$ -> ^q$",
                "apply-to: all -> quorum_queues",
                "priority: 7 -> 100",
                "expires: 5 -> not set",
                "overflow: not set -> reject-publish",
            ],
        ),
    ],
)
def test_a_policy_that_differs_changes_in_place_and_says_in_what(found, differing):
    wanted = Policy("p", "^q$", {"max-length": 1, "overflow": "reject-publish"})

    (change,) = plan([wanted], [found]).changes

    assert isinstance(change, Update)
    assert list(map(str, change.differences)) == differing
    assert (judged.symbol(change), judged.risk(change)) == ("~", "none")


def test_bindings_that_differ_only_in_an_arguments_type_are_different_bindings():
    def bound(value):
        return Binding("x", "q", arguments={"n": value})

    result = plan([bound(1), bound("1"), bound(True), bound(1.0)], [bound(1)])

    assert [change.wanted.arguments["n"] for change in result.steps] == ["1", True, 1.0]
    assert judged.address(result.steps[0]) == "binding x -[n='1']-> queue q"


def test_a_binding_to_an_exchange_is_not_one_to_the_queue_of_that_name():
    to_exchange = Binding("x", "n", "k", destination_type="exchange")

    result = plan([to_exchange], [Binding("x", "n", "k")])

    assert list(map(judged.address, result.steps)) == ["binding x -k-> exchange n"]


def test_of_three_bindings_the_one_that_left_the_file_goes():
    one, other, third = (Binding("h", "q", arguments=each) for each in ({"n": 1}, {"n": "1"}, {"x-match": "any"}))

    result = plan([queue(), one, third], [queue(), one, other, third], prune=True)

    assert result.steps == (Delete(other),)


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        (Create(queue()), ("configure q",)),
        (Create(queue(arguments={"x-dead-letter-exchange": "d"})), ("configure q", "read q", "write d")),
        (Create(Exchange("x", arguments={"alternate-exchange": "a"})), ("configure x", "read x", "write a")),
        (Create(Binding("x", "q")), ("write q", "read x")),
        (Create(Policy("p", "^q$", {})), ("policymaker",)),
        (Delete(queue()), ("configure q", "write amq.default", "policymaker")),
        (Delete(queue("classic")), ("configure q", "policymaker")),
        (Delete(Exchange("x", arguments={"alternate-exchange": "a"})), ("configure x",)),
    ],
)
def test_each_change_says_what_it_takes(change, needed):
    assert judged.requires(change) == needed


def test_an_exchange_that_dead_letters_go_to_and_nobody_has_is_a_warning():
    lost = queue(arguments={"x-dead-letter-exchange": "mail_dlx"})

    assert plan([lost]).warnings == (
        "queue q names the exchange mail_dlx, which is neither in the file nor on the broker",
    )
    assert plan([lost], [Exchange("mail_dlx")]).warnings == ()


def test_a_policys_dead_letter_keys_lose_to_a_queues_own():
    wanted = [
        queue("classic", arguments={"x-dead-letter-exchange": "arg-dlx", "x-message-ttl": 30000}),
        Exchange("arg-dlx"),
        Policy(
            "p", "^q$", {"message-ttl": 400, "dead-letter-exchange": "", "dead-letter-routing-key": "d"}, "queues", 1
        ),
    ]

    (warning,) = plan(wanted).warnings

    assert warning == 'policy "p" sets dead-letter-exchange, which q has as an argument: the argument wins'
