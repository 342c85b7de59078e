"""Exchanges, publishing and its answers: sections 4 to 6 of the measured broker facts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.brokers.memory.channel import Fate
from amqpkit.declare.routing import headers_match, topic_matches
from amqpkit.model import Binding, Exchange, Message, Policy, Properties, Queue


@pytest.mark.parametrize(
    ("pattern", "key", "hit"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.#", "a", True),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.b.c", False),
        ("a.*.b", "a..b", True),
        ("a", "A", False),
        ("", "", True),
        ("", "a", False),
        ("#.#", "", True),
    ],
)
def test_topic_words(pattern, key, hit):
    assert topic_matches(pattern, key) is hit


def naive(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(naive(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and naive(pattern[1:], words[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=6), st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)
)
def test_topic_matching_agrees_with_a_naive_oracle(pattern, words):
    assert topic_matches(".".join(pattern), ".".join(words)) is naive(pattern, words)


@pytest.mark.parametrize(
    ("arguments", "headers", "hit"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any"}, {"b": 2}, False),
        ({}, {}, True),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"x-mode": 1}, {}, True),
        ({"x-match": "all-with-x", "x-mode": 1}, {}, False),
        ({"x-match": "any-with-x", "x-mode": 1}, {"x-mode": 1}, True),
    ],
)
def test_headers_match_by_type_and_value(arguments, headers, hit):  # case 022
    assert headers_match(arguments, headers) is hit


async def test_each_queue_gets_one_copy_however_many_ways_lead_there(lab):
    lab.queue("q")
    lab.queue("r")
    lab.declare(Exchange("a", "topic"), Exchange("b", "fanout"), Exchange("c", "headers"))
    lab.declare(
        Binding("a", "q", "x.#"),
        Binding("a", "q", "#"),
        Binding("a", "b", "x.y", destination_type="exchange"),
        Binding("b", "a", "", destination_type="exchange"),
        Binding("b", "c", "", destination_type="exchange"),
        Binding("b", "q"),
        Binding("c", "r", arguments={"k": 1}),
    )
    lab.publish("x.y", "m", exchange="a", headers={"k": 1})
    assert lab.broker.ledger() == {"q": ["m"], "r": ["m"]}


async def test_the_default_exchange_routes_by_queue_name(lab):
    lab.queue("q")
    assert lab.publish("q", "m") == [Fate.CONFIRMED]
    assert lab.publish("nobody", "n") == [Fate.RETURNED]
    assert lab.broker.journey("n") == ["unroutable"]


@pytest.mark.parametrize("mandatory", [True, False])
async def test_unroutable_is_returned_if_mandatory_and_else_confirmed_and_lost(lab, mandatory):  # §4, case 301
    lab.declare(Exchange("x"))
    fates = lab.publish("k", "m", exchange="x", mandatory=mandatory)
    assert fates == [Fate.RETURNED if mandatory else Fate.CONFIRMED]


@pytest.mark.parametrize("by_policy", [True, False])
async def test_an_alternate_exchange_takes_what_its_exchange_cannot_route(lab, by_policy):  # §4
    lab.queue("q")
    lab.declare(Exchange("other", "fanout"), Binding("other", "q"))
    lab.declare(Exchange("x", arguments={} if by_policy else {"alternate-exchange": "other"}))
    if by_policy:
        lab.declare(Policy("p", "^x$", {"alternate-exchange": "other"}, apply_to="exchanges"))
    assert lab.publish("k", "m", exchange="x") == [Fate.CONFIRMED]
    stored = lab.broker.messages("q")[0]
    assert (stored.exchange, stored.routing_keys) == ("x", ("k",))


def test_a_consumer_timeout_disables_no_policy_on_a_classic_queue(lab):
    queue = Queue("c", "classic", arguments={"x-queue-type": "classic"})
    lab.declare(queue, Policy("p", "^c", {"consumer-timeout": 60000, "max-length": 3}, apply_to="queues"))

    assert lab.broker.vhost.settings(queue).max_length == 3


def test_a_policy_with_keys_for_both_rules_exchanges_and_queues(lab):
    queue = Queue("xq", "quorum", arguments={"x-queue-type": "quorum"})
    lab.declare(Exchange("x"), Exchange("other", "fanout"), queue, Binding("other", "xq"))
    lab.declare(Policy("p", "^x", {"alternate-exchange": "other", "max-length": 3}, apply_to="all"))

    assert lab.broker.vhost.settings(queue).max_length == 3
    assert [state.declared.name for state in lab.broker.vhost.targets("x", ["nowhere"], {})] == ["xq"]


@pytest.mark.parametrize("alternate", ["missing", "unbound"])
async def test_a_missing_or_unbound_alternate_exchange_means_returned(lab, alternate):  # §4
    lab.declare(Exchange("unbound"), Exchange("x", arguments={"alternate-exchange": alternate}))
    assert lab.publish("k", "m", exchange="x") == [Fate.RETURNED]


async def test_a_missing_exchange_closes_the_channel_and_held_confirms_are_unknown(lab):  # §4, case 302
    lab.queue("q")
    lab.broker.hold_confirms()
    fates = lab.publish("q", "a", "b")
    assert lab.publish("k", "m", exchange="nowhere") == [Fate.MISSING]
    assert not lab.publisher.alive
    assert fates == [Fate.UNKNOWN, Fate.UNKNOWN]
    assert lab.broker.ledger() == {"q": ["a", "b"]}, "unconfirmed is not lost"
    lab.broker.release_confirms()
    assert len(fates) == 2


async def test_an_internal_exchange_refuses_publishers_and_serves_exchanges(lab):
    lab.queue("q")
    lab.declare(Exchange("in", "fanout", internal=True), Exchange("out", "fanout"))
    lab.declare(Binding("out", "in", destination_type="exchange"), Binding("in", "q"))
    assert lab.publish("", "m", exchange="in") == [Fate.REFUSED]
    assert lab.publish("", "m", exchange="out") == [Fate.CONFIRMED]


async def test_a_nacked_fan_out_was_stored_in_the_other_queue(lab):  # §4
    lab.queue("full", "classic", max_length=0, overflow="reject-publish")
    lab.queue("free")
    lab.declare(Exchange("x", "fanout"), Binding("x", "full"), Binding("x", "free"))
    assert lab.publish("", "m", exchange="x") == [Fate.NACKED]
    assert lab.broker.ledger() == {"free": ["m"]}
    assert lab.broker.journey("m") == ["free", "nacked"]


@pytest.mark.parametrize("expiration", ["", "abc", "1.5", "-1"])
async def test_an_invalid_expiration_closes_the_channel(lab, expiration):  # §1.1
    lab.queue("q")
    assert lab.publish("q", "m", expiration=expiration) == [Fate.REFUSED]
    assert not lab.publisher.alive


async def test_a_body_over_16_mebibytes_closes_the_channel(lab):  # §4, case 309
    lab.queue("q")
    fates = []
    for size in (16_777_216, 16_777_217):
        message = Message(bytes(size), Properties())
        lab.broker.publish(lab.publisher, "", "q", message, mandatory=True, told=lambda fate, _: fates.append(fate))
    assert fates == [Fate.CONFIRMED, Fate.REFUSED]


async def test_a_message_without_an_id_is_called_by_its_number(lab):
    lab.queue("q")
    fates = []
    lab.broker.publish(lab.publisher, "", "q", Message(b""), mandatory=True, told=lambda fate, _: fates.append(fate))
    assert re.fullmatch(r"#\d+", lab.broker.ledger()["q"][0])


async def test_confirm_delay_is_virtual_time(lab):
    lab.queue("q")
    lab.broker.confirm_delay = 2.0
    fates = lab.publish("q", "m")
    await lab.clock.advance("1s")
    assert (fates, lab.broker.ledger()) == ([], {"q": ["m"]})
    await lab.clock.advance("1s")
    assert fates == [Fate.CONFIRMED]


@pytest.mark.parametrize("name", ["CC", "BCC"])
async def test_copies_must_be_named_in_a_list(lab, name):  # §4
    lab.queue("q")
    assert lab.publish("q", "m", headers={name: "q"}) == [Fate.REFUSED]


async def test_a_journey_names_an_ack_only_when_no_copy_is_left(lab):
    lab.queue("work")
    lab.queue("delay")
    work, delay = lab.read("work"), lab.read("delay")
    lab.publish("work", "m")
    lab.publish("delay", "m")
    lab.broker.ack(work.inbox[0])
    assert lab.broker.journey("m") == ["work", "delay"]
    lab.broker.ack(delay.inbox[0])
    assert lab.broker.journey("m") == ["work", "delay", "acked"]
    assert lab.broker.journey("unheard of") == []
    assert [(movement.queue, movement.what) for movement in lab.movements] == [
        ("work", "queued"),
        ("work", "delivered"),
        ("delay", "queued"),
        ("delay", "delivered"),
        ("work", "acked"),
        ("delay", "acked"),
    ]
