"""Every fault of a topology file is found, at its place, with a remedy; all of them in one run."""

from pathlib import Path

import pytest

from amqpkit.declare.spec.parsing import parse
from amqpkit.declare.spec.wording import worded
from amqpkit.errors import TopologyError


def problems(*texts: str, environ: dict[str, str] | None = None) -> list[str]:
    files = [(f"{'abc'[rank]}.yaml", text) for rank, text in enumerate(texts)]
    try:
        parse(files, environ or {})
    except TopologyError as error:
        return [str(problem) for problem in error.problems]
    return []


def in_queue(line: str) -> str:
    return f"version: 1\nwork_queues:\n  mail:\n    {line}\n"


CASES = [
    tuple(case.strip().rsplit("\n>>> ", 1))
    for case in Path(__file__).with_name("faults.txt").read_text().split("\n", 1)[1].split("====\n")[:-1]
]

UNWRITABLE = [
    ("", "a.yaml:1:1: the file is empty; a topology starts with `version: 1`"),
    ("# nothing\n", "a.yaml:1:1: the file is empty; a topology starts with `version: 1`"),
    ("version: 1\nqueues:\n\tjobs: {}\n", "a.yaml:3:1: not YAML: a tab cannot indent YAML; use spaces"),
    ("version: 1\nowns: [\x01]\n", "a.yaml:2:8: not YAML: the character U+0001 is not allowed"),
    ("version: " + "[" * 1000, "a.yaml:1:1: the file is nested too deeply"),
    (f"version: 1\nqueues: {{{'é' * 128}: {{}}}}\n", f'a.yaml:2:10: "{"é" * 128}" has 256 bytes; RabbitMQ takes 255'),
    (
        f"version: 1\nwork_queues: {{{'q' * 250}: {{}}}}\n",
        f'a.yaml:2:15: the queue "{"q" * 250}.retry.10s" that it needs would have 260 bytes; RabbitMQ takes 255',
    ),
    (
        f"version: 1\nqueues: {{q: {{bindings: [{{source: amq.topic, routing_key: {'k' * 256}}}]}}}}\n",
        "a.yaml:2:58: queues.q.bindings[0].routing_key: the routing key has 256 bytes; RabbitMQ takes 255",
    ),
    (
        f"version: 1\nmessages: {{a: {{exchange: '', routing_key: {'k' * 256}}}}}\n",
        "a.yaml:2:43: messages.a.routing_key: the routing key has 256 bytes; RabbitMQ takes 255",
    ),
]


@pytest.mark.parametrize(("text", "problem"), [*CASES, *UNWRITABLE])
def test_a_fault_is_named_at_its_place_with_a_remedy(text, problem):
    assert problems(text) == [problem]


def test_five_different_mistakes_are_five_places_in_one_run():
    text = """\
version: 1
exchanges: {mail: {type: topic}}
work_queues:
  email.send:
    bindings: [{source: mial}]
    consume: {prefech: 20, timeout: 30}
    retry: {delays: [1m, 10s]}
    max-length: 10
    max_length: 20
"""
    assert [problem.rsplit(": ", 1)[0].split(": ")[0] for problem in problems(text)] == [
        "a.yaml:5:25",
        "a.yaml:6:15",
        "a.yaml:6:37",
        "a.yaml:7:26",
        "a.yaml:9:5",
    ]


def test_what_is_wrong_does_not_hide_what_is_wrong_elsewhere():
    text = """\
version: two
exchanges:
  mail: fanout
queues:
  jobs: 5
  more:
    bindings: [{source: mail}, {routing_key: x}, {source: gone}]
messages:
  order: mail
"""
    assert [problem.split(": ")[0] for problem in problems(text)] == [
        "a.yaml:1:10",
        "a.yaml:3:9",
        "a.yaml:5:9",
        "a.yaml:7:32",
        "a.yaml:7:59",
        "a.yaml:9:10",
    ]


def test_a_wrong_section_raises_no_false_alarm_about_what_refers_to_it():
    text = "version: 1\nexchange: {mail: {}}\nqueues: {jobs: {bindings: [{source: mail}]}}\n"

    assert problems(text) == ['a.yaml:2:1: unknown key "exchange" (did you mean "exchanges"?)']


def test_what_hid_behind_a_fault_is_reported_once_that_is_mended():
    text = in_queue("delivery-limit: 0\n    delivery_limits: 1\n    limits: {depth: 0}")

    assert [problem.split(": ")[0] for problem in problems(text)] == ["a.yaml:4:21", "a.yaml:5:5", "a.yaml:6:21"]


def test_a_value_is_blamed_on_the_file_it_came_from():
    base = in_queue("consume: {prefetch: 5}\n    limits: {depth: 10}")
    production = "work_queues:\n  mail:\n    consume: {prefetch: 0}\n    max-length: 5\n"

    assert problems(base, production) == [
        "b.yaml:3:25: work_queues.mail.consume.prefetch: must be at least 1",
        (
            "b.yaml:4:17: work_queues.mail.max-length: max-length 5 must be at least twice limits.depth; "
            "write 20 or lower the depth"
        ),
    ]


def test_problems_come_in_the_order_of_the_files_and_their_lines():
    first = "version: 1\nqueues: {b: {typo: 1}, a: {bindings: [{source: x}]}}\n"
    second = "nonsense: 1\nvhost: 5\n"

    assert [problem.split(": ")[0] for problem in problems(first, second)] == [
        "a.yaml:2:14",
        "b.yaml:1:1",
        "b.yaml:2:8",
    ]


def test_files_that_are_not_yaml_are_all_named():
    assert [problem.split(": ")[0] for problem in problems("a: [", "version: 1\nqueues: {}", "b: @")] == [
        "a.yaml:1:5",
        "c.yaml:1:4",
    ]


def test_both_spellings_in_two_files_are_one_key():
    assert problems(in_queue("max-length: 5"), "work-queues: {mail: {max_length: 6}}") == []


def test_a_missing_variable_is_named_at_its_place():
    text = "version: 1\nvhost: ${VHOST}\nowns: ['${1}', '${', x]\n"

    assert problems(text) == [
        "a.yaml:2:8: variable VHOST is not set; set it or write ${VHOST:-default}",
        "a.yaml:3:8: '${1}' is not a variable; write ${NAME} or ${NAME:-default}",
        "a.yaml:3:16: '${' is not a variable; write ${NAME} or ${NAME:-default}",
    ]


def test_an_error_without_words_of_ours_keeps_pydantics():
    error = {"type": "frozen_field", "loc": ("vhost",), "msg": "Field is frozen", "input": "x"}

    assert worded(error, "vhost") == "vhost: Field is frozen"
