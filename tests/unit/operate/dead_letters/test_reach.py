import pytest

from amqpkit.model import Binding, Exchange, Queue, Topology
from amqpkit.operate.dead_letters.reach import reached

ACTUAL = Topology(
    exchanges=(
        Exchange("ev", "fanout"),
        Exchange("mail", "topic", arguments={"alternate-exchange": "lost"}),
        Exchange("lost", "fanout"),
        Exchange("odd", "x-delayed-message"),
        Exchange("round", "fanout"),
    ),
    queues=tuple(map(Queue, ("a", "b", "c", "unrouted"))),
    bindings=(
        Binding("ev", "a"),
        Binding("ev", "b"),
        Binding("mail", "a", "mail.#"),
        Binding("mail", "ev", "mail.all", "exchange"),
        Binding("mail", "c", "other"),
        Binding("lost", "unrouted"),
        Binding("odd", "c", "whatever"),
        Binding("round", "round", "", "exchange"),
        Binding("round", "b"),
    ),
)


@pytest.mark.parametrize(
    ("exchange", "routing_key", "queues"),
    [
        ("ev", "x", ("a", "b")),
        ("mail", "mail.one", ("a",)),
        ("mail", "mail.all", ("a", "b")),
        ("mail", "none", ("unrouted",)),
        ("odd", "key", ("c",)),
        ("round", "", ("b",)),
        ("gone", "x", ()),
        ("", "a", ("a",)),
        ("", "z", ()),
    ],
)
def test_the_queues_that_a_message_gets_to_are_named(exchange, routing_key, queues):
    assert reached(ACTUAL, exchange, routing_key) == queues
