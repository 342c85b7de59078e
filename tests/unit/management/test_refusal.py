"""What the broker said (each sentence seen on RabbitMQ 4.0 and 4.3) and what is made of it."""

import pytest

from amqpkit.brokers.management.refusal import refused
from amqpkit.model import Binding, Exchange, Policy, Queue

QUEUE, EXCHANGE = Queue("q"), Exchange("x")
POLICY = Policy("p", "^q$", {"max-length": 1})


@pytest.mark.parametrize(
    ("declared", "reason", "argument", "wanted", "actual"),
    [
        (
            QUEUE,
            "inequivalent arg 'x-message-ttl' for queue 'q' in vhost 'p': received '2000' but current is '1000'",
            "x-message-ttl",
            "2000",
            "1000",
        ),
        (
            QUEUE,
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost 'v': "
                "received 'quorum' but current is 'classic'"
            ),
            "x-queue-type",
            "quorum",
            "classic",
        ),
        (
            QUEUE,
            (
                "inequivalent arg 'x-max-length' for queue 'q' in vhost 'v': "
                "received the value '10' of type 'signedint' but current is none"
            ),
            "x-max-length",
            "10",
            "not set",
        ),
        (
            QUEUE,
            (
                "inequivalent arg 'x-max-length' for queue 'q' in vhost 'v': "
                "received none but current is the value '10' of type 'long'"
            ),
            "x-max-length",
            "not set",
            "10",
        ),
        (
            QUEUE,
            "inequivalent arg 'durable' for queue 'it's' in vhost 'a 'b' c': received 'false' but current is 'true'",
            "durable",
            "false",
            "true",
        ),
        (
            EXCHANGE,
            "inequivalent arg 'type' for exchange 'x' in vhost 'p': received 'topic' but current is 'direct'",
            "type",
            "topic",
            "direct",
        ),
        (
            EXCHANGE,
            (
                "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost 'p': "
                "received the value 'a' of type 'longstr' but current is none"
            ),
            "alternate-exchange",
            "a",
            "not set",
        ),
    ],
)
def test_a_difference_is_taken_apart(declared, reason, argument, wanted, actual):
    error = refused(declared, reason)

    assert (error.argument, error.wanted, error.actual) == (argument, wanted, actual)
    assert str(error).startswith(f"{error.object}: {argument} is {actual} on the broker, the file wants {wanted}; ")
    assert "under a new name" in error.remedy


@pytest.mark.parametrize(
    ("declared", "reason", "argument", "text"),
    [
        (
            QUEUE,
            "invalid arg 'x-max-priority' for queue 'q' in vhost 'v' of queue type rabbit_quorum_queue",
            "x-max-priority",
            "queue q: x-max-priority is not possible on a queue of type quorum; change it in the file",
        ),
        (
            QUEUE,
            "invalid arg 'x-message-ttl' for queue 'q' in vhost 'v': \"expected integer, got longstr\"",
            "x-message-ttl",
            "queue q: x-message-ttl is invalid: expected integer, got longstr; change it in the file",
        ),
        (
            QUEUE,
            "invalid arg 'x-message-ttl' for queue 'q' in vhost 'v': {value_negative,-1}",
            "x-message-ttl",
            "queue q: x-message-ttl is invalid: {value_negative,-1}; change it in the file",
        ),
        (
            QUEUE,
            "invalid property 'non-durable' for queue 'q' in vhost 'v'",
            "non-durable",
            "queue q: non-durable is invalid for this type of queue; change it in the file",
        ),
        (EXCHANGE, "unknown exchange type 'nope'", "", "exchange x: unknown exchange type 'nope'"),
        (
            POLICY,
            'Validation failed [{<<"foo">>,1}] are not recognised policy settings',
            "",
            'policy p: "foo" (with value 1) are not recognised policy settings; change the policy in the file',
        ),
        (
            POLICY,
            'Validation failed <<"nope">> is not a valid overflow value',
            "",
            'policy p: "nope" is not a valid overflow value; change the policy in the file',
        ),
        (
            Binding("x", "missing", "k"),
            "no queue 'missing' in vhost 'p'",
            "",
            "binding x -k-> queue missing: no queue 'missing' in vhost 'p'",
        ),
        (
            QUEUE,
            "cannot declare queue 'q': queue limit in vhost 'v' (100) is reached",
            "",
            "queue q: cannot declare queue 'q': queue limit in vhost 'v' (100) is reached",
        ),
    ],
)
def test_any_other_refusal_names_the_object_and_the_reason(declared, reason, argument, text):
    error = refused(declared, reason)

    assert (str(error), error.argument) == (text, argument)
