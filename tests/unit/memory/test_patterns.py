"""Policies reach names in memory as they do in a plan: RabbitMQ reads bytes, and letters as those of ASCII."""

import pytest

from amqpkit.brokers.memory.policy import governing, policy_fault
from amqpkit.brokers.memory.profile import NotModelled
from amqpkit.declare.policies import reaches
from amqpkit.model import Policy, Queue


def theirs(pattern):
    return Policy("theirs", pattern, {"max-length": 5}, "queues", 0)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("^jobs$", "jobs", True),
        ("^caf.$", "café", False),  # the letter is two bytes
        ("^caf..$", "café", True),
        ("^café$", "café", True),
        (r"^caf\w+$", "café", False),
        ("^[[:alpha:]]+$", "jobs", True),
        ("^[[:alpha:]]+$", "café", False),
        ("^[[:digit:]]+$", "42", True),
        ("^[[:digit:]]+$", "[:d]", False),
        (r"^\d$", "٣", False),
    ],
)
def test_memory_and_plan_read_a_pattern_alike(pattern, name, fits):
    queue = Queue(name, "quorum")

    assert policy_fault(theirs(pattern), since_4_3=True) is None
    assert (governing(name, "quorum", [theirs(pattern)]) is not None) is fits
    assert reaches(theirs(pattern), queue) is fits


def test_what_only_rabbitmq_can_read_is_not_modelled_and_what_nobody_can_is_refused():
    for pattern in ("^a{,3}$", r"^a\v", "[[:odd:]]"):
        with pytest.raises(NotModelled, match="a pattern that only RabbitMQ can read"):
            policy_fault(theirs(pattern), since_4_3=True)
    assert "is not a regular expression" in policy_fault(theirs("("), since_4_3=True)
