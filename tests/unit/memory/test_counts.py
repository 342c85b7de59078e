"""Delivery counts, limits, order and timeouts: sections 2.1, 2.4, 3, 7 and 9 of the measured broker facts."""

import pytest

from amqpkit.brokers.memory.channel import Fate
from amqpkit.brokers.memory.queue import Way
from amqpkit.model import Policy


def counts(lab, out) -> dict[str, int]:
    return {name: value for name, value in lab.headers(out).items() if name.endswith("-count")}


@pytest.mark.parametrize(
    ("version", "way", "expected"),
    [
        ("4.3", Way.NACK, {"x-acquired-count": 1}),
        ("4.3", Way.REJECT, {"x-acquired-count": 1, "x-delivery-count": 1}),
        ("4.3", Way.CLOSED, {"x-acquired-count": 1, "x-delivery-count": 1}),
        ("4.0", Way.NACK, {"x-delivery-count": 1}),
        ("4.0", Way.REJECT, {"x-delivery-count": 1}),
        ("4.0", Way.CLOSED, {"x-delivery-count": 1}),
    ],
)
async def test_what_counts_as_a_failure_depends_on_version_and_way(make_lab, version, way, expected):  # §2.1, case 104
    lab = make_lab(version)
    lab.queue("q")
    reader = lab.read("q")
    lab.publish("q", "m")
    first = reader.inbox.pop()
    assert (counts(lab, first), first.stored.redelivered) == ({}, False)

    if way is Way.CLOSED:
        lab.broker.close_channel(reader.channel)
        reader = lab.read("q")
    else:
        lab.broker.requeue(first, way)

    again = reader.inbox.pop()
    assert (counts(lab, again), again.stored.redelivered) == (expected, True)


# Each letter is one delivery: N nack, R reject with requeue, C channel lost; n, r without requeue.
# Then what the next queue shows.
@pytest.mark.parametrize(
    ("version", "kinds", "lives", "shown"),
    [  # all probed
        ("4.3", "qq", "n", {}),
        ("4.3", "qq", "r", {"x-acquired-count": 1, "x-delivery-count": 1}),
        ("4.3", "qq", "RNn", {"x-acquired-count": 1, "x-delivery-count": 1}),
        ("4.3", "qq", "RNr", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("4.3", "cq", "RRNn", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("4.3", "cq", "r", {"x-acquired-count": 1, "x-delivery-count": 1}),
        ("4.3", "qc", "RRn", {}),
        ("4.0", "qq", "n", {"x-delivery-count": 1}),
        ("4.0", "qq", "RNn", {"x-delivery-count": 1}),
        ("4.0", "cq", "RRNn", {}),
        ("4.0", "qq", "CCn", {"x-delivery-count": 3}),
        ("4.0", "qq", "RCr", {"x-delivery-count": 2}),
        ("4.3", "qq", "CCn", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("4.3", "cq", "CCn", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("4.0", "qc", "r", {}),
    ],
)
async def test_counts_travel_through_a_dead_letter_exchange(make_lab, version, kinds, lives, shown):  # §2.1
    lab = make_lab(version)
    first, second = ({"q": "quorum", "c": "classic"}[kind] for kind in kinds)
    lab.queue("a", first, dead_letter_exchange="", dead_letter_routing_key="b")
    lab.queue("b", second)
    reader, after = lab.read("a"), lab.read("b")
    lab.publish("a", "m")
    for letter in lives:
        if letter == "C":
            lab.broker.close_channel(reader.channel)
            reader = lab.read("a")
            continue
        way = Way.NACK if letter in "nN" else Way.REJECT
        (lab.broker.requeue if letter.isupper() else lab.broker.refuse)(reader.inbox.pop(), way)

    assert counts(lab, after.inbox[0]) == shown


@pytest.mark.parametrize(("limit", "deliveries"), [(0, 1), (1, 2), (5, 6), (None, 21)])
async def test_a_limit_of_n_allows_n_plus_one_deliveries_and_20_is_the_default(lab, limit, deliveries):  # §2.1
    lab.queue("dlq")
    more = {} if limit is None else {"delivery_limit": limit}
    lab.queue("q", dead_letter_exchange="", dead_letter_routing_key="dlq", **more)
    reader = lab.read("q")
    lab.publish("q", "m")
    seen = 0
    while reader.inbox:
        seen += 1
        lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
    assert seen == deliveries
    assert lab.broker.ledger() == {"dlq": ["m"]}
    assert lab.broker.messages("dlq")[0].deaths[0].reason == "delivery_limit"


async def test_minus_one_means_no_limit_and_classic_queues_have_none(lab):  # §2.1, case 115
    lab.queue("endless", delivery_limit=-1)
    lab.queue("classic", "classic")
    for name in ("endless", "classic"):
        reader = lab.read(name)
        lab.publish(name, "m")
        for _ in range(60):
            lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
        assert reader.ids == ["m"]


async def test_past_the_limit_without_a_dead_letter_exchange_it_is_dropped(lab):  # §2.1
    lab.queue("q", delivery_limit=0)
    reader = lab.read("q")
    lab.publish("q", "m")
    lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
    assert lab.broker.journey("m") == ["q", "dropped (delivery_limit)"]


@pytest.mark.parametrize(("version", "survives"), [("4.3", False), ("4.0", True)])
async def test_a_dead_letter_queue_with_the_default_limit_loses_to_one_peek_on_4_3(make_lab, version, survives):  # §2.1
    lab = make_lab(version)
    lab.queue("dlq")
    lab.queue("q", dead_letter_exchange="", dead_letter_routing_key="dlq")
    reader = lab.read("q")
    lab.publish("q", "m")
    while reader.inbox:
        lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
    assert lab.broker.ledger() == {"dlq": ["m"]}

    peek = lab.read("dlq")
    lab.broker.close_channel(peek.channel)

    assert lab.broker.ledger() == ({"dlq": ["m"]} if survives else {})


async def test_a_carried_count_above_the_limit_dies_by_a_nack_too_on_4_3(make_lab):  # probed
    lab = make_lab("4.3")
    lab.queue("strict", delivery_limit=1)
    lab.queue("q", dead_letter_exchange="", dead_letter_routing_key="strict")
    reader, after = lab.read("q"), lab.read("strict")
    lab.publish("q", "m")
    for _ in range(4):
        lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
    lab.broker.refuse(reader.inbox.pop())
    assert after.ids == ["m"]
    lab.broker.requeue(after.inbox.pop(), Way.NACK)
    assert lab.broker.ledger() == {}


async def test_one_poison_message_takes_its_prefetched_neighbours_along(lab):  # §2.1
    lab.queue("dlq")
    lab.queue("q", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dlq")
    names = [f"m{n}" for n in range(10)]
    lab.publish("q", *names)
    for _ in range(3):
        lab.broker.close_channel(lab.read("q", prefetch=10).channel)
    assert lab.broker.ledger() == {"dlq": names}


@pytest.mark.parametrize(("rule", "limit"), [(1, 1), (5, 3), (-1, 3)])
async def test_of_two_delivery_limits_the_smaller_wins_and_a_negative_one_loses(lab, rule, limit):  # topology §2.2
    lab.queue("q", delivery_limit=3)
    lab.declare(Policy("p", "^q$", {"delivery-limit": rule}))
    assert lab.broker.vhost.queues["q"].settings.delivery_limit == limit


# --- §9 order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "taken", "given_back", "order"),
    [
        ("quorum", 1, "a", "abcdef"),
        ("classic", 1, "a", "abcdef"),
        ("quorum", 3, "cab", "cabdef"),
        ("classic", 3, "cab", "abcdef"),
        ("quorum", 3, "abc", "abcdef"),
        ("classic", 3, "abc", "abcdef"),
    ],
)
async def test_what_is_given_back_goes_in_front_or_to_its_old_place(lab, kind, taken, given_back, order):  # §9
    lab.queue("q", kind)
    lab.publish("q", *"abcdef")
    reader = lab.read("q", prefetch=taken)
    lab.broker.cancel(reader.consumer)
    held = {out.stored.id: out for out in reader.inbox}
    for name in given_back:
        lab.broker.requeue(held[name])
    assert "".join(lab.drained("q")) == order


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_dead_channel_gives_back_in_order(lab, kind):  # §9
    lab.queue("q", kind)
    lab.publish("q", *"abcdef")
    reader = lab.read("q", prefetch=4)
    lab.broker.cancel(reader.consumer)
    lab.broker.ack(reader.inbox[1])
    lab.broker.close_channel(reader.channel)
    assert "".join(lab.drained("q")) == "acdef"


# --- §2.4 priorities and limits --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "sent", "served"),
    [  # probed: on 4.0 a low one passes after two high ones only when it has waited longer than the next high one
        ("4.3", "l1 h1 l2 h2 l3 h3 u1", "h1 h2 h3 u1 l1 l2 l3"),
        ("4.0", "l0 h0 l1 h1 l2 h2 l3 h3 l4 h4 l5 h5", "h0 h1 l0 h2 h3 l1 h4 h5 l2 l3 l4 l5"),
        ("4.0", "h0 h1 h2 h3 h4 h5 l0 l1", "h0 h1 h2 h3 h4 h5 l0 l1"),
    ],
)
async def test_quorum_priorities_are_strict_on_4_3_and_two_to_one_on_4_0(make_lab, version, sent, served):  # §2.4
    lab = make_lab(version)
    lab.queue("q")
    for name in sent.split():
        lab.publish("q", name, priority={"h": 9, "l": 0, "u": None}[name[0]])
    assert lab.drained("q") == served.split()


@pytest.mark.parametrize(("version", "served"), [("4.3", ["high", "low"]), ("4.0", ["low", "high"])])
async def test_what_expires_has_had_its_turn_among_the_priorities_of_4_0(make_lab, version, served):  # §2.4
    lab = make_lab(version)
    lab.queue("q")
    lab.publish("q", "first", "second", expiration="1")
    await lab.clock.advance("1s")
    lab.publish("q", "low", priority=0)
    lab.publish("q", "high", priority=9)
    assert lab.drained("q") == served


async def test_a_returned_low_one_precedes_waiting_high_ones(lab):  # §2.4
    lab.queue("q")
    lab.publish("q", "low", priority=0)
    reader = lab.read("q")
    lab.broker.cancel(reader.consumer)
    lab.publish("q", "high", priority=9)
    lab.broker.requeue(reader.inbox[0])
    assert lab.drained("q") == ["low", "high"]


async def test_a_dead_letter_on_its_way_counts_and_may_close_its_queue(lab):  # §2.2, measured on both
    lab.queue("dlq")
    dead_letters = {
        "dead_letter_strategy": "at-least-once",
        "dead_letter_exchange": "",
        "dead_letter_routing_key": "dlq",
    }
    lab.queue("q", max_length=3, overflow="reject-publish", **dead_letters)
    lab.publish("q", *"abcd")
    reader = lab.read("q", prefetch=2)  # two are left, which opens the queue
    lab.broker.cancel(reader.consumer)

    lab.broker.requeue(reader.inbox[0])
    lab.broker.refuse(reader.inbox[1])

    assert lab.broker.ledger() == {"dlq": ["b"], "q": ["a", "c", "d"]}
    assert lab.publish("q", "e") == [Fate.NACKED]


async def test_classic_priorities_need_x_max_priority_and_are_capped_by_it(lab):  # §2.4
    lab.queue("plain", "classic")
    lab.queue("ranked", "classic", max_priority=5)
    for name in ("plain", "ranked"):
        lab.publish(name, "low", priority=1)
        lab.publish(name, "five", priority=5)
        lab.publish(name, "nine", priority=9)
        lab.publish(name, "none")
    assert lab.drained("plain") == ["low", "five", "nine", "none"]
    assert lab.drained("ranked") == ["five", "nine", "low", "none"]


@pytest.mark.parametrize(("kind", "stored"), [("quorum", 4), ("classic", 3)])
async def test_reject_publish_is_exact_on_classic_and_one_late_on_quorum(lab, kind, stored):  # §2.4, case 304
    lab.queue("q", kind, max_length=3, overflow="reject-publish")
    fates = lab.publish("q", *"abcdef")
    assert fates == [Fate.CONFIRMED] * stored + [Fate.NACKED] * (6 - stored)
    assert lab.broker.depth("q") == stored


@pytest.mark.parametrize(("limit", "reopens_at"), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (10, 8)])
async def test_a_full_quorum_queue_opens_again_at_80_percent(lab, limit, reopens_at):  # §2.4, probed
    lab.queue("q", max_length=limit, overflow="reject-publish")
    lab.publish("q", *[f"m{n}" for n in range(limit + 1)])
    reader = lab.read("q")
    lab.broker.cancel(reader.consumer)
    left = limit  # unacked messages do not count
    while lab.publish("q", "more") == [Fate.NACKED]:
        reader = lab.read("q")
        lab.broker.cancel(reader.consumer)
        left -= 1
    assert left == reopens_at


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_drop_head_dead_letters_the_oldest(lab, kind):  # §2.4
    lab.queue("dlq")
    lab.queue("q", kind, max_length=3, dead_letter_exchange="", dead_letter_routing_key="dlq")
    assert lab.publish("q", *"abcde") == [Fate.CONFIRMED] * 5
    assert lab.broker.ledger() == {"dlq": ["a", "b"], "q": ["c", "d", "e"]}
    assert lab.broker.messages("dlq")[0].deaths[0].reason == "maxlen"


@pytest.mark.parametrize(
    ("kind", "fate", "kept", "dead"),
    [("classic", Fate.NACKED, ["a", "b"], ["c"]), ("quorum", Fate.CONFIRMED, ["b", "c"], ["a"])],
)
async def test_reject_publish_dlx_buries_the_new_one_on_classic_and_is_drop_head_on_quorum(
    lab, kind, fate, kept, dead
):  # §2.4
    lab.queue("dlq")
    more = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}
    lab.queue("q", kind, max_length=2, overflow="reject-publish-dlx", **more)
    assert lab.publish("q", *"abc")[-1] is fate
    assert lab.broker.ledger() == {"dlq": dead, "q": kept}


async def test_bytes_are_counted_on_classic_queues(lab):  # §2.4
    lab.queue("q", "classic", max_length_bytes=10, overflow="reject-publish")
    assert lab.publish("q", *"abc") == [Fate.CONFIRMED, Fate.CONFIRMED, Fate.NACKED]


async def test_one_policy_with_limit_and_reject_publish_empties_a_classic_backlog(lab):  # topology facts, finding 4
    lab.queue("classic", "classic")
    lab.queue("quorum")
    for name in ("classic", "quorum"):
        lab.publish(name, *[f"{name}{n}" for n in range(10)])
    lab.declare(Policy("p", ".*", {"max-length": 3, "overflow": "reject-publish"}, apply_to="queues"))
    assert {name: len(ids) for name, ids in lab.broker.ledger().items()} == {"classic": 3, "quorum": 10}
    assert lab.publish("quorum", "more") == [Fate.NACKED]


@pytest.mark.parametrize(("kind", "wins"), [("classic", "drop-head"), ("quorum", "reject-publish")])
async def test_of_two_overflow_words_the_argument_wins_on_classic_the_policy_on_quorum(lab, kind, wins):  # case 016
    lab.queue("q", kind, overflow="drop-head", dead_letter_exchange="mine")
    lab.declare(Policy("p", "q", {"overflow": "reject-publish", "dead-letter-exchange": "theirs"}, apply_to="queues"))
    settings = lab.broker.vhost.queues["q"].settings
    assert (settings.overflow, settings.dead_letter_exchange) == (wins, "mine")


async def test_the_highest_policy_wins_whole_and_one_with_a_foreign_key_is_skipped(lab):  # topology facts, finding 3
    lab.queue("q", "classic")
    lab.declare(
        Policy("low", ".*", {"max-length": 5, "message-ttl": 9}, apply_to="queues", priority=1),
        Policy("high", "^q", {"max-length": 7}, apply_to="all", priority=2),
        Policy("foreign", ".*", {"max-length": 1, "delivery-limit": 3}, apply_to="queues", priority=3),
        Policy("elsewhere", ".*", {"max-length": 1}, apply_to="quorum_queues", priority=4),
    )
    settings = lab.broker.vhost.queues["q"].settings
    assert (settings.max_length, settings.ttl) == (7, None)


# --- §7 flow ---------------------------------------------------------------------------------------


async def test_prefetch_bounds_what_is_unsettled_and_an_ack_asks_for_more(lab):  # §7
    lab.queue("q")
    lab.publish("q", *"abcd")
    reader = lab.read("q", prefetch=2)
    assert reader.ids == ["a", "b"]
    lab.broker.ack(reader.inbox[0])
    assert reader.ids == ["a", "b", "c"]


@pytest.mark.parametrize(("kind", "sent"), [("quorum", 2000), ("classic", 2100)])
async def test_no_prefetch_means_2000_on_quorum_and_no_bound_on_classic(lab, kind, sent):  # §7, case 208
    lab.queue("q", kind)
    lab.publish("q", *map(str, range(2100)))
    assert len(lab.read("q", prefetch=0).inbox) == sent


async def test_equal_consumers_are_served_in_turn(lab):  # §7
    lab.queue("q")
    first, second = lab.read("q", prefetch=10), lab.read("q", prefetch=10)
    lab.publish("q", *"abcd")
    assert (first.ids, second.ids) == (["a", "c"], ["b", "d"])
    for reader in (first, second, first, second):
        lab.broker.requeue(reader.inbox.pop())
        lab.broker.requeue(reader.inbox.pop())
    assert sorted(first.ids + second.ids) == ["a", "b", "c", "d"]


async def test_a_cancelled_consumer_may_still_settle(lab):  # §7
    lab.queue("q")
    reader = lab.read("q", prefetch=2)
    lab.publish("q", "a", "b")
    lab.broker.cancel(reader.consumer)
    lab.broker.ack(reader.inbox[0])
    lab.broker.requeue(reader.inbox[1])
    assert lab.broker.ledger() == {"q": ["b"]}


async def test_settling_twice_closes_the_channel(lab):  # §5: unknown delivery tag
    lab.queue("q")
    reader = lab.read("q")
    lab.publish("q", "a")
    lab.broker.ack(reader.inbox[0])
    lab.broker.ack(reader.inbox[0])
    assert not reader.channel.alive


async def test_a_deleted_queue_cancels_its_consumers_and_late_acks_do_nothing(lab):  # §8, case 201
    lab.queue("q")
    reader = lab.read("q")
    lab.publish("q", "a")
    lab.broker.delete_queue("q")
    assert len(reader.cancels) == 1
    lab.broker.ack(reader.inbox[0])
    assert (reader.channel.alive, lab.broker.ledger()) == (True, {})


# --- §3 acknowledgement timeout --------------------------------------------------------------------


async def test_the_4_3_consumer_timeout_is_exact_and_uncounted_and_half_cancels(make_lab):  # §3, case 203
    lab = make_lab("4.3")
    lab.queue("q", consumer_timeout=1000)
    reader = lab.read("q", prefetch=2)
    lab.publish("q", "late")
    await lab.clock.advance(0.5)
    lab.publish("q", "held")
    await lab.clock.advance(0.499)
    assert reader.cancels == []
    await lab.clock.advance(0.001)
    assert len(reader.cancels) == 1
    assert reader.channel.alive

    other = lab.read("q")
    assert other.ids == ["late"]
    assert counts(lab, other.inbox[0]) == {"x-acquired-count": 1}
    lab.broker.ack(reader.inbox[1])
    lab.publish("q", "next")
    assert reader.ids == ["late", "held"], "nothing comes while a late one is unanswered"
    lab.broker.ack(reader.inbox[0])  # without effect on the message, which is somebody else's now
    assert reader.ids == ["late", "held", "next"]
    assert lab.broker.ledger() == {"q": ["late", "next"]}


async def test_the_4_0_consumer_timeout_closes_the_channel_at_its_60_second_tick_and_counts(make_lab):  # §3
    lab = make_lab("4.0")
    lab.declare(Policy("t", ".*", {"consumer-timeout": 1000}, apply_to="queues"))
    for kind, shown in (("quorum", {"x-delivery-count": 1}), ("classic", {})):
        lab.queue(kind, kind)
        reader = lab.read(kind)
        lab.publish(kind, "m")
        await lab.clock.advance(59.9)
        assert reader.channel.alive
        await lab.clock.advance(0.1)
        assert not reader.channel.alive
        assert counts(lab, lab.read(kind).inbox[0]) == shown


async def test_30_minutes_are_the_default_and_4_3_classic_queues_have_no_timeout(make_lab):  # §3
    lab = make_lab("4.3")
    lab.queue("quorum")
    lab.queue("classic", "classic")
    readers = {name: lab.read(name) for name in ("quorum", "classic")}
    for name in readers:
        lab.publish(name, name)
    await lab.clock.advance("30m")
    assert {name: len(reader.cancels) for name, reader in readers.items()} == {"quorum": 1, "classic": 0}
