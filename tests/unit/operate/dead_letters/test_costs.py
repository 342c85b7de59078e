import pytest

from amqpkit.model import Policy, Queue, Topology
from amqpkit.operate.dead_letters.costs import Price, cost_of_looking


def price(kind="quorum", limit=None, policies=(), operators=(), version="4.0.5"):
    arguments = {"x-queue-type": kind} | ({} if limit is None else {"x-delivery-limit": limit})
    actual = Topology(queues=(Queue("q", kind, arguments=arguments),), policies=policies)
    cost = cost_of_looking("q", actual, version=version, operator_policies=operators)
    return cost.price, cost.limit


def policy(limit, priority=1, pattern="^q$", apply_to="all"):
    return Policy(f"p{priority}", pattern, {"delivery-limit": limit}, apply_to, priority)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (Price.EACH_TIME, 20)),
        ({"version": "4.3.6"}, (Price.IF_IT_CRASHES, 20)),
        ({"version": "4.10.0"}, (Price.IF_IT_CRASHES, 20)),
        ({"version": "3.13.7"}, (Price.EACH_TIME, 20)),
        ({"limit": 3}, (Price.EACH_TIME, 3)),
        ({"limit": 0}, (Price.EACH_TIME, 0)),
        ({"limit": -1}, (Price.NOTHING, None)),
        ({"limit": -1, "policies": (policy(20),)}, (Price.EACH_TIME, 20)),
        ({"limit": -1, "policies": (policy(20, pattern="^other"),)}, (Price.NOTHING, None)),
        ({"limit": -1, "policies": (policy(20), policy(-1, priority=2))}, (Price.NOTHING, None)),
        ({"limit": -1, "operators": (policy(5),)}, (Price.EACH_TIME, 5)),
        ({"policies": (policy(-1),)}, (Price.NOTHING, None)),
        ({"policies": (policy(-1, apply_to="classic_queues"),)}, (Price.EACH_TIME, 20)),
        ({"kind": "classic"}, (Price.NOTHING, None)),
        ({"kind": "stream"}, (Price.REFUSED, None)),
    ],
)
def test_the_price_of_a_look(settings, expected):
    assert price(**settings) == expected


def test_a_price_above_nothing_is_told_with_its_remedy():
    warning = cost_of_looking("q", Topology(queues=(Queue("q"),)), version="4.0.5").warning

    assert "20" in warning
    assert '"delivery-limit": -1' in warning


@pytest.mark.parametrize("actual", [None, Topology()])
def test_what_cannot_be_read_is_not_known(actual):
    assert cost_of_looking("q", actual, version="4.3.6").price is Price.UNKNOWN


def test_nothing_to_pay_is_nothing_to_warn_of():
    actual = Topology(queues=(Queue("q", arguments={"x-delivery-limit": -1}),))

    assert cost_of_looking("q", actual, version="4.3.6").warning == ""
