# ruff: noqa: E501 - the broker's sentences are long, and read best in one piece
"""Declarations and refusals, in the broker's own words: section 5, and topology facts 2.1. Every text was probed."""

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.profile import NotModelled
from amqpkit.errors import QueueMissing, Refused
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology

Q = {"x-queue-type": "quorum"}
C = {"x-queue-type": "classic"}


def refusal(lab, wanted) -> str:
    with pytest.raises(Refused) as caught:
        lab.declare(wanted)
    return caught.value.reason.removeprefix("PRECONDITION_FAILED - ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (Q | {"x-max-priority": 5}, "'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"),
        (Q | {"x-queue-mode": "lazy"}, "'x-queue-mode' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"),
        (C | {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once"}, "rabbit_classic_queue"),
        (
            C | {"x-delivery-limit": 3},
            "'x-delivery-limit' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
        ),
        ({"x-queue-type": "qurom"}, "'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'qurom'\""),
        (C | {"x-overflow": "drop-tail"}, "invalid_overflow"),
        (Q | {"x-dead-letter-strategy": "sometimes"}, "invalid_dlx_strategy"),
        (Q | {"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        (C | {"x-message-ttl": -1}, "{value_negative,-1}"),
        (C | {"x-message-ttl": "5"}, '"expected integer, got longstr"'),
        (C | {"x-message-ttl": True}, '"expected integer, got bool"'),
        (Q | {"x-message-ttl": 2**53}, "{value_too_large,9007199254740992}"),
        (C | {"x-expires": 0}, "{value_zero,0}"),
        (C | {"x-max-priority": 256}, "{max_value_exceeded,256}"),
        (Q | {"x-overflow": 3}, "{unacceptable_type,signedint}"),
        (Q | {"x-single-active-consumer": "yes"}, "{unacceptable_type,longstr}"),
        (C | {"x-dead-letter-exchange": 3}, "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q'"),
        (C | {"x-queue-version": 3}, "unsupported queue version '3'"),
        (Q | {"x-dead-letter-exchange": {}}, "invalid type 'table'"),
        (Q | {"x-max-length": 1.5}, "got float"),
        (Q | {"x-max-length": None}, "got void"),
        (Q | {"x-max-length": []}, "got array"),
    ],
)
def test_a_wrong_argument_is_refused(lab, arguments, words):  # §5, case 005
    assert words in refusal(lab, Queue("q", arguments["x-queue-type"], arguments=arguments))
    assert lab.broker.vhost.queues == {}


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (Queue("q", durable=False), "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        (Queue("q", exclusive=True), "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"),
        (Queue("q", auto_delete=True), "invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        (Queue(""), "invalid property 'server-named'"),
        (Queue("amq.q"), "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"),
        (Queue("é" * 128), "longer than 255 bytes"),
    ],
)
def test_a_quorum_queue_refuses_what_it_cannot_be(lab, queue, words):  # §2.4, cases 007 and 209
    assert words in refusal(lab, queue)


@pytest.mark.parametrize(
    ("version", "queue", "words"),
    [
        ("4.3", Queue("q", "classic", arguments=C | {"x-queue-version": 1}), "unsupported queue version '1'"),
        ("4.3", Queue("q", "classic", arguments=C | {"x-consumer-timeout": 60000}), "rabbit_classic_queue"),
        ("4.0", Queue("q", "classic", arguments=C | {"x-queue-mode": "foo"}), "unsupported queue mode 'foo'"),
    ],
)
def test_the_versions_differ_in_a_few_arguments(make_lab, version, queue, words):  # §5, probed
    assert words in refusal(make_lab(version), queue)
    make_lab("4.0" if version == "4.3" else "4.3").declare(queue)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (Q | {"x-max-length": 10}, Q, "'x-max-length' for queue 'q' in vhost '/': received none but current is the value '10' of type 'signedint'"),
        (Q, Q | {"x-max-length": 10}, "received the value '10' of type 'signedint' but current is none"),
        (Q | {"x-max-length": 10}, Q | {"x-max-length": 11}, "received '11' but current is '10'"),
        (Q, C, "'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is 'quorum'"),
        (Q | {"x-single-active-consumer": False}, Q, "current is the value 'false' of type 'bool'"),
        (
            Q | {"x-message-ttl": 3, "x-delivery-limit": 3, "x-max-length": 5},
            Q | {"x-message-ttl": 4, "x-delivery-limit": 4, "x-max-length": 6},
            "received '6' but current is '5'",
        ),
    ],
)  # fmt: skip
def test_a_redeclaration_with_another_argument_names_the_first_difference(lab, first, second, words):  # §5
    lab.declare(Queue("q", first["x-queue-type"], arguments=first))
    assert words in refusal(lab, Queue("q", second["x-queue-type"], arguments=second))


def test_a_refusal_carries_object_argument_and_both_values(lab):
    lab.declare(Queue("q", arguments=Q | {"x-message-ttl": 10}))
    with pytest.raises(Refused, match=r"queue q: x-message-ttl is 10 on the broker, the file wants none; .+"):
        lab.declare(Queue("q"))


def test_durability_is_compared_and_an_equal_declaration_is_fine(lab):  # §5
    lab.declare(Queue("c", "classic"), Queue("c", "classic"), Exchange("x", "topic"), Exchange("x", "topic"))
    words = "'durable' for queue 'c' in vhost '/': received 'false' but current is 'true'"
    assert words in refusal(lab, Queue("c", "classic", durable=False))


def test_unknown_arguments_are_kept_and_never_compared(lab):  # §0.12, case 004
    lab.declare(Queue("q", arguments=Q | {"x-mesage-ttl": 1}))
    lab.declare(Queue("q", arguments=Q | {"x-mesage-ttl": 2}))
    assert lab.broker.vhost.queues["q"].declared.arguments["x-mesage-ttl"] == 1


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        (Exchange("x", "bogus"), "unknown exchange type 'bogus'"),
        (Exchange("amq.mine"), "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"),
        (Exchange(""), "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (Exchange("amq.topic", "direct"), "inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is 'topic'"),
        (Exchange("x", arguments={"alternate-exchange": 3}), "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x'"),
        (Exchange("old", internal=True), "inequivalent arg 'internal' for exchange 'old' in vhost '/': received 'true' but current is 'false'"),
        (Exchange("old", arguments={"alternate-exchange": "a"}), "received the value 'a' of type 'longstr' but current is none"),
    ],
)  # fmt: skip
def test_an_exchange_is_refused(lab, exchange, words):  # §5
    lab.declare(Exchange("old"), Exchange("amq.topic", "topic"))
    assert words in refusal(lab, exchange)


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (Binding("nope", "q"), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (Binding("x", "nope"), "NOT_FOUND - no queue 'nope' in vhost '/'"),
        (Binding("x", "nope", destination_type="exchange"), "NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (Binding("", "q"), "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (Binding("h", "q", arguments={"x-match": "foo"}), 'Invalid x-match field value <<"foo">>'),
        (Binding("h", "q", arguments={"x-match": 3}), "Invalid x-match field type signedint (value 3); expected longstr"),
    ],
)  # fmt: skip
def test_a_binding_is_refused(lab, binding, words):  # §5
    lab.queue("q")
    lab.declare(Exchange("x"), Exchange("h", "headers"))
    assert words in refusal(lab, binding)


def test_a_topic_key_may_hold_two_hashes_on_4_3(make_lab):  # §2.5, probed
    for version in ("4.3", "4.0"):
        lab = make_lab(version)
        lab.queue("q")
        lab.declare(Exchange("t", "topic"), Binding("t", "q", "#.a.#"))
        if version == "4.0":
            lab.declare(Binding("t", "q", "#.a.#.b.#"))
        else:
            words = "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed"
            assert refusal(lab, Binding("t", "q", "#.a.#.b.#")) == words


@pytest.mark.parametrize(
    "policy",
    [
        Policy("p", "(", {"max-length": 1}),
        Policy("p", ".*", {}),
        Policy("p", ".*", {"ha-mode": "all"}),
        Policy("p", ".*", {"max-length": "1"}),
        Policy("p", ".*", {"max-length": -1}),
        Policy("p", ".*", {"overflow": "drop-tail"}),
        Policy("p", ".*", {"overflow": 1}),
        Policy("p", ".*", {"max-length": 1}, apply_to="everything"),
    ],
)
def test_a_policy_is_validated(lab, policy):  # topology facts §2.2, case 014
    refusal(lab, policy)
    assert lab.broker.vhost.policies == {}


def test_4_0_refuses_the_keys_of_delayed_retry(make_lab):  # §2.3
    assert "not recognised" in refusal(make_lab("4.0"), Policy("p", ".*", {"delayed-retry-type": "all"}))


@pytest.mark.parametrize(
    "wanted",
    [
        Queue("q", "stream", arguments={"x-queue-type": "stream"}),
        Queue("q", arguments=Q | {"x-expires": 1000}),
        Queue("q", arguments=Q | {"x-single-active-consumer": True}),
        Queue("q", arguments=Q | {"x-delayed-retry-type": "all", "x-delayed-retry-min": 100}),
        Queue("q", arguments=Q | {"x-max-length-bytes": 100}),
        Queue("q", arguments=Q | {"x-delivery-limit": "3"}),
        Queue("q", "classic", auto_delete=True),
        Queue("q", "classic", exclusive=True),
        Exchange("x", auto_delete=True),
        Exchange("x", "x-local-random"),
        Policy("p", ".*", {"expires": 1000}),
        Policy("p", ".*", {"delayed-retry-type": "all"}),
    ],
)
def test_what_is_not_modelled_says_so_at_the_declaration(make_lab, wanted):
    lab = make_lab("4.3")
    with pytest.raises(NotModelled, match="does not model"):
        lab.declare(wanted)
    assert (lab.broker.vhost.queues, lab.broker.vhost.policies) == ({}, {})


def test_4_0_ignores_the_arguments_of_delayed_retry_as_the_real_one_does(make_lab):  # §2.3
    make_lab("4.0").queue("q", delayed_retry_type="all", delayed_retry_min=100)


def test_equal_priorities_on_one_queue_are_not_modelled_because_the_broker_leaves_them_open(lab):
    lab.queue("q")
    lab.declare(Policy("a", ".*", {"max-length": 1}))
    with pytest.raises(NotModelled, match="equal priority"):
        lab.declare(Policy("b", ".*", {"max-length": 2}))
    assert list(lab.broker.vhost.policies) == ["a"]


def test_a_byte_limit_by_policy_is_not_modelled_for_4_3_quorum_queues(make_lab):
    lab = make_lab("4.3")
    lab.declare(Policy("a", ".*", {"max-length-bytes": 1}))
    with pytest.raises(NotModelled, match="metadata"):
        lab.queue("q")


def test_an_unknown_version_is_not_modelled():
    with pytest.raises(NotModelled, match=r"3\.13"):
        MemoryBroker(VirtualClock(), version="3.13")


def test_looking_into_a_missing_queue_says_so(lab):
    with pytest.raises(QueueMissing):
        lab.broker.depth("nope")


async def test_what_was_created_reads_back_sorted_and_deletes_in_any_order(lab):
    admin = MemoryAdmin(lab.broker)
    exchanges = (Exchange("a"), Exchange("b", "topic"))
    queues = (Queue("q", arguments=Q), Queue("r", "classic", arguments=C))
    bindings = (Binding("a", "q", "k"), Binding("b", "a", "#", "exchange"), Binding("b", "q", "x", arguments={"n": 1}))
    policies = (Policy("p", "^q$", {"max-length": 3}),)
    wanted = (*exchanges[::-1], *queues[::-1], *bindings[::-1], *policies)
    for each in wanted * 2:
        await admin.create(each)

    assert await admin.read() == Topology(exchanges, queues, bindings, policies, vhost="/")
    assert (await admin.identify()).cluster_name == "rabbit@memory"

    for each in wanted * 2:
        await admin.delete(each)
    assert await admin.read() == Topology(vhost="/")
    with pytest.raises(Refused):
        await admin.delete(Exchange("amq.topic", "topic"))
    await admin.close()
