"""A plan that is kept, reviewed, and done as it was or not at all."""

import copy
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.declare.plan.saved import fingerprint, read, require_fresh, restore, save
from amqpkit.errors import StalePlan
from amqpkit.model import Binding, Exchange, Holding, Policy, Queue, Surroundings, Topology
from amqpkit.ports import BrokerInfo

FULL = load_topology(Path(__file__).parents[1] / "full.yaml")
PLAIN = Wishes()
HERE = BrokerInfo("4.3.6", "rabbit@here")
EMPTY = Actual(Topology(vhost="v"))


def kept(wanted=FULL, actual=EMPTY, wishes=PLAIN, broker=HERE):
    document = save(wanted, actual, make_plan(wanted, actual, wishes), wishes, broker)
    return json.loads(json.dumps(document))


def check(saved, actual=EMPTY, broker=HERE):
    saved = restore(saved)
    require_fresh(saved, make_plan(saved.topology, actual, saved.wishes), actual, broker)


def test_what_was_kept_comes_back_and_is_fresh():
    document = kept(wishes=Wishes(prune=True, accepted=frozenset({"cap"})))

    saved = restore(document)

    assert make_plan(saved.topology, EMPTY, saved.wishes) == make_plan(FULL, EMPTY, saved.wishes)
    assert (saved.wishes.prune, saved.wishes.accepted) == (True, {"cap"})
    assert (saved.topology.work_queues.keys(), saved.topology.owns) == (FULL.work_queues.keys(), FULL.owns)
    check(document)


@pytest.mark.parametrize(
    "changed",
    [
        Topology(exchanges=(Exchange("mail", "topic", arguments={"alternate-exchange": "mail.unrouted"}),)),
        Topology(queues=(Queue("mail.extra"),)),
        Topology(policies=(Policy("theirs", ".*", {"max-length": 1}, "queues", 5),)),
        Topology(bindings=(Binding("amq.topic", "email.send", "x"),)),
    ],
)
def test_a_plan_is_stale_when_anything_that_concerns_it_has_changed(changed):
    with pytest.raises(StalePlan, match="the broker has changed"):
        check(kept(), Actual(replace(changed, vhost="v")))


@pytest.mark.parametrize(
    "changed",
    [
        Topology(queues=(Queue("orders"),), exchanges=(Exchange("shop"),), bindings=(Binding("shop", "orders"),)),
        Topology(policies=(Policy("theirs", "^orders", {"max-length": 1}, "queues", 900),)),
    ],
)
def test_other_peoples_work_does_not_make_a_plan_stale(changed):
    check(kept(), Actual(replace(changed, vhost="v")))


def test_an_operator_policy_makes_a_plan_stale_and_messages_do_not():
    cap = Policy("cap", ".*", {"max-length": 1}, "queues", 0)
    with pytest.raises(StalePlan):
        check(kept(), Actual(EMPTY.topology, Surroundings(operator_policies=(cap,))))
    check(kept(), Actual(EMPTY.topology, holdings={"email.send": Holding(5, 1)}))


@pytest.mark.parametrize(
    ("actual", "place"),
    [(Actual(Topology(vhost="w")), HERE), (EMPTY, BrokerInfo("4.3.6", "rabbit@there"))],
)
def test_a_plan_for_another_place_is_refused(actual, place):
    with pytest.raises(StalePlan, match='the plan is for vhost "v" of cluster "rabbit@here"'):
        check(kept(), actual, place)


def test_what_was_edited_after_the_review_is_refused():
    document = kept()
    document["changes"].pop()
    with pytest.raises(StalePlan, match="not what would be done now"):
        check(document)

    document = kept()
    document["desired"]["queues"][0]["durable"] = False
    with pytest.raises(StalePlan):
        check(document)


@pytest.mark.parametrize(("key", "value"), [("accepted_policies", ["theirs"]), ("prune", True)])
def test_what_was_asked_for_cannot_be_added_after_the_review(key, value):
    """Neither changes a step here; the one would let somebody else's policy rule, of which the review said: blocked."""
    theirs = Policy("theirs", ".*", {"max-length": 1}, "queues", 900)
    there = Actual(Topology(vhost="v", policies=(theirs,)))
    document = kept(actual=there)
    check(document, there)
    document[key] = value

    with pytest.raises(StalePlan):
        check(document, there)


@pytest.mark.parametrize("document", [{}, [], None, {"format_version": "2.0"}, {"format_version": "1.0"}])
def test_what_is_no_plan_is_refused(document):
    with pytest.raises(StalePlan, match="make the plan again"):
        restore(document)


STRANGE = [None, True, 0, -1, 1.5, 10**30, 1e308, "", "x", "\0", "\ud800", [], {}, [[]], [{}], {"a": None}, ["x"], [1]]
BUSY = Actual(
    Topology(
        vhost="v",
        exchanges=FULL.exchanges,
        queues=FULL.queues,
        bindings=FULL.bindings,
        policies=(*FULL.policies, Policy("theirs", ".*", {"max-length": 5}, "all", 500)),
    )
)


def places(value, path=()):
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def spoilt(document, dice, where):
    """Put something strange somewhere, or take something away."""
    spoilt = copy.deepcopy(document)
    *path, key = dice.choice(where)
    at = spoilt
    for each in path:
        at = at[each]
    if dice.random() < 0.2:
        del at[key]
    else:
        at[key] = dice.choice(STRANGE)
    return spoilt


def test_whatever_is_changed_in_a_plan_it_is_refused_or_can_be_planned():
    """Whoever can change the plan can also make its fingerprint fit: what is read must not crash what comes after."""
    document = kept()
    dice = random.Random(7)
    every = list(places(document))
    desired = [path for path in every if path[0] == "desired"]
    told, planned = [], 0
    for number in range(600):
        text = json.dumps(spoilt(document, dice, desired if number % 2 else every))
        try:
            saved = read(text)
        except StalePlan as error:
            told.append(str(error))
            continue
        planned += 1
        for actual in (EMPTY, BUSY):
            plan = make_plan(saved.topology, actual, saved.wishes)
            fingerprint(saved.topology, actual, saved.wishes).encode()
            try:
                require_fresh(saved, plan, actual, HERE)
            except StalePlan as error:
                told.append(str(error))
    assert "\n".join(told).encode()
    assert 100 < planned < 500


@pytest.mark.parametrize(
    ("key", "value"),
    [("prune", "no"), ("prune", 0), ("accepted_policies", "theirs"), ("accepted_policies", [1]), ("fingerprint", 5)],
)
def test_a_plan_is_read_strictly(key, value):
    with pytest.raises(StalePlan, match=f"no whole plan: {key}"):
        restore({**kept(), key: value})


def test_a_fingerprint_tells_types_apart_and_not_the_order_of_keys():
    def bound(**arguments):
        return Topology(bindings=(Binding("x", "q", arguments=arguments),))

    prints = [fingerprint(bound(n=value), EMPTY) for value in (1, "1", True, 1.5)]
    assert len(set(prints)) == 4
    assert fingerprint(bound(a=1, b=2), EMPTY) == fingerprint(bound(b=2, a=1), EMPTY)
