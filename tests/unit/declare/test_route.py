"""Which queues a message reaches, and why not the others."""

import pytest

from amqpkit.declare.route import Sent, itinerary
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology

# (exchange type, binding key or arguments, routing key, headers, does it match), as both brokers route them.
TABLE = [
    ("topic", "a.#", "a", {}, True),
    ("topic", "a.#", "a.b.c", {}, True),
    ("topic", "a.*", "a", {}, False),
    ("topic", "a.*", "a.b", {}, True),
    ("topic", "a.*", "a.b.c", {}, False),
    ("topic", "#", ".", {}, True),
    ("topic", "#", "", {}, True),
    ("topic", "*", "", {}, False),
    ("topic", "*.b", "a.b", {}, True),
    ("topic", "#.b", "b", {}, True),
    ("topic", "a.#.b", "a.b", {}, True),
    ("topic", "a..b", "a..b", {}, True),
    ("headers", {"x-match": "all", "n": 1}, "", {"n": "1"}, False),
    ("headers", {"x-match": "any", "n": 1, "m": 2}, "", {"m": 2}, True),
    ("headers", {"x-match": "any-with-x", "x-n": 1}, "", {"x-n": 1}, True),
    ("headers", {"x-match": "any", "x-n": 1}, "", {"x-n": 1}, False),
    ("direct", "K", "k", {}, False),
    ("fanout", "x", "y", {}, True),
]


def built(*exchanges: Exchange, bindings=(), queues=(), policies=()) -> Topology:
    named = {binding.destination for binding in bindings if binding.destination_type == "queue"}
    return Topology(
        exchanges=exchanges,
        queues=tuple(Queue(name) for name in sorted({*named, *queues})),
        bindings=tuple(bindings),
        policies=tuple(policies),
    )


def reached(topology: Topology, exchange: str, key: str = "", headers=None) -> list[str]:
    return sorted(each.queue for each in itinerary(topology, Sent(exchange, key, headers or {})).reached)


@pytest.mark.parametrize(("kind", "bound", "key", "headers", "expected"), TABLE)
def test_a_message_follows_what_the_broker_would(kind, bound, key, headers, expected):
    by_key = isinstance(bound, str)
    binding = Binding("ev", "q", bound if by_key else "", arguments={} if by_key else bound)
    found = itinerary(built(Exchange("ev", kind), bindings=[binding]), Sent("ev", key, headers))

    assert [each.queue for each in found.reached] == (["q"] if expected else [])
    assert bool(found.missed) is not expected


@pytest.mark.parametrize(
    ("kind", "bound", "key", "headers", "reason"),
    [
        ("topic", "a.b", "a.c", {}, 'word 2 is "c", the pattern wants "b"'),
        ("topic", "a.b", "a", {}, "the key has 1 word, the pattern wants 2"),
        ("topic", "*.*", "a.b.c", {}, "the key has 3 words, the pattern wants 2"),
        ("topic", "a.b.#", "a", {}, "the key has 1 word, the pattern wants 2 at least"),
        ("topic", "#.b", "a.c", {}, '"#.b" does not match'),
        ("direct", "K", "k", {}, 'a direct exchange wants the key "K" exactly'),
        ("headers", {"n": 1, "m": "x"}, "", {"n": "1"}, "header n is the text '1', the binding wants the number 1"),
        ("headers", {"n": 1, "m": "x"}, "", {"n": 1}, "it has no header m"),
        ("headers", {"x-match": "any"}, "", {}, "x-match any, and no header is asked for"),
    ],
)
def test_why_not_is_said(kind, bound, key, headers, reason):
    by_key = isinstance(bound, str)
    binding = Binding("ev", "q", bound if by_key else "", arguments={} if by_key else bound)

    (miss,) = itinerary(built(Exchange("ev", kind), bindings=[binding]), Sent("ev", key, headers)).missed

    assert reason in miss.reason


def test_exchanges_lead_on_and_a_circle_ends():
    topology = built(
        Exchange("a", "topic"),
        Exchange("b", "fanout"),
        bindings=[Binding("a", "b", "x.#", "exchange"), Binding("b", "a", "", "exchange"), Binding("b", "q")],
    )

    (found,) = itinerary(topology, Sent("a", "x.y")).reached

    assert [(hop.source, hop.destination) for hop in found.way] == [("a", "b"), ("b", "q")]


def test_an_alternate_takes_over_only_where_nothing_is_followed():
    topology = built(
        Exchange("ev", "topic", arguments={"alternate-exchange": "rest"}),
        Exchange("rest", "fanout"),
        bindings=[Binding("ev", "q", "x"), Binding("rest", "lost")],
    )

    assert reached(topology, "ev", "x") == ["q"]
    assert reached(topology, "ev", "y") == ["lost"]
    assert itinerary(topology, Sent("ev", "y")).reached[0].way[0].by == "alternate"


def test_an_alternate_may_come_from_a_policy_and_the_argument_wins():
    policy = Policy("p", "^ev", {"alternate-exchange": "rest"}, "exchanges", 1)
    exchanges = (
        Exchange("ev", "topic"),
        Exchange("ev2", arguments={"alternate-exchange": "b"}),
        Exchange("rest", "fanout"),
    )
    topology = built(
        *exchanges, Exchange("b", "fanout"), bindings=[Binding("rest", "q"), Binding("b", "r")], policies=[policy]
    )

    assert reached(topology, "ev") == ["q"]
    assert reached(topology, "ev2") == ["r"]


def test_the_default_exchange_leads_to_the_queue_of_that_name_and_copies_go_along():
    topology = built(queues=["a", "b", "c"])

    assert reached(topology, "", "a", {"CC": ["b"], "BCC": ["c", "nowhere"]}) == ["a", "b", "c"]
    assert "nowhere" in itinerary(topology, Sent("", "nowhere")).notes[0]


def test_what_cannot_be_known_is_said():
    hashing = built(Exchange("h", "x-consistent-hash"), bindings=[Binding("h", "a", "1"), Binding("h", "b", "1")])
    odd = built(Exchange("o", "x-odd"), bindings=[Binding("o", "a")])
    delayed = built(
        Exchange("d", "x-delayed-message", arguments={"x-delayed-type": "topic"}), bindings=[Binding("d", "a", "k.*")]
    )

    assert [each.certain for each in itinerary(hashing, Sent("h", "k")).reached] == [False, False]
    assert "picks one of its 2 bindings" in itinerary(hashing, Sent("h", "k")).notes[0]
    assert not itinerary(odd, Sent("o", "k")).reached[0].certain
    assert reached(delayed, "d", "k.x") == ["a"]
    assert reached(delayed, "d", "x") == []


def test_exchanges_that_refuse_are_named():
    topology = built(Exchange("in", internal=True), queues=["q"])

    assert "internal" in itinerary(topology, Sent("in")).notes[0]
    assert "not declared" in itinerary(topology, Sent("nope")).notes[0]
    assert itinerary(topology, Sent("amq.fanout")).notes == ()
    assert itinerary(topology, Sent("amq.fanout")).others == ("q",)
