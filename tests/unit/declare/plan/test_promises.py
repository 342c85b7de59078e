"""What a plan says that each work queue promises."""

from dataclasses import replace

import pytest

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.promises import promises
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Policy, Surroundings, Topology

EMPTY = Actual()


def promise(text, actual=EMPTY):
    (found,) = promises(compile_topology(parse([("t.yaml", f"version: 1\nwork_queues: {{mail: {text}}}")], {})), actual)
    return found


def test_three_lines_promise_at_least_once_and_three_retries():
    found = promise("{}")

    assert found.guarantee == "at least once, nothing dropped"
    assert found.retries == "10s → 1m → 10m → mail.dlq after 11m10s"
    assert found.limit == "none: the broker's memory and disk are the limit"
    assert found.quorum_queues == 5


def test_limits_say_where_they_come_from():
    found = promise("{limits: {depth: 500}, max-length: 1000, retry: {delays: [1d, 1d]}}")

    assert found.limit == (
        'publishers wait above 500 messages; the broker refuses them above 1,000 messages (policy "amqpkit.mail")'
    )
    assert found.retries == "1d → 1d → mail.dlq after 2d"


def test_no_retry_and_jitter():
    assert promise("{retry: none}").retries == "none → mail.dlq"
    assert promise("{retry: {delays: [10s], jitter: 10%}}").quorum_queues == 5


def test_somebody_elses_policy_breaks_the_promise_by_name():
    theirs = Policy("theirs", ".*", {"message-ttl": 5, "overflow": "drop-head"}, "queues", 900)

    found = promise("{retry: none}", Actual(Topology(policies=(theirs,))))

    assert found.guarantee.startswith('not guaranteed: mail drops messages when full (policy "theirs" says so)')
    assert 'mail.dlq has message-ttl 5 (policy "theirs")' in found.guarantee


def test_an_operator_policys_delivery_limit_on_the_letters_is_told():
    cap = Policy("cap", "dlq$", {"delivery-limit": 3}, "queues", 0)

    found = promise("{}", Actual(surroundings=Surroundings(operator_policies=(cap,))))

    assert found.guarantee == 'not guaranteed: mail.dlq has delivery-limit 3 (operator policy "cap")'


@pytest.mark.parametrize("name", ["a", "z"], ids=["first by name", "last by name"])
def test_of_policies_of_equal_priority_either_may_rule_so_none_may_break_the_promise(name):
    theirs = Policy(name, "^mail$", {"overflow": "drop-head"}, "queues", 100)

    found = promise("{}", Actual(Topology(policies=(theirs,))))

    assert found.guarantee == f'not guaranteed: mail drops messages when full (policy "{name}" says so)'
    assert promise("{}", Actual(Topology(policies=(replace(theirs, priority=99),)))).guarantee.startswith("at least")
