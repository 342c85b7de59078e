"""Files to a topology: variables, layers, and files that cannot be read."""

from pathlib import Path

import pytest

from amqpkit import TopologyError, load_topology
from amqpkit.declare.spec.document import to_yaml
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Route

REPOSITORY = Path(__file__).parents[3]


def written(folder: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def problems(*paths: Path | str) -> list[str]:
    with pytest.raises(TopologyError) as caught:
        load_topology(*paths)
    return [str(problem) for problem in caught.value.problems]


def test_variables_are_replaced_in_keys_and_values(tmp_path):
    (path,) = written(
        tmp_path,
        a="""\
version: 1
work_queues:
  mail.${STAGE}:
    max-length: ${MAX}
    max-length-bytes: ${BYTES:-1MiB}
    dead_letter: {owner: "${OWNER:-nobody}", runbook: "https://${HOST}/$${kept}/$5"}
    consume: {timeout: "${SECONDS}s"}
    accepts: ["${MAX}"]
""",
    )
    environ = {"STAGE": "blue", "MAX": "10", "OWNER": "", "HOST": "books", "SECONDS": "5", "BYTES": "64KiB"}
    topology = load_topology(path, environ=environ)
    queue = topology.work_queues["mail.blue"]

    assert (queue.max_length, queue.owner, queue.runbook) == (10, "nobody", "https://books/${kept}/$5")
    assert queue.consume.timeout == 5.0
    assert queue.accepts == ("10",)
    assert topology.policies[0].definition["max-length-bytes"] == 64 * 1024


def test_the_environment_is_only_what_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("AMQPKIT_SECRET", "x")
    (path,) = written(tmp_path, a="version: 1\nvhost: ${AMQPKIT_SECRET}\n")

    assert problems(path) == [
        f"{path}:2:8: variable AMQPKIT_SECRET is not set; set it or write ${{AMQPKIT_SECRET:-default}}"
    ]


def test_later_files_are_laid_over_earlier_ones(tmp_path):
    base, production = written(
        tmp_path,
        base="""\
version: 1
exchanges: {mail: {type: topic}}
work_queues:
  send:
    bindings: [{source: mail, routing_key: a}]
    consume: {prefetch: 5, timeout: 30s}
    max_length: 100
    retry: {delays: [1s]}
  other: {retry: none}
""",
        production="""\
work-queues:
  send:
    bindings: [{source: mail, routing_key: b}]
    consume: {prefetch: 50, timeout: ~}
    max-length: 1000
  other:
messages: {send: {exchange: mail, routing_key: b}}
""",
    )
    topology = load_topology(base, str(production))
    queue = topology.work_queues["send"]

    assert (queue.consume.prefetch, queue.consume.timeout, queue.max_length) == (50, None, 1000)
    assert [delay.milliseconds for delay in queue.delays] == [1000]
    assert [binding.routing_key for binding in topology.bindings if binding.source == "mail"] == ["b"]
    assert topology.work_queues["other"].attempts == 1
    assert topology.routes["send"] == Route("mail", "b")


def test_an_overlay_may_replace_what_was_no_mapping(tmp_path):
    base, overlay = written(tmp_path, base="version: 1\nqueues:\n", overlay="queues: {jobs: {}}\n")

    assert [queue.name for queue in load_topology(base, overlay).queues] == ["jobs"]


def test_aliases_and_merge_keys_share_settings():
    spec = parse(
        [
            (
                "a.yaml",
                """\
version: 1
work_queues:
  a: &usual
    consume: &gentle {prefetch: 2, timeout: 5s}
    retry: none
  b: {<<: *usual, max-length: 7}
  c: {consume: {<<: [*gentle, {prefetch: 9, rate: 1/s}], timeout: 6s}}
""",
            )
        ],
        {},
    )

    assert spec.work_queues["b"].model_dump(exclude={"max_length"}) == spec.work_queues["a"].model_dump(
        exclude={"max_length"}
    )
    assert spec.work_queues["b"].max_length == 7
    assert (spec.work_queues["c"].consume.prefetch, spec.work_queues["c"].consume.timeout) == (2, 6000)
    assert spec.work_queues["c"].consume.rate == 1.0


def test_names_are_names_whatever_they_look_like():
    text = (
        "version: 1\nqueues: {1: {}, yes: {}, null: {}, 2020-01-01: {}, arguments: {arguments: {}}, max_length: {}}\n"
    )

    assert list(parse([("a.yaml", text)], {}).queues) == ["1", "yes", "null", "2020-01-01", "arguments", "max_length"]


def test_numbers_are_yaml_1_2():
    text = (
        "version: 1\nqueues: {q: {arguments: {a: 0o17, b: 0x1F, c: 010, d: 1_000, e: -1, f: 1.5e1, g: 1:30, h: no}}}\n"
    )

    assert parse([("a.yaml", text)], {}).queues["q"].arguments == {
        "a": 15,
        "b": 31,
        "c": 10,
        "d": 1000,
        "e": -1,
        "f": 15.0,
        "g": "1:30",
        "h": "no",
    }


def test_raw_arguments_keep_their_spelling_and_their_values():
    text = "version: 1\nqueues: {q: {arguments: {x_a-b: {c_d: [1, {e-f: null}]}, max_length: 2020-01-01, t: true}}}\n"

    assert parse([("a.yaml", text)], {}).queues["q"].arguments == {
        "x_a-b": {"c_d": [1, {"e-f": None}]},
        "max_length": "2020-01-01",
        "t": True,
    }


def test_what_is_written_as_yaml_reads_back():
    data = {"version": 1, "queues": {"no": {"arguments": {"a": "1", "b": 1, "c": None, "é": [True, "true", 1.5]}}}}

    assert parse([("a.yaml", to_yaml(data))], {}).queues["no"].arguments == data["queues"]["no"]["arguments"]


def test_files_that_cannot_be_read_are_all_named(tmp_path):
    (bad,) = written(tmp_path, a="")
    bad.write_bytes(b"version: 1\nvhost: a\xff\n")
    missing = tmp_path / "missing.yaml"

    assert problems(missing, bad, tmp_path) == [
        f"{missing}: cannot be read: no such file or directory",
        f"{bad}:2:9: not UTF-8: byte 0xFF; save it as UTF-8",
        f"{tmp_path}: cannot be read: is a directory",
    ]


def test_a_byte_order_mark_does_not_matter(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nvhost: a\r\n")

    assert load_topology(path).vhost == "a"


def test_no_file_is_a_programming_error():
    with pytest.raises(ValueError, match="at least one file"):
        load_topology()


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "topology" / "examples").glob("*.yaml")), ids=lambda path: path.name
)
def test_every_example_is_a_topology(path):
    base = [] if "version:" in path.read_text() else [path.with_name("full.yaml")]

    assert load_topology(*base, path).work_queues
