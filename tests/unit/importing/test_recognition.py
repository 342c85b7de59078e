"""Work queues are found again; what differs from one in anything stays what it is, and says why."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.importing.found import Found
from amqpkit.declare.importing.outline import outline
from amqpkit.declare.importing.text import to_text
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.declare.spec.format import Spec
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Binding, Policy, Queue, Topology
from tests.fuzz.topologies import topologies


def compiled(**work_queue):
    return compile_topology(Spec.model_validate({"version": 1, "work_queues": {"jobs": work_queue}}))


def bare(topology):
    """Forget what no broker knows."""
    return Topology(topology.exchanges, topology.queues, topology.bindings, topology.policies)


def reread(imported):
    return compile_topology(parse([("f", to_text(imported.document))], {}))


@pytest.mark.parametrize(
    ("written", "entry"),
    [
        ({}, {}),
        ({"retry": "none"}, {"retry": "none"}),
        ({"retry": {"delays": ["30s"]}}, {"retry": "none"}),
        ({"retry": {"delays": ["2s", "10s", "1m"]}}, {"retry": {"delays": ["2s", "10s", "1m"]}}),
        ({"retry": {"delays": ["10s", "10s", "1m"]}}, {"retry": {"delays": ["10s", "1m"]}}),
        ({"retry": {"attempts": 3, "first": "90s"}}, {"retry": {"delays": ["90s", "6m"]}}),
        ({"retry": {"jitter": "10%"}}, {"retry": {"jitter": "10%"}}),
        (
            {"retry": {"delays": ["10s", "11s"], "jitter": "20%"}},
            {"retry": {"delays": ["10s", "11s"], "jitter": "20%"}},
        ),
        ({"retry": {"delays": ["1s", "7s"], "jitter": "33%"}}, {"retry": {"delays": ["1s", "7s"], "jitter": "33%"}}),
        ({"max-length": 9, "delivery-limit": 20}, {"max-length": 9}),
        (
            {"max-length-bytes": "1MiB", "delivery-limit": 3, "consumer-timeout": "15m"},
            {"max-length-bytes": 1048576, "delivery-limit": 3, "consumer-timeout": 900000},
        ),
    ],
)
def test_a_work_queue_is_its_few_lines_again(written, entry):
    there = bare(compiled(**written))

    imported = outline(Found(there))

    assert imported.document == {"version": 1, "work_queues": {"jobs": entry}}
    assert bare(reread(imported)) == there


def test_what_no_broker_knows_is_named():
    imported = outline(Found(bare(compiled(retry="none"))))

    told = {note.subject: note.message for note in imported.notes}
    assert "jobs: write in what no broker knows: accepts, consume, limits.depth" in told["work queues"]
    assert "`retry: none` and for `delays: [30s]` alike" in told["retry: none"]


def changed_queue(topology, name, **arguments):
    def made(queue):
        return replace(queue, arguments={**queue.arguments, **arguments}) if queue.name == name else queue

    return replace(topology, queues=tuple(map(made, topology.queues)))


def without(topology, section, name):
    return replace(topology, **{section: tuple(each for each in getattr(topology, section) if each.name != name)})


def and_binding(topology, *binding):
    return replace(topology, bindings=(*topology.bindings, Binding(*binding)))


def other_policy(topology, name, **settings):
    def made(policy):
        return replace(policy, definition={**policy.definition, **settings}) if policy.name == name else policy

    return replace(topology, policies=tuple(map(made, topology.policies)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda there: changed_queue(there, "jobs", **{"x-overflow": "drop-head"}),
            "queue jobs has x-overflow drop-head, a work queue's has reject-publish",
        ),
        (
            lambda there: changed_queue(there, "jobs.dlq", **{"x-expires": 9}),
            "queue jobs.dlq has x-expires 9, which a work queue's does not have",
        ),
        (
            lambda there: replace(there, bindings=tuple(each for each in there.bindings if each.routing_key != "1m")),
            "there is no binding jobs.retry -1m-> queue jobs.retry.1m",
        ),
        (lambda there: without(there, "policies", "amqpkit.jobs"), "there is no policy amqpkit.jobs"),
        (lambda there: without(there, "exchanges", "jobs.dlx"), "there is no exchange jobs.dlx"),
        (
            lambda there: other_policy(there, "amqpkit.jobs", overflow="drop-head"),
            "policy amqpkit.jobs has overflow drop-head, a work queue's has reject-publish",
        ),
        (lambda there: other_policy(there, "amqpkit.jobs", **{"max-length": 0}), "max-length"),
        (lambda there: other_policy(there, "amqpkit.jobs.parts", expires=1), "policy amqpkit.jobs.parts has expires 1"),
        (
            lambda there: and_binding(there, "amq.topic", "jobs.dlq", "#"),
            "it has one more binding amq.topic -#-> queue jobs.dlq",
        ),
        (
            lambda there: and_binding(there, "amq.topic", "jobs.retry", "#", "exchange"),
            "it has one more binding amq.topic -#-> exchange jobs.retry",
        ),
        (
            lambda there: replace(there, queues=(*there.queues, Queue("jobs.retry.by-hand"))),
            "queue jobs.retry.by-hand is not one of its delay queues",
        ),
        (
            lambda there: changed_queue(there, "jobs.retry.1m", **{"x-message-ttl": 61_000}),
            "61s",
        ),
    ],
)
def test_what_differs_in_anything_stays_raw_and_says_why(change, reason):
    there = change(bare(compiled()))

    imported = outline(Found(there))

    assert "work_queues" not in imported.document
    (note,) = (note for note in imported.notes if note.kind == "raw")
    assert note.subject == "queue jobs"
    assert reason in note.message
    assert make_plan(reread(imported), Actual(there)).changes == ()


def test_public_bindings_go_with_the_work_queue():
    there = and_binding(bare(compiled()), "amq.topic", "jobs", "jobs.#")

    imported = outline(Found(there))

    assert imported.document["work_queues"]["jobs"] == {"bindings": [{"source": "amq.topic", "routing_key": "jobs.#"}]}


def test_other_queues_may_hang_on_a_work_queues_exchanges():
    there = replace(bare(compiled()), queues=(*compiled().queues, Queue("audit", arguments={"x-queue-type": "quorum"})))
    there = and_binding(there, "jobs.dlx", "audit")

    imported = outline(Found(there))

    assert list(imported.document["work_queues"]) == ["jobs"]
    assert imported.document["queues"]["audit"]["bindings"] == [{"source": "jobs.dlx"}]
    assert make_plan(reread(imported), Actual(there)).changes == ()


def test_a_secret_in_a_policy_of_ours_is_shown_in_no_note():
    there = changed_queue(bare(compiled()), "jobs", **{"x-note": "amqp://user:hunter2secret@host"})

    imported = outline(Found(there))

    assert "hunter2" not in to_text(imported.document) + "".join(map(str, imported.notes))
    assert make_plan(reread(imported), Actual(there)).changes == ()


@settings(deadline=None, max_examples=80)
@given(topologies())
def test_any_topology_comes_back_with_an_empty_plan_and_its_work_queues(topology):
    there = bare(topology)

    imported = outline(Found(there))
    again = reread(imported)

    plan = make_plan(again, Actual(there))
    assert (plan.changes, plan.extras) == ((), ())
    assert again.work_queues.keys() == topology.work_queues.keys()
    assert not [note for note in imported.notes if note.kind in {"left-out", "raw"}]


NAME = st.text(st.sampled_from("ab. /%${}:#é\n"), min_size=1, max_size=8)
ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), NAME, st.lists(st.integers(0, 3), max_size=2))


@st.composite
def found_anywhere(draw):
    """Draw what others may have declared: any name, any argument, any binding."""
    names = draw(st.lists(NAME, unique=True, min_size=1, max_size=4))
    tables = st.dictionaries(st.sampled_from(["x-message-ttl", "x-note", "durable", "x-max-length", "a b"]), ANYTHING)
    queues = [Queue(name, "classic", arguments={"x-queue-type": "classic", **draw(tables)}) for name in names]
    bindings = [
        Binding(
            draw(st.sampled_from(["amq.topic", "gone"])),
            draw(st.sampled_from(names)),
            draw(NAME),
            "queue",
            draw(tables),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    policies = [
        Policy(name, ".*", {"max-length": 1, **draw(tables)}, "queues", 1)
        for name in draw(st.lists(NAME, unique=True, max_size=2))
    ]
    return Topology((), tuple(queues), tuple(bindings), tuple(policies))


@settings(deadline=None, max_examples=80)
@given(found_anywhere())
def test_whatever_others_have_declared_is_in_the_file_or_in_a_note_and_never_changed(there):
    imported = outline(Found(there))
    again = reread(imported)

    plan = make_plan(again, Actual(there))
    assert plan.changes == ()
    left = sum(note.kind == "left-out" for note in imported.notes)
    assert left == len({repr(each) for each in (*there.queues, *there.bindings, *there.policies)}) - plan.unchanged
