"""Whose policy wins."""

import pytest

from amqpkit.model import Exchange, Policy, Queue, Topology
from amqpkit.operate.shadow import applies, shadows

OURS = Policy("ours", r"^mail\.", {"max-length": 5})
WANTED = Topology(
    queues=(Queue("mail.a"), Queue("mail.b"), Queue("other")), exchanges=(Exchange("mail.x"),), policies=(OURS,)
)


def warned(*policies, operators=()):
    return shadows(WANTED, Topology(policies=(OURS, *policies)), operators)


@pytest.mark.parametrize(
    ("theirs", "warnings"),
    [
        (Policy("low", ".*", {"max-length": 1}, apply_to="all", priority=99), ()),
        (Policy("elsewhere", "^orders", {"max-length": 1}, apply_to="all", priority=999), ()),
        (Policy("classic", ".*", {"max-length": 1}, apply_to="classic_queues", priority=999), ()),
        (Policy("exchanges", ".*", {"alternate-exchange": "a"}, apply_to="exchanges", priority=999), ()),
        (
            Policy("high", "a$", {"max-length": 1}, apply_to="queues", priority=101),
            ('policy "high" (priority 101) wins over "ours" (100): mail.a',),
        ),
        (
            Policy("same", ".*", {"max-length": 1}, apply_to="all", priority=100),
            ('policy "same" (priority 100) has the same priority as "ours" (100): mail.a, mail.b',),
        ),
        (
            Policy("odd", "(?<!", {"max-length": 1}, priority=999),
            ('policy "odd" has a pattern that only RabbitMQ can read; whether it wins over ours is not known',),
        ),
    ],
)
def test_a_foreign_policy_is_a_warning_where_it_wins(theirs, warnings):
    assert warned(theirs) == warnings


def test_an_operator_policy_rules_beside_ours():
    cap = Policy("cap", ".*", {"max-length": 9, "expires": 1}, apply_to="queues", priority=0)

    assert warned(operators=[cap]) == ('operator policy "cap" also rules (expires, max-length): mail.a, mail.b, other',)


def test_a_long_list_is_cut():
    many = Topology(queues=tuple(Queue(f"mail.{n}") for n in range(9)), policies=(OURS,))
    high = Policy("high", "", {"max-length": 1}, priority=200)

    assert shadows(many, Topology(policies=(OURS, high))) == (
        'policy "high" (priority 200) wins over "ours" (100): mail.0, mail.1, mail.2 and 6 more',
    )


@pytest.mark.parametrize(
    ("apply_to", "reached"),
    [
        ("all", ["classic", "quorum", "stream", "exchange"]),
        ("queues", ["classic", "quorum", "stream"]),
        ("classic_queues", ["classic"]),
        ("quorum_queues", ["quorum"]),
        ("streams", ["stream"]),
        ("exchanges", ["exchange"]),
    ],
)
def test_a_policy_reaches_the_kinds_that_it_names(apply_to, reached):
    objects = [Queue(kind, type=kind) for kind in ("classic", "quorum", "stream")] + [Exchange("exchange")]
    policy = Policy("p", "", {}, apply_to=apply_to)

    assert [each.name for each in objects if applies(policy, each)] == reached
