"""What `route` says of random topologies is what real brokers do."""

from urllib.parse import quote

import pika
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from amqpkit.declare.route import Sent, itinerary
from amqpkit.model import Binding, Exchange, Queue, Topology

TYPES = ("direct", "topic", "fanout", "headers")
EXCHANGES = ("e0", "e1", "e2", "e3")
QUEUES = ("q0", "q1", "q2", "q3")
KEYS = ("", "a", "b", "a.b", "a..b", "a.b.c", ".", "q1")
PATTERNS = (*KEYS, "#", "*", "a.#", "*.b", "#.b", "a.*.#")
VALUES = st.sampled_from([1, "1", 2, True, "a"])
HEADERS = st.dictionaries(st.sampled_from(["n", "m", "x-n"]), VALUES, max_size=3)
MATCHING = st.tuples(st.sampled_from(["all", "any", "all-with-x", "any-with-x"]), HEADERS).map(
    lambda pair: {"x-match": pair[0], **pair[1]}
)


@st.composite
def topologies(draw) -> Topology:
    exchanges = tuple(
        Exchange(
            name,
            draw(st.sampled_from(TYPES)),
            arguments=draw(st.sampled_from([{}, {"alternate-exchange": "e0"}, {"alternate-exchange": "e3"}])),
        )
        for name in EXCHANGES
    )
    ends = st.tuples(
        st.sampled_from(EXCHANGES),
        st.one_of(
            st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
            st.tuples(st.just("exchange"), st.sampled_from(EXCHANGES)),
        ),
        st.sampled_from(PATTERNS),
        MATCHING,
    )
    bindings = [
        Binding(
            source, destination, key, kind, arguments if exchanges[EXCHANGES.index(source)].type == "headers" else {}
        )
        for source, (kind, destination), key, arguments in draw(st.lists(ends, min_size=4, max_size=14))
    ]
    queues = tuple(Queue(name, "classic", arguments={"x-queue-type": "classic"}) for name in QUEUES)
    return Topology(exchanges=exchanges, queues=queues, bindings=tuple(bindings))


MESSAGES = st.lists(
    st.builds(Sent, st.sampled_from(("", *EXCHANGES)), st.sampled_from(KEYS), HEADERS), min_size=15, max_size=15
)


def declare(broker, topology: Topology) -> None:
    vhost = quote(broker.vhost, safe="")
    for name in EXCHANGES:
        broker.http("DELETE", f"exchanges/{vhost}/{name}")
    for name in QUEUES:
        broker.http("DELETE", f"queues/{vhost}/{name}")
    body = {
        "exchanges": [
            {
                "name": each.name,
                "type": each.type,
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": dict(each.arguments),
            }
            for each in topology.exchanges
        ],
        "queues": [
            {"name": each.name, "durable": True, "auto_delete": False, "arguments": dict(each.arguments)}
            for each in topology.queues
        ],
        "bindings": [
            {
                "source": each.source,
                "destination": each.destination,
                "destination_type": each.destination_type,
                "routing_key": each.routing_key,
                "arguments": dict(each.arguments),
            }
            for each in topology.bindings
        ],
    }
    status, answer = broker.http("POST", f"definitions/{vhost}", body)
    assert status == 204, answer


def delivered(broker, messages: list[Sent]) -> list[set[str]]:
    """Publish every message with its number as its id, and say which queues got it."""
    got: list[set[str]] = [set() for _ in messages]
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        for number, sent in enumerate(messages):
            properties = pika.BasicProperties(message_id=str(number), headers=dict(sent.headers))
            channel.basic_publish(sent.exchange, sent.routing_key, b"", properties)
        for name in QUEUES:
            while (found := channel.basic_get(name, auto_ack=True))[0] is not None:
                got[int(found[1].message_id)].add(name)
    finally:
        connection.close()
    return got


def test_route_says_what_the_broker_does(broker):
    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(topology=topologies(), messages=MESSAGES)
    def compare(topology, messages):
        declare(broker, topology)
        said = [{each.queue for each in itinerary(topology, sent).reached} for sent in messages]
        assert said == delivered(broker, messages)

    compare()


def test_copies_go_where_cc_and_bcc_say(broker):
    topology = Topology(
        exchanges=(Exchange("e0", "topic"), Exchange("e1"), Exchange("e2"), Exchange("e3")),
        queues=tuple(Queue(name, "classic", arguments={"x-queue-type": "classic"}) for name in QUEUES),
        bindings=(Binding("e0", "q0", "a.*"), Binding("e0", "q1", "b"), Binding("e1", "q2", "c")),
    )
    declare(broker, topology)
    messages = [
        Sent("e0", "x", {"CC": ["a.b"], "BCC": ["b"]}),
        Sent("e1", "c", {"CC": ["b"]}),
        Sent("", "q0", {"BCC": ["q3"]}),
    ]

    assert [{each.queue for each in itinerary(topology, sent).reached} for sent in messages] == delivered(
        broker, messages
    )
