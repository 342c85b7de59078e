"""What the rules say in particular, beyond their two examples."""

import pytest

from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint


def found(text: str, environ=None, lowest=Severity.WARNING) -> list[str]:
    report = lint([("t", "version: 1\n" + text)], environ or {})
    return [f"{each.place.line} {each.rule.code} {each.text}" for each in report.at_least(lowest)]


def codes(text: str, **options) -> list[str]:
    return [line.split()[1] for line in found(text, **options)]


@pytest.mark.parametrize("key", ["a.b.c", "a.*.c", "#", "x"])
def test_dead_letters_keep_their_keys_so_those_of_the_bindings_are_tried(key):
    text = (
        "exchanges: {ev: {type: topic}, dlx: {type: topic}}\nqueues:\n"
        f'  work: {{bindings: [{{source: ev, routing_key: "{key}"}}], arguments: {{x-dead-letter-exchange: dlx}}}}\n'
        '  dead: {bindings: [{source: dlx, routing_key: "a.#"}], arguments: {x-delivery-limit: -1}}\n'
    )

    assert codes(text) == (["AK202"] if key == "x" else [])


def test_dead_letters_are_followed_through_exchanges_and_alternates():
    text = (
        "exchanges:\n  dlx: {alternate-exchange: rest}\n  rest: {type: fanout}\n"
        "  all: {type: fanout, bindings: [{source: rest}]}\nqueues:\n"
        "  work: {arguments: {x-dead-letter-exchange: dlx}}\n"
        "  dead: {bindings: [{source: all}], arguments: {x-delivery-limit: -1}}\n"
    )

    assert found(text) == []


def test_a_policy_of_the_file_counts_where_it_rules():
    policy = "policies:\n  net: {pattern: ^work$, definition: {dead-letter-exchange: nope}, priority: 3}\n"

    assert codes(f"queues: {{work: {{}}}}\n{policy}") == ["AK201"]
    assert codes(f"queues: {{other: {{}}}}\n{policy}") == []


def test_a_quorum_queues_overflow_is_its_policys():
    text = (
        "work_queues: {jobs: {limits: {depth: 9}}}\n"
        'policies:\n  all: {pattern: "^jobs", definition: {overflow: drop-head}, priority: 101}\n'
    )

    assert "AK205" in codes(text)
    assert "AK401" in codes(text)


def test_dead_letters_of_a_work_queue_are_safe_unless_a_policy_reaches_them():
    calm = "work_queues: {jobs: {limits: {depth: 9}}}\n"
    storm = calm + 'policies:\n  all: {pattern: "dlq$", definition: {delivery-limit: 20}, priority: 101}\n'

    assert found(calm) == []
    assert "AK207" in codes(storm)


def test_a_circle_through_three_queues_and_exchanges_is_found():
    text = "exchanges: {x: {}}\nqueues:\n" + "".join(
        f"  {name}: {{arguments: {{x-message-ttl: 5, x-dead-letter-exchange: x, x-dead-letter-routing-key: {target}}}, "
        f"bindings: [{{source: x, routing_key: {name}}}]}}\n"
        for name, target in (("a", "b"), ("b", "c"), ("c", "a"))
    )

    (line,) = found(text)

    assert line.startswith("4 AK210 messages that go a -> b -> c -> a")


@pytest.mark.parametrize(("overflow", "expected"), [("drop-head", ["AK210"]), ("reject-publish", ["AK211"])])
def test_messages_pushed_out_at_the_length_limit_go_round_too(overflow, expected):
    text = (
        "queues:\n  a: {arguments: {x-max-length: 5, x-overflow: " + overflow + ', x-dead-letter-exchange: "", '
        'x-dead-letter-routing-key: b}}\n  b: {arguments: {x-message-ttl: 5, x-dead-letter-exchange: "", '
        "x-dead-letter-routing-key: a}}\n"
    )

    assert codes(text) == expected


def test_crashes_in_a_circle_by_hand_are_named_on_quorum_queues():
    def circle(kind):
        return (
            f'queues:\n  work: {{type: {kind}, arguments: {{x-dead-letter-exchange: "", '
            'x-dead-letter-routing-key: wait}}\n  wait: {arguments: {x-message-ttl: 5, x-dead-letter-exchange: "", '
            "x-dead-letter-routing-key: work}}\n"
        )

    assert "delivery limit of 20" in found(circle("quorum"))[0]
    assert "delivery limit" not in found(circle("classic"))[0]


def test_messages_that_each_bring_their_ttl_are_found_in_a_circle():
    text = (
        'queues:\n  work: {arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: parked}}\n'
        '  parked: {arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: work}}\n'
    )

    assert codes(text) == ["AK212"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("amqp://app:s3cret@broker/", "a URL with a password"),
        ("password: s3cret-1", "a password or token"),
        ('api_key = "abcdef123456"', "a password or token"),
        ("AKIAABCDEFGHIJKLMNOP", "an access key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "a token"),
    ],
)
def test_a_secret_is_found_even_in_a_comment_and_never_repeated(line, what):
    (finding,) = found(f"queues: {{jobs: {{}}}}\n# {line}\n")

    assert finding.startswith(f"3 AK801 this line holds {what};")
    for secret in ("s3cret", "abcdef123456", "ABCDEFGH"):
        assert secret not in finding


@pytest.mark.parametrize(
    "line",
    [
        "amqp://app:${PASSWORD}@broker/",
        "amqp://app:***@broker/",
        "password: ${PASSWORD}",
        "amqp://broker:5672/",
        "tokens: 3",
    ],
)
def test_what_names_a_secret_without_holding_it_is_fine(line):
    assert found(f"queues: {{jobs: {{}}}}\n# {line}\n") == []


def test_a_secret_that_a_variable_brings_is_not_in_the_file():
    text = "work_queues:\n  jobs: {limits: {depth: 9}, dead_letter: {runbook: '${RUNBOOK}'}}\n"

    assert found(text, {"RUNBOOK": "https://me:hunter2secret@wiki/"}) == []


def test_a_file_with_a_wrong_value_is_still_searched_for_secrets():
    assert codes("queues: 5\n# amqp://app:s3cret@broker/\n") == ["AK001", "AK801"]


def test_one_mistake_is_one_line():
    assert codes("queues: {a: {arguments: {x-message-ttl: '5'}}}\n") == ["AK001"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("order.{id}.placed", []), ("{kind}.placed", []), ("invoice.{id}", ["AK602", "AK601"]), ("order.placed", [])],
)
def test_a_placeholder_may_become_any_text(key, expected):
    text = (
        "exchanges: {ev: {type: topic}}\nqueues: {log: {bindings: [{source: ev, routing_key: 'order.#'}]}}\n"
        f"messages:\n  a: {{exchange: ev, routing_key: '{key}'}}\n"
    )

    if key == "{kind}.placed":
        assert codes(text) == []
    assert codes(text) == expected


def test_a_message_to_a_queue_that_is_not_here_is_named_with_the_nearest():
    (line,) = found("queues: {orders: {}}\nmessages:\n  a: {exchange: '', routing_key: order}\n")

    assert 'nothing at the default exchange takes the key "order" (did you mean "orders"?)' in line


def test_an_alternate_exchange_makes_every_message_reach_something():
    text = (
        "exchanges: {ev: {type: topic, alternate-exchange: rest}, rest: {type: fanout}}\n"
        "queues: {rest: {bindings: [{source: rest}]}}\nmessages:\n  a: {exchange: ev, routing_key: x}\n"
    )

    assert found(text) == []


def test_bindings_of_an_exchange_that_others_feed_are_not_judged():
    text = (
        "exchanges: {up: {type: topic}, in: {type: topic, bindings: [{source: up, routing_key: '#'}]}}\n"
        "queues: {jobs: {bindings: [{source: in, routing_key: other}, {source: in, routing_key: x}]}}\n"
        "messages:\n  a: {exchange: in, routing_key: x}\n"
    )

    assert found(text) == []


def test_policies_are_reported_once_for_many_queues():
    queues = "".join(f"  jobs.{number}: {{}}\n" for number in range(9))
    text = (
        f"queues:\n{queues}policies:\n  low: {{pattern: ^jobs, definition: {{delivery-limit: 3}}}}\n"
        "  high: {pattern: ., definition: {delivery-limit: 4}, priority: 1}\n"
    )

    (line,) = found(text)

    assert "jobs.0, jobs.1, jobs.2 and 6 more" in line


@pytest.mark.parametrize(
    "text",
    [
        "work_queues: {a: {}, a.dlq: {}, a.retry.1s: {}}\n",
        "queues: {a: {type: quorum, durable: false}}\nwork_queues: {a: {bindings: [{source: nope}]}}\n",
        "exchanges: {a: {type: odd, alternate-exchange: a}}\nwork_queues: {b: {retry: {first: 1d, max: 1s}}}\n",
        "queues: {a: {arguments: {x-dead-letter-exchange: 5, x-message-ttl: x, x-max-length: [1], x-expires: {}}}}\n",
        "queues: {a: {arguments: {x-dead-letter-exchange: a, x-dead-letter-routing-key: 5, x-overflow: 1}}}\n",
        "policies: {p: {pattern: '(', definition: {x-a: 5, overflow: [], delivery-limit: many}}}\nqueues: {q: {}}\n",
        "messages: {m: {exchange: nope, routing_key: '{'}}\n",
        "queues: {a: {bindings: [{source: amq.headers, arguments: {x-match: 5}}]}}\n",
    ],
)
def test_a_file_that_is_refused_is_judged_as_far_as_it_goes(text):
    assert "AK001" in codes(text) or found(text)


LONG = "é" * 128


DEAD = """\
exchanges: {x: {type: fanout}}
queues:
  b: {bindings: [{source: x}], arguments: {x-delivery-limit: -1}}
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"  a: {{arguments: {{x-dead-letter-exchange: x, x-dead-letter-routing-key: {LONG}}}}}\n",
            "5 AK103 x-dead-letter-routing-key",
        ),
        (
            f"  a: {{}}\npolicies:\n  p:\n    pattern: a\n    definition: {{dead-letter-routing-key: {LONG}}}\n",
            "9 AK106 dead-letter-routing-key",
        ),
    ],
    ids=["argument", "policy"],
)
def test_a_dead_letter_key_that_no_frame_can_hold_is_an_error(text, line):
    """RabbitMQ takes it, and ends the connection of every reader that such a letter is given to (541, measured)."""
    (finding,) = found(DEAD + text, lowest=Severity.ERROR)

    assert finding.startswith(line)
    assert "256 bytes" in finding
    assert found(DEAD + text.replace(LONG, LONG[1:] + "k"), lowest=Severity.ERROR) == []


def test_what_a_stream_does_not_have_is_not_judged_any_further():
    assert codes('queues: {log: {type: stream, arguments: {x-dead-letter-exchange: ""}}}\n') == ["AK104"]
    assert codes("queues: {log: {type: stream, arguments: {x-dead-letter-exchange: nope}}}\n") == ["AK104"]


def test_a_pattern_that_4_3_finds_too_long_is_an_error_there():
    def texts(size):
        text = f"queues: {{jobs: {{}}}}\npolicies:\n  p: {{pattern: {'j' * size}, definition: {{delivery-limit: 3}}}}\n"
        return [("t", f"version: 1\n{text}")]

    (finding,) = lint(texts(1025), {}).at_least(Severity.ERROR)

    assert (finding.rule.code, finding.place.line) == ("AK106", 4)
    assert "the pattern has 1025 bytes; from 4.3 on RabbitMQ takes 1024" in finding.message
    assert lint(texts(1024), {}).at_least(Severity.ERROR) == ()
    assert lint(texts(1025), {}, version=(4, 0)).at_least(Severity.ERROR) == ()
