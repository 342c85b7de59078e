"""The compiled topology, row by row; and what must hold for every topology."""

import re
import string
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpkit.declare import naming
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.load import load_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.errors import TopologyError
from amqpkit.model import (
    Alert,
    Binding,
    Consume,
    Delay,
    DelayQueue,
    Exchange,
    Policy,
    Queue,
    Replay,
    Route,
    Topology,
)

FULL = load_topology(Path(__file__).with_name("full.yaml"))


def compiled(text: str) -> Topology:
    return compile_topology(parse([("a.yaml", f"version: 1\n{text}")], {}))


def by_name(objects):
    return {object_.name: object_ for object_ in objects}


def delay_queue(milliseconds: int) -> dict[str, object]:
    return {
        "x-queue-type": "quorum",
        "x-message-ttl": milliseconds,
        "x-dead-letter-exchange": "email.send.retry",
        "x-dead-letter-routing-key": "return",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": -1,
    }


ROWS = [
    Exchange("email.send.dlx", "fanout"),
    Exchange("email.send.retry", "direct"),
    Exchange("mail", "topic", arguments={"alternate-exchange": "mail.unrouted"}),
    Exchange("mail.unrouted", "fanout"),
    Queue(
        "email.send",
        arguments={
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "email.send.dlx",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        },
    ),
    Queue(
        "email.send.dlq",
        arguments={"x-queue-type": "quorum", "x-delivery-limit": -1, "x-overflow": "reject-publish"},
    ),
    Queue("email.send.retry.30s", arguments=delay_queue(30_000)),
    Queue("email.send.retry.2m", arguments=delay_queue(120_000)),
    Queue("email.send.retry.10m", arguments=delay_queue(600_000)),
    Queue("email.send.retry.1h", arguments=delay_queue(3_600_000)),
    Queue("mail.unrouted", arguments={"x-queue-type": "quorum"}),
    Policy(
        "amqpkit.email.send",
        r"^email\.send$",
        {"max-length": 100_000, "delivery-limit": 20, "consumer-timeout": 900_000, "overflow": "reject-publish"},
        "quorum_queues",
        100,
    ),
    Policy(
        "amqpkit.email.send.parts",
        r"^email\.send\.(retry\..+|dlq)$",
        {"overflow": "reject-publish", "delivery-limit": -1},
        "quorum_queues",
        100,
    ),
    Binding("email.send.dlx", "email.send.dlq"),
    Binding("email.send.retry", "email.send", "return"),
    Binding("email.send.retry", "email.send.retry.10m", "10m"),
    Binding("email.send.retry", "email.send.retry.1h", "1h"),
    Binding("email.send.retry", "email.send.retry.2m", "2m"),
    Binding("email.send.retry", "email.send.retry.30s", "30s"),
    Binding("mail", "email.send", "email.send.#"),
    Binding("mail.unrouted", "mail.unrouted"),
]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_the_file_becomes_exactly_these_objects(row):
    assert (
        row in {Exchange: FULL.exchanges, Queue: FULL.queues, Policy: FULL.policies, Binding: FULL.bindings}[type(row)]
    )


def test_the_file_becomes_no_other_object():
    assert len(ROWS) == len(FULL.exchanges) + len(FULL.queues) + len(FULL.policies) + len(FULL.bindings)


def test_objects_are_sorted_by_name():
    for objects in (FULL.exchanges, FULL.queues, FULL.policies):
        assert [object_.name for object_ in objects] == sorted(object_.name for object_ in objects)


def test_a_work_queue_says_what_its_objects_mean():
    queue = FULL.work_queues["email.send"]

    assert (queue.retry_exchange, queue.dead_exchange, queue.dead_queue) == (
        "email.send.retry",
        "email.send.dlx",
        "email.send.dlq",
    )
    assert queue.accepts == ("email.send",)
    assert queue.consume == Consume(prefetch=20, concurrency=20, timeout=30.0, rate=50.0)
    assert (queue.depth_limit, queue.max_length, queue.delivery_limit) == (50_000, 100_000, 20)
    assert queue.consumer_timeout == 900.0
    assert (queue.owner, queue.runbook) == ("team-messaging", "https://runbooks.example.com/email-send")
    assert (queue.alert, queue.replay) == (Alert(messages=1, age=600.0), Replay(rate=20.0, max_replays=3))
    assert [delay.milliseconds for delay in queue.delays] == [30_000, 120_000, 600_000, 3_600_000]
    assert queue.delays[0] == Delay(30_000, (DelayQueue("30s", "email.send.retry.30s", 30_000),))
    assert queue.snoozes == queue.delays
    assert queue.attempts == 5
    assert FULL.routes == {"email.send": Route("mail", "email.send.{template_id}")}
    assert (FULL.owns, FULL.vhost) == (("email.send", "mail"), None)


def test_three_lines_are_a_topology():
    topology = compiled("work_queues:\n  email.send: {}")
    queue = topology.work_queues["email.send"]

    assert [object_.name for object_ in topology.queues] == [
        "email.send",
        "email.send.dlq",
        "email.send.retry.10m",
        "email.send.retry.10s",
        "email.send.retry.1m",
    ]
    assert by_name(topology.policies)["amqpkit.email.send"].definition == {
        "delivery-limit": 20,
        "overflow": "reject-publish",
    }
    assert queue.consume == Consume(None, None, None, None)
    assert topology.owns == ("email.send",)
    assert topology.routes == {"email.send": Route("", "email.send")}


def test_an_entry_without_a_value_is_an_entry_with_defaults():
    empty = compiled(
        "exchanges:\nqueues:\n  jobs:\nwork_queues:\n  mail:\n    consume:\n    limits:\n    dead_letter:\n"
    )

    assert empty == compiled("queues: {jobs: {}}\nwork_queues: {mail: {}}\n")


def test_without_retry_there_is_one_delay_for_snoozes():
    queue = compiled("work_queues: {mail: {retry: none}}").work_queues["mail"]

    assert queue.attempts == 1
    assert queue.delays == ()
    assert queue.snoozes == (Delay(30_000, (DelayQueue("30s", "mail.retry.30s", 30_000),)),)


def test_jitter_makes_three_queues_of_each_delay():
    topology = compiled("work_queues: {mail: {retry: {delays: [30s, 10m], jitter: 10%}}}")

    assert [[queue.key for queue in delay.queues] for delay in topology.work_queues["mail"].delays] == [
        ["27s", "28500ms", "30s"],
        ["9m", "570s", "10m"],
    ]
    assert len(topology.queues) == 2 + 6


def test_equal_delays_share_a_queue():
    topology = compiled("work_queues: {mail: {retry: {delays: [10s, 10s, 60s, 1m]}}}")
    queue = topology.work_queues["mail"]

    assert [delay.milliseconds for delay in queue.delays] == [10_000, 10_000, 60_000, 60_000]
    assert [delay.milliseconds for delay in queue.snoozes] == [10_000, 60_000]
    assert {"mail.retry.10s", "mail.retry.1m"} == {name for name in by_name(topology.queues) if ".retry." in name}


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        ("{attempts: 5, first: 30s, factor: 4, max: 1h}", [30_000, 120_000, 480_000, 1_920_000]),
        ("{attempts: 4, first: 10m, factor: 4, max: 1h}", [600_000, 2_400_000, 3_600_000]),
        ("{attempts: 4, first: 1s, factor: 1.5}", [1_000, 1_500, 2_250]),
        ("{attempts: 3, first: 1ms, factor: 1.5}", [1, 2]),
        ("{attempts: 3}", [10_000, 40_000]),
        ("{attempts: 3, first: 10s, factor: 100000}", [10_000, 86_400_000]),
        ("{jitter: 0%}", [10_000, 60_000, 600_000]),
        ("{}", [10_000, 60_000, 600_000]),
    ],
)
def test_delays_can_be_computed(retry, delays):
    queue = compiled(f"work_queues: {{mail: {{retry: {retry}}}}}").work_queues["mail"]

    assert [delay.milliseconds for delay in queue.delays] == delays
    assert queue.attempts == len(delays) + 1


def test_every_tunable_goes_into_the_policy():
    text = "work_queues: {mail: {max-length: 10, max-length-bytes: 1MiB, delivery-limit: 3, consumer-timeout: 60000}}"

    assert by_name(compiled(text).policies)["amqpkit.mail"].definition == {
        "consumer-timeout": 60_000,
        "delivery-limit": 3,
        "max-length": 10,
        "max-length-bytes": 2**20,
        "overflow": "reject-publish",
    }


def test_a_type_goes_to_the_one_work_queue_that_accepts_it_unless_the_file_says_otherwise():
    topology = compiled(
        "work_queues: {a: {accepts: [x, both]}, b: {accepts: [y, both]}}\n"
        "exchanges: {events: {}}\n"
        "messages: {y: {exchange: events}}\n"
    )

    assert topology.routes == {"x": Route("", "a"), "y": Route("events", "")}


def test_plain_objects_pass_with_their_arguments_and_an_explicit_type():
    topology = compiled("""
exchanges:
  hash: {type: x-consistent-hash, durable: false, auto_delete: true, internal: true, arguments: {hash-header: id}}
  copies: {type: fanout, bindings: [{source: hash, routing_key: "1"}]}
queues:
  log: {type: stream, arguments: {x-max-age: 7d, x-stream-max-segment-size-bytes: 1MiB, x_odd_one: 5s}}
  reply: {type: classic, durable: false, auto-delete: true, arguments: {x-expires: 30m, x-message-ttl: 500}}
policies:
  net: {pattern: .*, definition: {max_length: 5, message-ttl: 1h}}
  more: {pattern: "^a", definition: {overflow: drop-head}, apply_to: classic_queues, priority: 7}
""")

    assert topology.exchanges == (
        Exchange("copies", "fanout"),
        Exchange(
            "hash", "x-consistent-hash", durable=False, auto_delete=True, internal=True, arguments={"hash-header": "id"}
        ),
    )
    assert topology.queues == (
        Queue(
            "log",
            "stream",
            arguments={
                "x-queue-type": "stream",
                "x-max-age": "7d",
                "x-stream-max-segment-size-bytes": 2**20,
                "x_odd_one": "5s",
            },
        ),
        Queue(
            "reply",
            "classic",
            durable=False,
            auto_delete=True,
            arguments={"x-queue-type": "classic", "x-expires": 1_800_000, "x-message-ttl": 500},
        ),
    )
    assert topology.bindings == (Binding("hash", "copies", "1", "exchange"),)
    assert topology.policies == (
        Policy("more", "^a", {"overflow": "drop-head"}, "classic_queues", 7),
        Policy("net", ".*", {"max-length": 5, "message-ttl": 3_600_000}, "all", 0),
    )


def test_bindings_that_differ_only_in_an_arguments_type_are_two_bindings():
    one, text = "{source: amq.headers, arguments: {n: 1}}", '{source: amq.headers, arguments: {n: "1"}}'
    topology = compiled(f"queues: {{jobs: {{bindings: [{one}, {text}, {one}]}}}}")

    assert [type(binding.arguments["n"]) for binding in topology.bindings] == [str, int]


def test_a_queue_may_read_what_a_work_queue_generates():
    topology = compiled("work_queues: {mail: {}}\nqueues: {archive: {bindings: [{source: mail.dlx}]}}")

    assert Binding("mail.dlx", "archive") in topology.bindings


def test_what_is_owned_may_be_named():
    assert compiled("owns: [b, a, b]\nqueues: {q: {}}").owns == ("a", "b")
    assert compiled("owns: []\nqueues: {q: {}}").owns == ()


def test_what_stays_when_its_lines_go_is_named_apart_from_them():
    assert compiled("on-remove: {mail.audit: retain, b: retain}\nqueues: {q: {}}").retained == ("b", "mail.audit")
    assert compiled("on_remove: {a_b: retain}\nqueues: {q: {}}").retained == ("a_b",)
    assert compiled("queues: {q: {}}").retained == ()
    with pytest.raises(TopologyError, match="on-remove"):
        compiled("on-remove: {b: keep}\nqueues: {q: {}}")
    assert compiled("vhost: shop").vhost == "shop"


def test_nothing_in_the_result_can_be_changed():
    with pytest.raises(TypeError):
        FULL.work_queues["x"] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        FULL.queues[0].arguments["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        FULL.policies[0].definition["x"] = 1  # type: ignore[index]


NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from(".^$*+?()[]{}|\\ -/"), min_size=1, max_size=30
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(NAMES, NAMES)
def test_a_policy_matches_its_own_queue_and_no_other(name, other):
    parts = (naming.dead_queue(name), naming.delay_queue(name, "30s"), naming.delay_queue(name, "28500ms"))

    assert re.search(naming.pattern(name), name)
    assert all(re.search(naming.parts_pattern(name), part) for part in parts)
    assert not any(re.search(naming.pattern(name), part) for part in parts)
    assert bool(re.search(naming.pattern(name), other)) == (other == name)


WORDS = st.lists(st.sampled_from(["a", "retry", "dlq", "dlx", "10s", "parts"]), min_size=1, max_size=4).map(".".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(st.lists(WORDS, unique=True, min_size=1, max_size=4), st.lists(WORDS, unique=True, max_size=3))
def test_no_two_policies_of_ours_reach_one_queue(work_queues, queues):
    text = "".join(
        f"{section}:\n" + "".join(f"  {name}: {{}}\n" for name in names)
        for section, names in (("work_queues", work_queues), ("queues", queues))
    )
    try:
        topology = compiled(text)
    except TopologyError:
        return
    reached = [
        (queue.name, policy.name)
        for queue, policy in product(topology.queues, topology.policies)
        if re.search(policy.pattern, queue.name)
    ]

    assert len({queue for queue, _ in reached}) == len(reached)
    assert len(by_name(topology.queues)) == len(topology.queues)
    assert len(by_name(topology.exchanges)) == len(topology.exchanges)
    assert len(by_name(topology.policies)) == len(topology.policies)


def test_no_letter_that_a_pattern_reads_is_left_alone():
    assert naming.escape(string.ascii_letters + "-_/ :é") == string.ascii_letters + "-_/ :é"
    assert naming.escape("a.b[c]") == r"a\.b\[c\]"
