"""In what a vhost has drifted from its file."""

from dataclasses import replace

import pytest

from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.drift import find_drift
from amqpkit.model import Binding, Exchange, Policy, Queue, Surroundings, Topology

OURS = Policy("ours", "^mail$", {"max-length": 100, "overflow": "reject-publish"})
WANTED = Topology(
    exchanges=(Exchange("mail.x"),),
    queues=(Queue("mail"),),
    bindings=(Binding("mail.x", "mail"),),
    policies=(OURS,),
    owns=("mail",),
)


def drifted(actual=WANTED, operators=(), accepted=()):
    around = Surroundings(operator_policies=tuple(operators))
    return [str(each) for each in find_drift(WANTED, Actual(actual, around), frozenset(accepted)).found]


def with_policies(*policies):
    return replace(WANTED, policies=(OURS, *policies))


HIGH = Policy("high", ".*", {"max-length": 5}, "queues", 200)
CAP = Policy("cap", ".*", {"max-length": 10, "expires": 50}, "queues", 0)


@pytest.mark.parametrize(
    ("actual", "found"),
    [
        (WANTED, []),
        (replace(WANTED, bindings=()), ["missing: binding mail.x -> queue mail"]),
        (replace(WANTED, policies=()), ["missing: policy ours"]),
        (
            replace(WANTED, queues=(Queue("mail", durable=False),)),
            ["changed: queue mail (durable: false -> true)"],
        ),
        (
            replace(WANTED, policies=(replace(OURS, definition={"max-length": 7, "overflow": "reject-publish"}),)),
            ["changed: policy ours (max-length: 7 -> 100)"],
        ),
        (
            with_policies(HIGH),
            [
                (
                    'shadowed: queue mail by policy "high" (priority 200)'
                    " (max-length: 100 -> 5; overflow: reject-publish -> not set)"
                )
            ],
        ),
        (with_policies(replace(HIGH, priority=99)), []),
        (with_policies(replace(HIGH, pattern="^orders")), []),
        (replace(WANTED, queues=(*WANTED.queues, Queue("mail.old"), Queue("orders"))), ["extra: queue mail.old"]),
    ],
)
def test_each_kind_of_drift_is_told_apart(actual, found):
    assert drifted(actual) == found


def test_an_operator_policy_drifts_where_it_changes_what_a_queue_obeys():
    assert drifted(operators=[CAP]) == [
        'tightened: queue mail by operator policy "cap" (max-length: 100 -> 10; expires: not set -> 50)'
    ]
    assert drifted(operators=[replace(CAP, definition={"max-length": 1000})]) == []


def test_what_is_accepted_is_no_drift():
    assert drifted(with_policies(HIGH), operators=[CAP], accepted=["high", "cap"]) == []


def test_a_pattern_that_cannot_be_read_is_said():
    odd = Policy("odd", "(?<!", {"max-length": 1}, priority=999)

    assert "only RabbitMQ can read" in find_drift(WANTED, Actual(with_policies(odd))).warnings[0]
