"""Which changes of a policy may drop messages, and how they are made."""

import pytest

from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Create, Update, UpdateLossy
from amqpkit.declare.plan.planning import make_plan
from amqpkit.model import Policy, Queue, Topology


def policy(priority=100, **definition):
    return Policy("p", "^q$", {key.replace("_", "-"): value for key, value in definition.items()}, "queues", priority)


def change(kind, before, after, others=(), **arguments):
    queue = Queue("q", type=kind, arguments={"x-queue-type": kind, **arguments})
    there = Topology(queues=(queue,), policies=(*others, *((before,) if before else ())))
    (found,) = make_plan(Topology(queues=(queue,), policies=(after,)), Actual(there)).steps
    return found


REFUSE = {"overflow": "reject-publish"}


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(
    ("before", "after", "loss"),
    [
        (policy(max_length=10), policy(max_length=3), "max-length 3 drops what is queued above it"),
        (policy(max_length=3), policy(max_length=10), None),
        (policy(max_length=3, **REFUSE), policy(max_length=2, **REFUSE), None),
        (policy(expires=50), policy(expires=20), "unused for 20 ms it is deleted, messages and all"),
        (policy(expires=20), policy(expires=50), None),
        (policy(message_ttl=50), policy(message_ttl=20), None),
        (
            policy(max_length=3, **REFUSE),
            policy(max_length=3),
            "when full it drops its oldest messages, instead of refusing new ones",
        ),
        (
            policy(dead_letter_exchange="d", max_length=5),
            policy(max_length=5),
            "without a dead-letter exchange it drops what is rejected or expires",
        ),
    ],
)
def test_what_a_change_in_place_may_drop(kind, before, after, loss):
    found = change(kind, before, after)

    if loss is None:
        assert isinstance(found, Update)
        assert (judged.symbol(found), judged.risk(found)) == ("~", "none")
    else:
        assert isinstance(found, UpdateLossy)
        assert found.losses == (f"{loss} (q)",)
        assert (judged.symbol(found), judged.risk(found)) == ("!", "may_drop")


def test_a_classic_queue_is_told_to_refuse_before_it_gets_its_limit():
    found = change("classic", policy(max_length=10, expires=9), policy(max_length=3, **REFUSE, expires=9))

    assert isinstance(found, UpdateLossy)
    assert found.first == policy(**REFUSE, expires=9, max_length=10)
    assert "in two steps: overflow first" in judged.reason(found)


def test_a_quorum_queue_that_refuses_keeps_its_backlog_in_one_step():
    assert isinstance(change("quorum", policy(max_length=10), policy(max_length=3, **REFUSE)), Update)


def test_a_new_policy_may_drop_messages_too():
    found = change("classic", None, policy(max_length=3, **REFUSE))

    assert isinstance(found, UpdateLossy)
    assert (found.found, found.first) == (None, policy(**REFUSE))
    assert isinstance(change("classic", None, policy(consumer_timeout=5)), Create)


def test_an_argument_or_another_policy_that_ruled_before_counts():
    lower = Policy("lower", ".*", {"max-length": 2}, "queues", 1)

    assert isinstance(change("quorum", None, policy(max_length=3), **{"x-max-length": 2}), Create)
    assert isinstance(change("quorum", None, policy(max_length=3), others=(lower,)), Create)
    assert isinstance(change("quorum", None, policy(max_length=1), others=(lower,)), UpdateLossy)


def test_losing_the_highest_priority_lets_somebody_elses_limit_in():
    theirs = Policy("theirs", ".*", {"max-length": 2}, "queues", 50)

    found = change("quorum", policy(max_length=10), policy(priority=10, max_length=10), others=(theirs,))

    assert isinstance(found, UpdateLossy)
    assert found.losses == ("max-length 2 drops what is queued above it (q)",)


def test_a_lower_delivery_limit_drops_only_where_no_dead_letter_exchange_catches():
    assert isinstance(change("quorum", policy(delivery_limit=9), policy(delivery_limit=5)), UpdateLossy)
    caught = {"x-dead-letter-exchange": "d"}
    assert isinstance(change("quorum", policy(delivery_limit=9), policy(delivery_limit=5), **caught), Update)
    assert isinstance(change("quorum", None, policy(delivery_limit=20)), Create)
    assert isinstance(change("quorum", None, policy(delivery_limit=-1)), Create)


def test_a_stream_is_cut_by_a_lower_age():
    week, day = policy(max_age="7D"), policy(max_age="24h")

    assert isinstance(change("stream", week, day), UpdateLossy)
    assert isinstance(change("stream", day, week), Update)
