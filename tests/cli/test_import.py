"""`amqpkit import` and `amqpkit export definitions`, on brokers and on files."""

import asyncio
import json
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from amqpkit import cli
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.cli import main
from amqpkit.model import Binding, Exchange, Policy, Queue
from tests.unit.importing import MIXED

CASES = Path(__file__).parents[1] / "unit" / "importing" / "definitions"
NAMES = (
    "a/b",
    "a%2Fb",
    "50%",
    "x?y#z",
    "a b",
    "a;b",
    "a.b.c",
    "очередь",
    "~",
    "a+b",
    "on",
    "1e3",
    "null",
    "${A}",
    "- a",
)


@pytest.fixture
def other(broker):
    """A second, empty vhost, whose name must be escaped."""
    name = f"{broker.vhost}/ü 50%"
    broker.http("PUT", f"vhosts/{quote(name, safe='')}", {})
    yield name
    broker.http("DELETE", f"vhosts/{quote(name, safe='')}")


def declare(broker, *declared, vhost=None):
    async def create():
        async with ManagementAdmin(broker.api, vhost=vhost or broker.vhost) as admin:
            for each in declared:
                await admin.create(each)

    asyncio.run(create())


def classic(name, **arguments):
    return Queue(name, "classic", arguments={"x-queue-type": "classic", **arguments})


def test_the_first_plan_of_an_imported_vhost_is_empty(broker, urls, tmp_path, capsys):
    """Ours and others': work queues are found again, and what no file can hold is named."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(MIXED)
    assert main(["apply", str(mine), "--yes", *urls()]) == 0
    declare(
        broker,
        Exchange("inner", "fanout", internal=True),
        Binding("mail", "inner", "#", "exchange"),
        Binding("mail", "amq.fanout", "#", "exchange"),
        classic("odd", durable=True),
        classic("secret", **{"x-note": "amqp://user:hunter2secret@host"}),
    )
    capsys.readouterr()

    out = tmp_path / "imported.yaml"
    assert main(["import", "--out", str(out), *urls()]) == 0
    told = capsys.readouterr()
    assert main(["plan", str(out), "--detailed-exitcode", *urls()]) == 0
    planned = capsys.readouterr().out

    assert told.out == ""
    assert "work_queues:\n  email.send:\n" in out.read_text()
    assert "Plan: 0 to add, 0 to change, 0 to replace, 0 to delete." in planned
    left = [line for line in told.err.splitlines() if "not in the file" in line]
    assert [line.split(": ")[1] for line in left] == [
        "binding mail -#-> exchange amq.fanout",
        "queue odd",
        "queue secret",
    ]
    assert "hunter2" not in out.read_text() + told.err
    assert "users, permissions: " in told.err


def test_the_brokers_own_export_is_imported_too(broker, urls, tmp_path, capsys):
    """4.3 leaves internal exchanges out of its export and keeps their bindings."""
    declare(
        broker,
        Exchange("mail", "topic"),
        Exchange("inner", "fanout", internal=True),
        classic("jobs"),
        Binding("mail", "inner", "#", "exchange"),
        Binding("inner", "jobs"),
        Policy("p", "^jobs$", {"max-length": 9}, "queues", 1),
    )
    exported = tmp_path / "definitions.json"
    exported.write_text(json.dumps(broker.http("GET", f"definitions/{broker.vhost}")[1]))
    everything = tmp_path / "cluster.json"
    everything.write_text(json.dumps(broker.http("GET", "definitions")[1]))

    for file, vhost in ((exported, []), (everything, ["--vhost", broker.vhost])):
        out = tmp_path / f"{file.stem}.yaml"
        assert main(["import", str(file), "-o", str(out), *vhost]) == 0
        told = capsys.readouterr().err
        assert main(["plan", str(out), "--detailed-exitcode", *urls()]) == 0
        capsys.readouterr()

        gone = "there is no exchange inner (RabbitMQ 4.3 leaves internal exchanges out of its definitions"
        assert (gone in told) == (not broker.version.startswith("4.0"))
        assert "guest" not in out.read_text()


def test_a_read_only_user_imports_and_is_told_what_it_could_not_see(broker, urls, user, capsys):
    declare(broker, classic("jobs"))

    assert main(["import", *urls(user("management", "^$"))]) == 0

    captured = capsys.readouterr()
    assert "  jobs: {type: classic}" in captured.out
    assert "users, permissions: could not be seen: only administrators may" in captured.err
    assert "parameters: shovels, federation and the like could not be seen: policymakers may" in captured.err


def test_operator_policies_and_limits_are_named(broker, urls, capsys):
    declare(broker, classic("jobs"))
    policy = {"pattern": "^jobs", "definition": {"max-length": 5}, "apply-to": "queues"}
    broker.http("PUT", f"operator-policies/{broker.vhost}/cap", policy)
    broker.http("PUT", f"vhost-limits/{broker.vhost}/max-queues", {"value": 100})

    assert main(["import", *urls()]) == 0

    told = capsys.readouterr().err
    assert (
        "operator policy cap: not managed here; where it reaches queues of the file, plan wants --accept-policy cap"
        in told
    )
    assert "vhost limits: not managed here" in told


def test_exported_definitions_make_the_same_on_an_empty_vhost(broker, urls, other, tmp_path, capsys):
    mine = tmp_path / "mine.yaml"
    mine.write_text(MIXED)
    there = ["--url", urls()[1], "--api", urls()[3], "--vhost", other]

    assert main(["export", "definitions", str(mine)]) == 0
    document = json.loads(capsys.readouterr().out)
    broker.http("POST", f"definitions/{quote(other, safe='')}", document)
    assert main(["plan", str(mine), "--detailed-exitcode", *there]) == 0
    assert main(["export", "definitions", str(mine), "--cluster", *there]) == 0
    capsys.readouterr()


def test_a_clusters_definitions_make_their_vhost(broker, urls, other, tmp_path, capsys):
    mine = tmp_path / "mine.yaml"
    mine.write_text(MIXED)
    broker.http("DELETE", f"vhosts/{quote(other, safe='')}")
    there = ["--url", urls()[1], "--api", urls()[3], "--vhost", other]

    assert main(["export", "definitions", str(mine), "--cluster", "--vhost", other]) == 0
    broker.http("POST", "definitions", json.loads(capsys.readouterr().out))

    assert main(["plan", str(mine), "--detailed-exitcode", *there]) == 0


def with_name(name):
    yield Exchange(f"x {name}", "topic")
    yield classic(name)
    # The management API breaks on a binding with both arguments and a tilde.
    yield Binding(f"x {name}", name, name, arguments={} if name == "~" else {"n": name})
    yield Policy(name, "^nobody$", {"max-length": 1}, "queues", 0)


def test_any_name_comes_back_from_a_vhost_of_any_name(broker, urls, other, tmp_path, capsys):
    """Names that must be escaped in URLs and names that YAML would misread: queues, exchanges, bindings, policies."""
    declare(broker, *(each for name in NAMES for each in with_name(name)), vhost=other)
    there = ["--url", urls()[1], "--api", urls()[3], "--vhost", other]
    out = tmp_path / "imported.yaml"

    assert main(["import", "-o", str(out), *there]) == 0
    assert "left out" not in capsys.readouterr().err
    assert main(["plan", str(out), "--detailed-exitcode", *there]) == 0
    capsys.readouterr()
    assert main(["export", "definitions", str(out)]) == 0
    from_file = json.loads(capsys.readouterr().out)
    assert main(["export", "definitions", "--live", *there]) == 0
    live = json.loads(capsys.readouterr().out)

    assert from_file == live
    assert {queue["name"] for queue in live["queues"]} == set(NAMES)
    broker.http("POST", f"definitions/{broker.vhost}", from_file)
    assert main(["plan", str(out), "--detailed-exitcode", *urls()]) == 0


def test_more_queues_than_a_page_are_all_imported_and_exported(broker, urls, tmp_path, capsys):
    names = sorted(f"q{number}" for number in range(510))
    queues = [{"name": each, "durable": True, "auto_delete": False, "arguments": {}} for each in names]
    broker.http("POST", f"definitions/{broker.vhost}", {"queues": queues})
    out = tmp_path / "imported.yaml"

    assert main(["import", "-o", str(out), *urls()]) == 0
    assert main(["plan", str(out), "--detailed-exitcode", *urls()]) == 0
    capsys.readouterr()
    assert main(["export", "definitions", "--live", *urls()]) == 0

    assert [queue["name"] for queue in json.loads(capsys.readouterr().out)["queues"]] == names


def test_a_real_export_with_streams_is_applied_to_an_empty_vhost(broker, urls, tmp_path, capsys):
    out = tmp_path / "imported.yaml"

    assert main(["import", str(CASES / "real-export.json"), "-o", str(out)]) == 0
    assert main(["apply", str(out), "--yes", *urls()]) == 0
    assert main(["plan", str(out), "--detailed-exitcode", *urls()]) == 0
    capsys.readouterr()
    _, there = broker.http("GET", f"queues/{broker.vhost}")
    assert {each["name"]: each["arguments"].get("x-queue-type") for each in there}["done_stream"] == "stream"


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.json") if path.stem != "argument-table"))
def test_what_was_imported_is_applied_once_and_exported_as_it_is(broker, urls, tmp_path, capsys, name):
    """All but the table of what brokers refuse."""
    out = tmp_path / "imported.yaml"
    assert main(["import", str(CASES / f"{name}.json"), "-o", str(out)]) == 0
    assert main(["apply", str(out), "--yes", *urls()]) == 0
    capsys.readouterr()

    assert main(["apply", str(out), *urls()]) == 0
    assert capsys.readouterr().out.startswith("Nothing to change: ")
    assert main(["drift", str(out), *urls()]) == 0
    capsys.readouterr()
    assert main(["export", "definitions", str(out)]) == 0
    from_file = capsys.readouterr().out
    assert main(["export", "definitions", "--live", *urls()]) == 0
    assert capsys.readouterr().out == from_file


def test_what_is_no_definitions_file_is_told_at_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    contents = {
        "broken.json": (b'{"queues": [\n  {"name" 5}]}', "broken.json:2:11: not JSON: expecting ':' delimiter"),
        "latin.json": (
            '{"queues": [{"name": "é"}]}'.encode("latin-1"),
            "not a definitions file: it is not text in UTF-8",
        ),
        "half.json": (b'{"queues": [{"name": "\\ud800"}]}', "not a definitions file: it is not text in UTF-8"),
        "other.json": (b'{"name": "package"}', "other.json: not a definitions file of RabbitMQ"),
        "deep.json": (b"[" * 200_000, "deep.json: not a definitions file: it is nested too deeply"),
    }
    for name, (content, fault) in contents.items():
        Path(name).write_bytes(content)
        assert main(["import", name]) == 1
        assert fault in capsys.readouterr().err
    assert main(["import", "missing.json"]) == 1
    assert "missing.json: cannot be read: no such file or directory" in capsys.readouterr().err


def test_a_file_is_replaced_only_when_asked(tmp_path, capsys):
    out = tmp_path / "topology.yaml"
    out.write_text("mine")
    arguments = ["import", str(CASES / "secrets.json"), "--out", str(out)]

    assert main(arguments) == 1
    assert f"{out} exists already; give another --out, or --force to replace it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    out.chmod(0o600)
    assert main([*arguments, "--force"]) == 0
    assert out.read_text().startswith("# Imported by amqpkit from ")
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "command",
    [["import", "FILE"], ["export", "definitions", "FULL"], ["graph", "FULL", "--format", "html"]],
    ids=" ".join,
)
def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path, command):
    """`ulimit -f 0` refuses every byte that a file would grow by."""
    places = {"FILE": CASES / "secrets.json", "FULL": CASES.parents[1] / "declare" / "full.yaml"}
    out = tmp_path / "out"
    words = [str(places.get(word, word)) for word in command]

    def run(*more):
        line = shlex.join([sys.executable, "-m", "amqpkit.cli", *words, "--out", str(out), *more])
        environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
        script = ["bash", "-c", f"ulimit -f 0; exec {line}"]
        done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert done.returncode == 1
        assert f"{out} cannot be written: file too large" in done.stderr

    run()
    assert list(tmp_path.iterdir()) == []
    out.write_text("mine")
    run("--force")
    assert out.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [out]


def test_no_secret_of_a_file_is_said_at_any_level(tmp_path, capsys, caplog):
    with caplog.at_level(logging.DEBUG):
        assert main(["import", str(CASES / "secrets.json"), "--json"]) == 0

    captured = capsys.readouterr()
    assert "MARKER" not in captured.out + captured.err + caplog.text
    document = json.loads(captured.out)
    assert document["format_version"] == "1.0"
    assert document["topology"] == {"version": 1, "queues": {"a": {"type": "classic"}}}
    assert document["notes"][0]["kind"] == "secret"
    assert "users.password, users.password_hash" in captured.err


def test_export_takes_files_or_a_broker(capsys):
    assert main(["export", "definitions", "topology.yaml", "--live"]) == 64
    assert "give one of the two" in capsys.readouterr().err
