"""What lint says with a look at a broker."""

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.lint.live import checks
from amqpkit.declare.lint.run import lint
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Exchange, Policy, Surroundings, Topology

JOBS = """\
version: 1
work_queues:
  jobs: {limits: {depth: 9}, max-length: 100, retry: none, dead_letter: {owner: me, alert: {messages: 1}}}
"""
NOTHING_AROUND = Surroundings()


def found(text: str, actual: Topology | None = None, around: Surroundings = NOTHING_AROUND) -> list[str]:
    there = actual or compile_topology(parse([("t", text)], {}))
    report = lint([("t", text)], {}, live=checks(there, around))
    return [f"{each.place.line} {each.rule.code} {each.text}" for each in report.findings]


def ruled_by(*policies: Policy) -> Topology:
    return Topology(policies=policies)


def operators(**definition) -> Surroundings:
    return Surroundings(operator_policies=(Policy("cap", ".*", definition, "queues", 0),))


def test_a_broker_without_strangers_is_fine():
    assert found(JOBS) == []


def test_a_strangers_policy_counts_from_our_priority_on():
    low, high = (Policy("theirs", ".*", {"max-length": 5}, "all", priority) for priority in (99, 100))

    assert found(JOBS, ruled_by(low)) == []
    (line,) = found(JOBS, ruled_by(high))
    assert line.startswith(
        '3 AK701 policy "theirs" (priority 100) rules instead of ours on jobs, jobs.dlq, jobs.retry.30s'
    )


def test_a_strangers_policy_that_only_rabbitmq_can_read_may_rule():
    only_pcre = r"^jo(*SKIP)bs"
    low, high, other = (
        Policy("theirs", pattern, {"max-length": 5}, "all", priority)
        for pattern, priority in ((only_pcre, 99), (only_pcre, 100), (r"^else(*SKIP)where", 500))
    )

    assert found(JOBS, ruled_by(low, other)) == []
    (line,) = found(JOBS, ruled_by(high))
    assert line.startswith(
        '3 AK701 policy "theirs" (priority 100) has a pattern that only RabbitMQ can read: '
        "it may rule instead of ours on jobs, jobs.dlq, jobs.retry.30s"
    )


def test_an_operator_policy_that_only_rabbitmq_can_read_may_rule():
    cap = Policy("cap", "^(*UCP)jobs$", {"max-length": 50}, "queues", 0)

    lines = found(JOBS, around=Surroundings(operator_policies=(cap,)))
    assert lines[0].startswith(
        '3 AK703 operator policy "cap" has a pattern that only RabbitMQ can read, and may reach ours: '
        "max-length is 50 instead of 100 on jobs"
    )


def test_a_strangers_policy_that_rabbitmq_passes_over_is_none():
    assert found(JOBS, ruled_by(Policy("theirs", ".*", {"max-length": 5, "max-age": "1D"}, "all", 500))) == []


def test_an_operators_number_tightens_and_only_what_drops_is_an_error():
    lines = found(JOBS, around=operators(**{"max-length": 50}))

    assert [line.split(";")[0] for line in lines] == [
        '3 AK703 operator policy "cap": max-length is 50 instead of 100 on jobs',
        '3 AK703 operator policy "cap": max-length is 50 instead of unset on jobs.dlq, jobs.retry.30s',
    ]


def test_an_operators_ttl_and_delivery_limit_lose_messages():
    ttl = found(JOBS, around=operators(**{"message-ttl": 1000}))
    limit = found(JOBS, around=operators(**{"delivery-limit": 3}))
    overflow = found(JOBS, around=operators(overflow="drop-head"))

    assert {line.split()[1] for line in ttl} == {"AK702"}
    # On a delay queue it is harmless: nobody reads there.
    assert any("AK702" in line and "delivery-limit is 3 instead of -1 on jobs.dlq;" in line for line in limit)
    assert any("delivery-limit is 3 instead of 20 on jobs" in line and "AK703" in line for line in limit)
    assert {line.split()[1] for line in overflow} == {"AK702"}


def test_an_operator_policy_above_ours_changes_nothing():
    assert found(JOBS, around=operators(**{"max-length": 5000, "overflow": "reject-publish"})) == [
        line for line in found(JOBS, around=operators(**{"max-length": 5000})) if "unset" in line
    ]


def test_what_the_broker_denies_or_lacks_is_named():
    text = (
        "version: 1\nexchanges: {later: {type: x-odd}}\n"
        "queues:\n  ctl: {type: classic, durable: false, arguments: {x-max-length: 5, x-overflow: drop-head}}\n"
    )
    around = Surroundings(
        denied=frozenset({"transient_nonexcl_queues"}),
        exchange_types=frozenset({"direct", "topic", "fanout", "headers"}),
    )

    codes = [line.split()[1] for line in found(text, Topology(), around)]

    assert "AK704" in codes
    assert "AK705" in codes
    assert "AK705" not in [line.split()[1] for line in found(text, Topology(), NOTHING_AROUND)]


def test_an_exchange_of_others_is_looked_for_and_its_suppression_is_not_idle_offline():
    text = (
        "version: 1\nqueues:\n  jobs:\n    arguments:\n      x-max-length: 5\n      x-overflow: reject-publish\n"
        "      x-dead-letter-exchange: theirs  # amqpkit: ignore[AK201] the platform team declares it\n"
    )

    assert found(text, Topology(exchanges=(Exchange("theirs"),))) == []
    (line,) = found(text, Topology())
    assert line.startswith('7 AK706 exchange "theirs" is neither in the file nor on this broker')
    hushed = text.replace("[AK201]", "[AK201, AK706]")
    assert lint([("t", hushed)], {}).findings == ()
    assert found(hushed, Topology()) == []
