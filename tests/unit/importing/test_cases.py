"""Definitions from public reports: each is imported, its file linted, and planned against what it came from."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.identity import address
from amqpkit.declare.importing.definitions import read
from amqpkit.declare.importing.outline import outline
from amqpkit.declare.importing.text import to_text
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.declare.spec.parsing import parse

FOLDER = Path(__file__).parent / "definitions"

# What no topology file can hold, and what lint says of the rest.
LEFT_OUT = {
    "argument-table": {"type-misspelt", "quorum-auto-delete", "quorum-not-durable", "ttl-true"},
    "long-names": {"n" * 256},
    "misspelt-arguments": {"jobs", "p"},
    "numbers-as-text": {"jobs.a", "jobs.b", "jobs.c"},
    "numbers-as-text-definitions": {"b"},
}
FINDINGS = {
    "applied-twice": {"AK304"},
    "argument-and-policy": {"AK407"},
    "argument-table": {"AK103", "AK104", "AK105", "AK201", "AK211", "AK214", "AK503"},
    "expiry-cycle": {"AK210"},
    "expiry-cycle-fine": {"AK211"},
    "mirroring": {"AK304"},
    "transient-queue": {"AK502"},
    "undeclared-dead-letter-exchange": {"AK201"},
    "undeclared-dead-letter-exchange-unbound-key": {"AK202"},
}


def definitions(name):
    return read(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")), f"{name}.json")


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_every_case_is_imported_linted_and_planned(name):
    found = definitions(name)

    imported = outline(found)
    text = to_text(imported.document)
    report = lint([("topology.yaml", text)], {})
    topology = compile_topology(parse([("topology.yaml", text)], {}))
    plan = make_plan(topology, Actual(found.topology))

    left = {note.subject.split(" ", 1)[1] for note in imported.notes if note.kind == "left-out"}
    assert left == LEFT_OUT.get(name, set())
    assert {each.rule.code for each in report.at_least(Severity.WARNING)} == FINDINGS.get(name, set())
    assert (plan.changes, plan.obstacles) == ((), ())
    assert topology == imported.topology


def test_of_a_real_export_everything_is_there_after_applying_it_to_nothing():
    found = definitions("real-export")
    imported = outline(found)

    stream = next(each for each in imported.topology.queues if each.name == "done_stream")
    assert (stream.type, stream.arguments["x-max-age"]) == ("stream", "1M")
    assert imported.topology.work_queues == {}
    assert {note.subject: note.message for note in imported.notes} == {
        "users": "APP_USER, ops: not managed here",
        "permissions": "APP_USER: not managed here",
        "global parameters": "internal_cluster_id: not managed here",
        "shovel parameters": "done: not managed here",
        "the definitions file": "it holds secrets, of which nothing was taken over: users.password, "
        "users.password_hash; keep it out of repositories",
    }
    assert "PLACEHOLDER" not in to_text(imported.document)


async def test_what_is_imported_and_applied_leaves_an_empty_plan_against_the_broker():
    imported = outline(definitions("bindings-by-type"))
    admin = MemoryAdmin(MemoryBroker(VirtualClock()))
    for each in (*imported.topology.exchanges, *imported.topology.queues, *imported.topology.bindings):
        await admin.create(each)

    plan = make_plan(imported.topology, Actual(await admin.read()))

    assert len(imported.topology.bindings) == 3, [address(each) for each in imported.topology.bindings]
    assert plan.changes == ()


def test_mirroring_goes_with_a_word_for_each_policy_and_an_emptied_policy_goes_whole():
    imported = outline(definitions("mirroring"))

    assert [(each.name, dict(each.definition)) for each in imported.topology.policies] == [
        ("limits", {"max-length": 1000})
    ]
    told = {note.subject: note.message for note in imported.notes if note.kind == "changed"}
    assert told["policy ha"].startswith("left out: it has only ha-mode, ha-params, ha-sync-mode")
    assert told["policy limits"].startswith("without ha-mode, queue-master-locator")
    assert "queues that match ^orders were mirrored: quorum queues replicate" in told["policy limits"]


@pytest.mark.parametrize(("version", "kept"), [("", False), ("3.12.0", False), ("4.0.5", True)])
def test_a_placement_policy_is_dropped_only_where_the_file_is_not_of_a_broker_that_takes_it(version, kept):
    document = {"rabbitmq_version": version, "policies": [
        {"name": "p", "pattern": "^a", "definition": {"queue-master-locator": "min-masters"}, "apply-to": "queues"}
    ]}  # fmt: skip

    assert bool(outline(read(document, "f")).topology.policies) is kept


def test_secrets_are_in_no_text_and_no_note():
    found = definitions("secrets")
    imported = outline(found)

    told = "\n".join(map(str, imported.notes))
    assert "MARKER" not in to_text(imported.document) + told + repr(imported) + repr(found)
    assert "users.password, users.password_hash" in told
    assert "parameters.federation-upstream.uri" in told


def test_bindings_of_an_exchange_that_is_missing_are_all_named_before_anything_is_sent():
    count = 2_000
    document = {
        "queues": [{"name": f"q{number}", "arguments": {"x-queue-type": "classic"}} for number in range(count)],
        "bindings": [{"source": "fan", "destination": f"q{number}"} for number in range(count)],
    }

    imported = outline(read(document, "big.json"))

    assert len(imported.topology.queues) == count
    left = [note for note in imported.notes if note.kind == "left-out"]
    assert len(left) == count
    assert str(left[0]).startswith("binding fan -> queue q0: not in the file: there is no exchange fan")


def test_an_object_that_is_left_out_is_kept_from_being_pruned():
    document = {
        "queues": [
            {"name": "jobs", "arguments": {"x-queue-type": "classic"}},
            {"name": "jobs.odd", "arguments": {"x-queue-type": "classic", "durable": True}},
        ]
    }
    found = read(document, "f")

    imported = outline(found)

    assert imported.document["on-remove"] == {"jobs.odd": "retain"}
    assert imported.topology == compile_topology(parse([("f", to_text(imported.document))], {}))
    assert replace(imported.topology, retained=()) != imported.topology
