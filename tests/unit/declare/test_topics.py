"""The tree of topic patterns says what the plain matcher says, for thousands of patterns at once."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.routing import topic_matches
from amqpkit.declare.topics import TopicTree

KEYS = [""] + [".".join(words) for size in (1, 2, 3) for words in itertools.product(["a", "b", ""], repeat=size)]
patterns = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=4).map(".".join)
worded = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=4).map(".".join)


@settings(max_examples=100, deadline=None)
@given(planted=st.lists(patterns, max_size=8, unique=True), key=st.sampled_from(KEYS))
def test_a_key_meets_the_patterns_that_match_it(planted, key):
    tree = TopicTree((pattern, pattern) for pattern in planted)

    assert sorted(tree.meeting(key)) == sorted(pattern for pattern in planted if topic_matches(pattern, key))


# Without empty words: one alone is no key, though a pattern may ask for it; the tree says "may" then.
@settings(max_examples=100, deadline=None)
@given(planted=st.lists(worded, max_size=5, unique=True), other=worded)
def test_a_pattern_meets_those_that_match_some_key_in_common(planted, other):
    tree = TopicTree((pattern, pattern) for pattern in planted)
    common = {p for p in planted for key in KEYS if topic_matches(p, key) and topic_matches(other, key)}

    met = list(tree.meeting(other, pattern=True))

    assert common <= set(met)
    assert len(met) == len(set(met))
    long_keys = [".".join(words) for size in (4, 5) for words in itertools.product(["a", "b", ""], repeat=size)]
    for extra in set(met) - common:  # a common key may be longer than those above
        assert any(topic_matches(extra, key) and topic_matches(other, key) for key in long_keys + KEYS), extra
