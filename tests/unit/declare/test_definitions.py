"""RabbitMQ's definitions where a topology file is asked for."""

import json
from pathlib import Path

import pytest

from amqpkit import TopologyError, load_topology
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.importing.definitions import read
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Binding

CASES = Path(__file__).parents[1] / "importing" / "definitions"
REFUSED = {
    "argument-table": {"durable", "auto_delete", "type", "arguments.x-message-ttl"},
    "long-names": {"has 256 bytes"},
    "misspelt-arguments": {"x-"},
    "numbers-as-text": {"arguments.x-"},
    "numbers-as-text-definitions": {"arguments.x-"},
}
REMOVED = {"mirroring": {"ha", "limits"}}
"""Policies whose removed keys `import` leaves out; here lint tells of them."""


def problems(document, file="defs.json", **more):
    text = document if isinstance(document, str) else json.dumps(document, **more)
    with pytest.raises(TopologyError) as caught:
        parse([(file, text)], {})
    return [str(problem) for problem in caught.value.problems]


def queue(name, **more):
    return {"name": name, "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}, **more}


def binding(source, destination, key="", **more):
    return {"source": source, "destination": destination, "destination_type": "queue", "routing_key": key, **more}


def exchange(name, **more):
    return {"name": name, "type": "topic", "durable": True, **more}


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.json")))
def test_they_say_word_for_word_what_is_in_them(name):
    text = (CASES / f"{name}.json").read_text(encoding="utf-8")
    there = read(json.loads(text), name).topology
    try:
        topology = compile_topology(parse([(f"{name}.json", text)], {}))
    except TopologyError as error:
        told = "\n".join(map(str, error.problems))
        assert all(part in told for part in REFUSED[name]), told
        return

    plan = make_plan(topology, Actual(there))

    assert name not in REFUSED
    if name in REMOVED:
        assert {change.wanted.name for change in plan.changes} == REMOVED[name]
        return
    assert (plan.changes, plan.obstacles) == ((), ())
    assert plan.unchanged == sum(map(len, (there.queues, there.exchanges, there.bindings, there.policies)))


def test_a_queue_without_a_type_has_its_vhosts_default():
    by_vhost = {"vhosts": [{"name": "shop", "default_queue_type": "quorum"}, {"name": "other"}]}
    alone = {"metadata": {"default_queue_type": "stream"}}

    def kinds(about, **more):
        return [each.type for each in compile_topology(parse([("d.json", json.dumps(about | more))], {})).queues]

    assert kinds(by_vhost, queues=[queue("a"), queue("b", arguments={"x-queue-type": "classic"})]) == [
        "quorum",
        "classic",
    ]
    assert kinds(alone, queues=[queue("a"), queue("b", type="quorum")]) == ["stream", "quorum"]
    assert kinds({}, queues=[queue("a")]) == ["classic"]
    assert kinds({"default_queue_type": ["quorum"]}, queues=[queue("a")]) == ["classic"]


def test_bindings_are_written_at_what_they_lead_to():
    document = {
        "exchanges": [exchange("a"), exchange("b"), exchange("amq.topic")],
        "queues": [queue("q")],
        "bindings": [
            binding("a", "q", "k.1", arguments={"x": 1}),
            binding("a", "b", "k.2", destination_type="exchange"),
            binding("amq.topic", "q", "k.3", arguments=[]),
            binding("", "q", "q"),
        ],
    }

    topology = compile_topology(parse([("d.json", json.dumps(document))], {}))

    assert sorted(topology.bindings, key=lambda each: each.routing_key) == [
        Binding(source="a", destination="q", routing_key="k.1", arguments={"x": 1}),
        Binding(source="a", destination="b", routing_key="k.2", destination_type="exchange"),
        Binding(source="amq.topic", destination="q", routing_key="k.3"),
    ]
    assert [each.name for each in topology.exchanges] == ["a", "b"]


def test_every_mistake_is_told_at_its_line_and_column():
    text = """\
{"rabbit_version": "4.3.0", "users": [{"name": "u", "password_hash": "abc"}],
 "queues": [{"name": "q", "durable": "yes"}, {"durable": true},
            {"name": "q"}, 7],
 "exchanges": [{"name": "x", "type": "topik"}],
 "bindings": [{"source": "x", "destination": "q", "routing_key": "k"},
   {"source": "nowhere", "destination": "q"},
   {"source": "x", "destination": "gone", "destination_type": "queue"}],
 "policies": [{"name": "p", "pattern": "^q", "definition": {"x-max-length": 5}}]}
"""

    assert problems(text) == [
        'defs.json:2:13: queues.q.durable: expected true or false, not the text "yes"',
        "defs.json:2:46: this queue has no name",
        'defs.json:3:13: queue "q" is already given at 2:13',
        "defs.json:3:28: queues[3]: expected an object",
        'defs.json:4:16: exchanges.x.type: "topik" is not an exchange type (did you mean "topic"?)',
        'defs.json:6:4: queues.q.bindings[1].source: exchange "nowhere" is not declared; declare it under `exchanges`',
        'defs.json:7:4: the binding from "x" leads to the queue "gone", which is not declared in the file',
        'defs.json:8:15: policy keys have no "x-"; write "max-length"',
    ]


def test_in_one_long_line_the_column_tells_them_apart():
    document = {"exchanges": [], "queues": [queue("a"), queue("b")], "bindings": [binding("t", "a"), binding("t", "b")]}
    text = json.dumps(document)

    columns = [text.index('{"source"') + 1, text.rindex('{"source"') + 1]
    assert [each.split(":")[1:3] for each in problems(document)] == [["1", str(at)] for at in columns]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"queues": [}', "1:13: not JSON: expecting value"),
        ('{"queues": [{"name": "a"},\n]}', "1:26: not JSON: illegal trailing comma"),
        ('{"queues": [], "bindings": [{"source": "a"} {}]}', "1:45: not JSON: expecting ','"),
        ('{"queues": []} {}', "1:16: not JSON: extra data"),
        ('{"queues": [], 5: 1}', "1:17: not JSON: expecting a name in double quotes"),
        ('{"queues": []', "1:14: not JSON: expecting ','"),
        ('{"queues": [{"name": "a"', "1:25: not JSON: expecting ',' delimiter"),
        ('{"queues": [' + "[" * 100_000, "1:1: the file is nested too deeply"),
        ('{"queues": {}, "bindings": []}', "1:1: queues: expected a list"),
    ],
)
def test_what_is_not_json_is_told_where(text, said):
    assert problems(text) == [f"defs.json:{said}"]


def test_definitions_of_several_vhosts_say_how_to_take_one():
    document = {"queues": [queue("a"), queue("b", vhost="test")]}

    assert problems(document) == [
        'defs.json:1:1: definitions of several vhosts ("shop", "test"); take one: `amqpkit import defs.json --vhost …`'
    ]
    assert parse([("d.json", json.dumps({"queues": [queue("a")]}))], {}).vhost == "shop"
    assert parse([("d.json", json.dumps({"vhosts": [{"name": "v"}], "queues": []}))], {}).vhost == "v"


def test_a_topology_file_in_json_stays_one():
    document = {"version": 1, "queues": {"q": {"bindings": [{"source": "amq.topic"}]}}}
    braces = '{version: 1, queues: {q: {"bindings": [{source: amq.topic}]}}}'

    for text in (json.dumps(document), json.dumps(dict(reversed(document.items()))), braces):
        assert list(parse([("t.json", text)], {}).queues) == ["q"]


def test_a_topology_file_can_be_laid_over_them(tmp_path):
    base, over = tmp_path / "defs.json", tmp_path / "more.yaml"
    base.write_text(json.dumps({"exchanges": [exchange("x")], "queues": [queue("q")]}), encoding="utf-8")
    over.write_text("version: 1\nwork_queues: {jobs: {bindings: [{source: x}]}}\n", encoding="utf-8")

    topology = load_topology(base, over)

    assert set(topology.work_queues) == {"jobs"}
    assert "q" in {each.name for each in topology.queues}
    assert topology.vhost == "shop"


def test_lint_judges_them_like_a_file():
    document = {"queues": [queue("q", arguments={"x-dead-letter-exchange": "gone"})]}

    report = lint([("d.json", json.dumps(document))], {})

    assert next((each.rule.code, str(each.place)) for each in report.at_least(Severity.WARNING)) == (
        "AK201",
        "d.json:1:13",
    )


def test_a_variable_in_them_is_plain_text():
    assert list(parse([("d.json", json.dumps({"queues": [queue("${Q}")]}))], {}).queues) == ["${Q}"]
