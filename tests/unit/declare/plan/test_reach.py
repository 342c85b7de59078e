"""Which policies reach an object, and whose wins."""

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.declare.naming import parts_pattern, pattern
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.declare.plan.reach import Reach
from amqpkit.model import Exchange, Policy, Queue, Surroundings, Topology

OURS = Policy("ours", r"^mail\.", {"max-length": 5})
WANTED = Topology(
    queues=(Queue("mail.a"), Queue("mail.b"), Queue("other")), exchanges=(Exchange("mail.x"),), policies=(OURS,)
)


def planned(*policies, operators=(), accepted=()):
    actual = Actual(Topology(policies=(OURS, *policies)), Surroundings(operator_policies=tuple(operators)))
    return make_plan(WANTED, actual, Wishes(accepted=frozenset(accepted)))


@pytest.mark.parametrize(
    ("theirs", "warnings", "blocking"),
    [
        (Policy("low", ".*", {"max-length": 1}, apply_to="all", priority=99), (), ()),
        (Policy("elsewhere", "^orders", {"max-length": 1}, apply_to="all", priority=999), (), ()),
        (Policy("classic", ".*", {"max-length": 1}, apply_to="classic_queues", priority=999), (), ()),
        (Policy("skipped", ".*", {"max-length": 1, "max-age": "1h"}, apply_to="queues", priority=999), (), ()),
        (Policy("exchanges", ".*", {"alternate-exchange": "a"}, apply_to="exchanges", priority=999), (), ()),
        (
            Policy("high", "a$", {"max-length": 1}, apply_to="queues", priority=101),
            ('policy "high" (priority 101) wins over "ours" (100): mail.a',),
            ("mail.a",),
        ),
        (
            Policy("same", ".*", {"max-length": 1}, apply_to="all", priority=100),
            ('policy "same" (priority 100) has the same priority as "ours" (100): mail.a, mail.b',),
            ("mail.a", "mail.b", "other"),
        ),
        (
            Policy("odd", "(?<!", {"max-length": 1}, priority=999),
            ('policy "odd" has a pattern that only RabbitMQ can read; whether it wins over ours is not known',),
            ("mail.a", "mail.b", "other"),
        ),
        (Policy("begins", r"^logs\.\z", {"max-length": 1}, priority=999), (), ()),
    ],
)
def test_a_foreign_policy_is_told_where_it_wins_and_blocks_where_it_may(theirs, warnings, blocking):
    plan = planned(theirs)

    assert plan.warnings == warnings
    assert [each.queues for each in plan.obstacles] == ([blocking] if blocking else [])
    assert plan.blocked == bool(blocking)


def test_a_policy_that_only_rabbitmq_can_read_blocks_until_it_is_accepted():
    odd = Policy("odd", r"^mail\.a\z", {"max-length": 1}, "queues", 999)
    cap = Policy("cap", r"^mail\.b\z", {"max-length": 1}, "queues", 0)

    foreign, operator = planned(odd, operators=[cap]).obstacles

    assert str(foreign) == (
        'policy "odd" is in no file, has priority 999 and a pattern that only RabbitMQ can read: it may reach queues '
        "of this one: mail.a; give it a priority below 100 or another pattern, or accept it with --accept-policy odd"
    )
    assert 'operator policy "cap" has a pattern that only RabbitMQ can read' in str(operator)
    assert operator.queues == ("mail.b",)
    assert planned(odd, operators=[cap], accepted=["odd", "cap"]).obstacles == ()
    assert planned(replace(odd, priority=99)).obstacles == ()


def test_an_operator_policy_blocks_until_it_is_accepted():
    cap = Policy("cap", ".*", {"max-length": 9, "expires": 1}, apply_to="queues", priority=0)

    (obstacle,) = planned(operators=[cap]).obstacles

    assert (obstacle.kind, obstacle.name, len(obstacle.queues)) == ("operator-policy", "cap", 3)
    assert "(expires, max-length): mail.a, mail.b, other; " in str(obstacle)
    assert "--accept-policy cap" in str(obstacle)
    assert not planned(operators=[cap], accepted=["cap"]).blocked


def test_a_policy_of_ours_that_left_the_file_is_cleared_away_by_prune():
    old = Policy("amqpkit.mail.old", "^mail", {"max-length": 1}, "queues", 100)
    wanted = replace(WANTED, owns=("mail",))
    actual = Actual(Topology(policies=(OURS, old)))

    (obstacle,) = make_plan(wanted, actual).obstacles

    assert "delete it with --prune" in obstacle.remedy
    assert not make_plan(wanted, actual, Wishes(prune=True)).blocked


def test_a_foreign_policy_that_is_accepted_does_not_block():
    high = Policy("high", ".*", {"max-length": 1}, apply_to="queues", priority=900)

    plan = planned(high, accepted=["high"])

    assert not plan.blocked
    assert plan.warnings == ('policy "high" (priority 900) wins over "ours" (100): mail.a, mail.b',)


def test_a_vhosts_limit_of_queues_blocks():
    actual = Actual(Topology(policies=(OURS,)), Surroundings(max_queues=2))

    (obstacle,) = make_plan(WANTED, actual).obstacles

    assert "may have 2 queues, has 0, and 3 are to be added" in str(obstacle)


def test_a_feature_that_the_broker_has_removed_blocks():
    wanted = Topology(queues=(Queue("t", type="classic", durable=False),))
    denied = Surroundings(denied=frozenset({"transient_nonexcl_queues"}))

    (obstacle,) = make_plan(wanted, Actual(surroundings=denied)).obstacles

    assert (obstacle.kind, obstacle.queues) == ("feature", ("t",))
    assert make_plan(wanted, Actual()).obstacles == ()


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
    reach = Reach([Policy("p", "", {}, apply_to=apply_to)])

    assert [each.name for each in objects if reach.reaching(each)] == reached


NAMES = st.text("ab.$^+x(", min_size=0, max_size=6)
PATTERNS = st.one_of(
    st.text("ab.^$|()[]*+?{}\\1", max_size=8),
    NAMES.map(pattern),
    NAMES.map(parts_pattern),
    NAMES.map(lambda name: f"^{re.escape(name)}"),
)


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@given(st.lists(PATTERNS, max_size=6), NAMES)
def test_a_pattern_reaches_what_a_search_finds(patterns, name):
    policies = [Policy(str(number), each, {}, "all", number) for number, each in enumerate(patterns)]
    readable = []
    for policy in policies:
        try:
            found = None if re.search(r"\{,\d", policy.pattern) else re.search(policy.pattern, name)
        except re.error:
            continue
        readable += [policy.name] if found else []

    reaching = Reach(policies).reaching(Queue(name))

    assert [policy.name for policy in reaching] == readable[::-1]


def test_twenty_thousand_policies_and_as_many_queues_are_no_four_hundred_million_questions():
    names = [f"team.{number}.work" for number in range(10_000)]
    policies = [Policy(name, pattern(name), {}) for name in names]
    policies += [Policy(f"{name}.parts", parts_pattern(name), {}) for name in names]

    before = time.process_time()
    reach = Reach(policies)
    reached = sum(len(reach.reaching(Queue(name))) for name in (*names, *(f"{name}.dlq" for name in names)))
    took = time.process_time() - before

    assert reached == 20_000
    assert took < 2.0
