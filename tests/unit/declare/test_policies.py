"""The index of policies finds what trying them all finds; one rules, whole or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.policies import PolicyIndex, literal_prefix, reaches, readable
from amqpkit.model import Policy, Queue


@pytest.mark.parametrize(
    ("pattern", "prefix", "rest"),
    [
        (r"^email\.send$", "email.send", "$"),
        (r"^email\.send\.(retry\..+|dlq)$", "email.send.", r"(retry\..+|dlq)$"),
        ("^ab*", "a", "b*"),
        ("^ab?$", "a", "b?$"),
        ("^ab{2}$", "a", "b{2}$"),
        ("^a|b", "", "^a|b"),
        ("^(a|b)$", "", "^(a|b)$"),
        (r"^a\|b$", "a|b", "$"),
        (r"^a\d$", "a", r"\d$"),
        ("email", "", "email"),
        ("^", "", "^"),
        ("^a[|]b", "a", "[|]b"),
    ],
)
def test_the_literal_text_that_a_pattern_starts_with(pattern, prefix, rest):
    assert literal_prefix(pattern) == (prefix, rest)


texts = st.text(alphabet="ab.|*", max_size=3)
pieces = st.sampled_from(["a", "b", r"\.", r"\*", ".", "a*", "b?", "(a|b)", "|", "$", "^", "[ab]", "a{1,2}"])
expressions = st.tuples(st.sampled_from(["", "^"]), st.lists(pieces, max_size=4)).map(lambda p: p[0] + "".join(p[1]))


@settings(max_examples=400, deadline=None)
@given(patterns=st.lists(expressions, max_size=5), name=texts)
def test_the_index_finds_what_trying_every_policy_finds(patterns, name):
    policies = [Policy(str(at), pattern, {"max-length": 1}, "queues", at) for at, pattern in enumerate(patterns)]
    queue = Queue(name)

    ruling = PolicyIndex(policies).ruling(queue)

    found = [each for each in (ruling.winner, *ruling.rivals, *ruling.ignored) if each]
    assert found == [policy for policy in reversed(policies) if reaches(policy, queue)]


def test_one_key_that_the_type_lacks_disables_the_policy():
    mixed = Policy("mixed", "^a", {"max-length": 1, "delivery-limit": 3}, "queues", 9)
    plain = Policy("plain", "^a", {"max-length": 2}, "queues", 1)
    index = PolicyIndex([mixed, plain])

    assert index.ruling(Queue("a", "quorum")).winner == mixed
    assert index.ruling(Queue("a", "classic")).winner == plain
    assert index.ruling(Queue("a", "classic")).disabled == ((mixed, "delivery-limit"),)


def test_equal_priorities_are_rivals_and_lower_ones_are_ignored():
    policies = [
        Policy(name, ".*", {"max-length": 1}, "all", priority) for name, priority in (("a", 1), ("b", 1), ("c", 0))
    ]

    ruling = PolicyIndex(policies).ruling(Queue("q"))

    assert [ruling.winner.name, *(each.name for each in ruling.rivals)] == ["a", "b"]
    assert [each.name for each in ruling.ignored] == ["c"]


READ_AS_BYTES = [
    ("^[[:alnum:].]+$", ["email.send", "EMAIL"]),
    (r"^\w+$", ["EMAIL"]),
    ("^.{7}$", []),
    ("^.{14}$", ["очередь"]),
    ("^.{3}$", ["éa"]),
    ("(?i)^email", ["email.send", "EMAIL"]),
    ("^[[:alpha:]]+$", ["EMAIL"]),
    ("^[[:upper:][:digit:]]+$", ["EMAIL"]),
    ("^[А-Яа-я]+$", []),  # noqa: RUF001 - another alphabet
    ("^оче", ["очередь"]),
    ("^оче.{8}$", ["очередь"]),
    ("(?i)^ОЧЕ", []),
    (r"^email.send\Z", ["email.send"]),
]


@pytest.mark.parametrize(("pattern", "expected"), READ_AS_BYTES, ids=[each for each, _ in READ_AS_BYTES])
def test_a_pattern_reaches_what_rabbitmq_was_seen_to_reach(pattern, expected):
    """It reads names as bytes and letters as ASCII's; measured on 4.0 and 4.3 with these four names."""
    policy = Policy("p", pattern, {"max-length": 1}, "queues", 1)
    queues = [Queue(name) for name in ("очередь", "éa", "email.send", "EMAIL")]

    assert [queue.name for queue in queues if reaches(policy, queue)] == expected
    index = PolicyIndex([policy])
    assert [queue.name for queue in queues if index.ruling(queue).winner] == expected


@pytest.mark.parametrize(
    "pattern",
    [r"^\Qemail.send\E$", r"^email\z", r"^\p{L}+", r"^email\h*", r"^\v*email", "^o{,3}", "[[:^digit:]]", "[[:odd:]]"],
)
def test_what_rabbitmq_reads_in_another_way_is_not_read_at_all(pattern):
    """4.3 takes `{,3}` for a repetition and 4.0 for text, `\\v` is a class there and one character here (measured)."""
    assert readable(pattern) is None
    assert PolicyIndex([Policy("p", pattern, {}, "queues", 1)]).unreadable


def test_an_unreadable_pattern_may_reach_what_begins_as_it_does():
    index = PolicyIndex([Policy("p", r"^logs\.a\z", {}, "queues", 1), Policy("q", r"x\z", {}, "classic_queues", 1)])

    assert [each.name for each in index.perhaps(Queue("logs.a"))] == ["p"]
    assert index.perhaps(Queue("email")) == ()
    assert [each.name for each in index.perhaps(Queue("email", "classic"))] == ["q"]
