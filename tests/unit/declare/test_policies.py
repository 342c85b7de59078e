"""The index of policies finds what trying them all finds; one rules, whole or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.policies import PolicyIndex, literal_prefix, reaches
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
