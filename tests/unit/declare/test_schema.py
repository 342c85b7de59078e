"""The schema for editors agrees with `validate` about the shape of files."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from amqpkit.declare.schema import file_schema

REPOSITORY = Path(__file__).parents[3]
GOOD = [
    Path(__file__).with_name("full.yaml"),
    *sorted(path for path in (REPOSITORY / "topology").rglob("*.yaml") if "version:" in path.read_text()),
]
SCHEMA = Draft202012Validator(file_schema())


def faults(text: str) -> set[str]:
    data = YAML(typ="safe", pure=True).load(text)
    return {"/".join(map(str, error.absolute_path)) for error in SCHEMA.iter_errors(data)}


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(file_schema())


@pytest.mark.parametrize("path", GOOD, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_good_files_pass(path):
    assert faults(path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "{max_length: 5, dead-letter: {replay: {max-replays: 3}}}",
        "{consumer-timeout: 900000}",
        "{consumer_timeout: 15m}",
        "{retry: none}",
        "{retry: {attempts: 5, first: 30s, factor: 4, max: 1h, jitter: 10%}}",
        '{max-length: "${MAX}", consume: {timeout: "${SECONDS}s", rate: "${RATE:-5/s}"}}',
        "{consume: , limits: }",
    ],
)
def test_what_validate_accepts_passes(entry):
    assert faults(f"version: 1\nwork_queues:\n  mail: {entry}\n") == set()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("queues: {}", ""),
        ("version: 2", "version"),
        ("version: 1\nqueue: {}", ""),
        ("version: 1\nqueues: []", "queues"),
        ("version: 1\nqueues: {q: {type: odd}}", "queues/q/type"),
        ("version: 1\nqueues: {q: {bindings: [{}]}}", "queues/q/bindings/0"),
        ("version: 1\nwork_queues: {q: {prefech: 1}}", "work_queues/q"),
        ("version: 1\nwork_queues: {q: {consume: {timeout: 30}}}", "work_queues/q/consume/timeout"),
        ("version: 1\nwork_queues: {q: {retry: never}}", "work_queues/q/retry"),
        ("version: 1\nwork_queues: {q: {retry: {delays: [30]}}}", "work_queues/q/retry"),
        ("version: 1\nwork-queues: {q: {max_length: x}}", "work-queues/q/max_length"),
        ("version: 1\nmessages: {m: {}}", "messages/m"),
        ("version: 1\npolicies: {p: {pattern: x}}", "policies/p"),
    ],
)
def test_bad_files_are_refused_at_the_same_place(text, place):
    assert faults(text) == {place}


def test_an_editor_can_explain_every_key():
    schema = file_schema()
    parts = {"the file": schema, **schema["$defs"]}

    silent = [
        f"{part}: {key}"
        for part, described in parts.items()
        for key, value in described.get("properties", {}).items()
        if not value.get("description")
    ]

    assert not silent
