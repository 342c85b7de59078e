"""`amqpkit plan`, `apply --plan`, `apply --prune` and `drift` as people, programs and a CI meet them."""

import json
import os
import time
from pathlib import Path

import pika
import pytest

from amqpkit.cli import main

SMALL = "version: 1\nwork_queues:\n  email.send: {}\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def run(urls, file):
    def call(command, *arguments, user=None):
        return main([command, *([] if "--plan" in arguments else [str(file)]), *map(str, arguments), *urls(user)])

    return call


@pytest.fixture
def channel(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def test_a_plan_says_what_would_be_done_and_promised_and_touches_nothing(broker, run, capsys):
    assert run("plan") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert "  + queue email.send.retry.10s" in lines
    assert "  email.send: at least once, nothing dropped; 5 quorum queues" in lines
    assert "      retries: 10s → 1m → 10m → email.send.dlq after 11m10s" in lines
    assert "Requires: the tag policymaker; permission to configure " in out
    assert lines[-1] == "Plan: 14 to add, 0 to change, 0 to replace, 0 to delete."
    assert err == ""
    assert broker.http("GET", f"queues/{broker.vhost}")[1] == []


def test_the_detailed_exit_code_tells_changes_from_none(run, capsys):
    assert run("plan", "--detailed-exitcode") == 2
    assert run("apply", "--yes") == 0
    capsys.readouterr()
    assert run("plan", "--detailed-exitcode") == 0
    assert "Nothing to change: all 14 objects are as declared." in capsys.readouterr().out
    assert main(["plan", "nowhere.yaml", "--detailed-exitcode"]) == 1
    assert run("plan", "--detailed-exit-code") == 64


def test_a_replacement_is_shown_with_what_is_at_stake_and_refused(broker, run, file, channel, capsys):
    channel.queue_declare("prices.work", durable=True)
    channel.queue_bind("prices.work", "amq.topic", "price.#")
    for _ in range(5):
        channel.basic_publish("", "prices.work", b"{}")
    file.write_text(
        "version: 1\nexchanges: {prices.dlx: {type: fanout}}\nqueues:\n"
        "  prices.work: {type: classic, arguments: {x-dead-letter-exchange: prices.dlx}}\n"
        "  prices.dead: {type: classic, bindings: [{source: prices.dlx}]}\n"
    )

    deadline = time.monotonic() + 15  # statistics are seconds late
    while True:
        assert run("plan", "--detailed-exitcode") == 2
        out = capsys.readouterr().out
        if "it holds 5 messages" in out or time.monotonic() > deadline:
            break
    assert "  -/+ queue prices.work\n      x-dead-letter-exchange: not set -> prices.dlx\n" in out
    assert "blocked: it holds 5 messages and has 0 consumers; " in out
    assert "`amqpkit migrate queue prices.work`" in out
    assert "      bound by: amq.topic -price.#-> queue prices.work\n" in out
    assert "or set dead-letter-exchange by a policy" in out
    assert "Plan: 3 to add, 0 to change, 1 to replace, 0 to delete." in out

    assert run("apply", "--yes") == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert broker.http("GET", f"exchanges/{broker.vhost}/prices.dlx")[0] == 404
    assert channel.queue_declare("prices.work", passive=True).method.message_count == 5


def test_what_a_definitions_import_would_not_change_is_in_the_plan(broker, run, file, capsys):
    broker.http("PUT", f"exchanges/{broker.vhost}/ev", {"type": "topic", "durable": True})
    broker.http("PUT", f"queues/{broker.vhost}/jobs", {"durable": True, "arguments": {"x-message-ttl": 60000}})
    file.write_text(
        "version: 1\nexchanges: {ev: {type: direct}}\n"
        "queues: {jobs: {type: classic, arguments: {x-message-ttl: 30000}}}\n"
    )

    assert run("plan", "--detailed-exitcode", "--json") == 2
    changes = json.loads(capsys.readouterr().out)["changes"]
    named = {each["address"]: [(p["name"], p["before"], p["after"]) for p in each["properties"]] for each in changes}
    assert named == {"exchange ev": [("type", "topic", "direct")], "queue jobs": [("x-message-ttl", "60000", "30000")]}
    assert {tuple(each["actions"]) for each in changes} == {("delete", "create")}
    assert run("drift") == 2
    assert "2 changed" in capsys.readouterr().out


def test_effective_settings_say_which_side_wins(run, file, capsys):
    file.write_text(
        "version: 1\nexchanges: {arg-dlx: {type: fanout}}\nqueues:\n"
        "  both: {type: classic, arguments: {x-message-ttl: 30s, x-dead-letter-exchange: arg-dlx}}\n"
        "  arg.dead: {type: classic, bindings: [{source: arg-dlx}]}\n"
        "policies:\n  p: {pattern: ^both$, apply-to: queues, priority: 1, definition:"
        ' {message-ttl: 400, dead-letter-exchange: "", dead-letter-routing-key: pol.dead}}\n'
    )

    assert run("plan", "--settings") == 0
    out = capsys.readouterr().out
    assert '      message-ttl: 400 (policy "p")\n' in out
    assert "      dead-letter-exchange: arg-dlx (argument)\n" in out
    assert 'warning: policy "p" sets dead-letter-exchange, which both has as an argument: the argument wins' in out


def test_somebody_elses_policy_blocks_is_shadow_and_can_be_accepted(broker, run, capsys):
    assert run("apply", "--yes") == 0
    theirs = {"pattern": "^email", "definition": {"max-length": 9}, "apply-to": "queues", "priority": 500}
    broker.http("PUT", f"policies/{broker.vhost}/theirs", theirs)
    broker.http("PUT", f"operator-policies/{broker.vhost}/cap", {**theirs, "definition": {"max-length": 7}})
    capsys.readouterr()

    assert run("plan", "--detailed-exitcode") == 2
    assert 'blocked: policy "theirs" is in no file, has priority 500' in capsys.readouterr().out
    assert run("apply", "--yes") == 1
    assert run("drift", "--json") == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["summary"]["shadowed"], document["summary"]["tightened"]) == (5, 5)
    accepting = ["--accept-policy", "theirs", "--accept-policy", "cap"]
    assert run("plan", "--detailed-exitcode", *accepting) == 0
    assert run("drift", *accepting) == 0


def test_a_ci_plans_with_a_user_who_may_only_look_and_applies_what_was_reviewed(
    broker, run, user, file, tmp_path, capsys
):
    reader = user("management", "^$")
    writer = user("policymaker", r"^(email\.send(\..*)?|amqpkit\.lock)$")
    saved = tmp_path / "plan.json"

    assert run("plan", "--detailed-exitcode", "--out", saved, user=reader) == 2
    shown = capsys.readouterr().out
    assert "cret" not in shown + saved.read_text()
    assert run("apply", "--plan", saved, user=reader) == 1
    assert "needs the tag policymaker" in capsys.readouterr().err
    assert broker.http("GET", f"exchanges/{broker.vhost}/email.send.dlx")[0] == 404

    assert run("apply", "--plan", saved, user=writer) == 0  # without a question: it was reviewed
    assert "Created 14, changed 0" in capsys.readouterr().out
    assert run("drift", user=reader) == 0
    assert run("plan", "--detailed-exitcode", user=reader) == 0

    broker.http("DELETE", f"queues/{broker.vhost}/email.send.retry.1m")
    capsys.readouterr()
    assert run("drift", user=reader) == 2
    out = capsys.readouterr().out
    assert "  missing: queue email.send.retry.1m\n" in out
    assert out.splitlines()[-1] == "Drift: 2 missing, 0 changed, 0 shadowed, 0 tightened, 0 extra."


def test_the_readmes_ci_does_what_it_says(broker, urls, user, tmp_path, monkeypatch, capsys):
    """Lint on a pull request, plan with a user who may only look, apply what was reviewed, drift every night."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = readme.split("## Changing it in production")[1].split("```console\n")[1].split("```")[0]
    lint, plan, apply, drift = (line.removeprefix("$ amqpkit ").split() for line in block.splitlines())
    monkeypatch.chdir(tmp_path)
    Path("topology.yaml").write_text("version: 1\nwork_queues:\n  email.send: {}\n", encoding="utf-8")
    reader = urls(user("management", "^$"))
    writer = urls(user("policymaker", r"^(email\.send(\..*)?|amqpkit\.lock)$"))

    assert main(lint) == 0
    assert main([*plan, *reader]) == 2
    assert main([*apply, *writer]) == 0
    assert main([*drift, *reader]) == 0
    broker.http("DELETE", f"queues/{broker.vhost}/email.send.retry.1m")
    assert main([*drift, *reader]) == 2
    assert main([*apply, *writer]) == 1
    assert "stale plan" in capsys.readouterr().err


def test_a_stale_plan_is_refused_and_nothing_happens(broker, run, file, tmp_path, capsys):
    saved = tmp_path / "plan.json"
    assert run("plan", "--out", saved) == 0
    broker.http("PUT", f"exchanges/{broker.vhost}/email.send.dlx", {"type": "fanout", "durable": True})
    capsys.readouterr()

    assert run("apply", "--plan", saved) == 1
    assert "stale plan: the broker has changed since it was made" in capsys.readouterr().err
    assert broker.http("GET", f"queues/{broker.vhost}/email.send")[0] == 404

    assert run("plan", "--out", saved) == 0
    assert run("apply", "--plan", saved) == 0
    assert run("apply", "--plan", saved) == 1  # it was done
    assert main(["apply", str(file), "--plan", str(saved)]) == 64
    saved.write_text("{}")
    assert run("apply", "--plan", saved) == 1
    assert "no plan of format" in capsys.readouterr().err


def test_a_plan_that_does_not_fit_on_the_disk_leaves_the_old_one(run, tmp_path, capsys):
    saved = tmp_path / "plan.json"
    saved.write_text("reviewed")
    (tmp_path / f".amqpkit.{os.getpid()}.part").symlink_to("/dev/full")  # writing there fails as on a full disk
    capsys.readouterr()

    assert run("plan", "--out", saved) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"amqpkit: {saved} cannot be written: no space left on device\n"
    assert saved.read_text() == "reviewed"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plan.json", "topology.yaml"]

    assert run("plan", "--out", saved) == 0
    assert json.loads(saved.read_text())["format_version"] == "1.0"


def test_names_that_must_be_escaped_are_planned_and_applied(run, file, capsys):
    names = ["a/b", "a%2Fb", "50%", "x?y#z", "a b", "a;b", "очередь", "~", "a+b"]
    queues = {name: {"bindings": [{"source": "amq.topic", "routing_key": name}]} for name in names}
    file.write_text(json.dumps({"version": 1, "queues": queues}))

    assert run("plan", "--detailed-exitcode") == 2
    assert "queue a%2Fb" in capsys.readouterr().out
    assert run("apply", "--yes") == 0
    assert run("plan", "--detailed-exitcode") == 0


def test_more_queues_than_a_page_are_all_seen(broker, run, file):
    names = [f"q.{number:03}" for number in range(600)]
    body = {"queues": [{"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in names]}
    assert broker.http("POST", f"definitions/{broker.vhost}", body)[0] == 204
    file.write_text(json.dumps({"version": 1, "queues": {name: {"type": "classic"} for name in names}}))

    assert run("plan", "--detailed-exitcode") == 0
    assert run("drift") == 0


def test_prune_deletes_what_is_owned_in_no_file_and_empty(broker, run, file, channel, capsys):
    header = "version: 1\nowns: [email.send, old]\non-remove: {old.audit: retain}\n"
    file.write_text(
        header + "work_queues:\n  email.send: {retry: {delays: [10s]}}\n"
        "queues: {old.audit: {}, old.empty: {bindings: [{source: amq.topic}]}}\n"
    )
    assert run("apply", "--yes") == 0
    channel.queue_declare("somebody.elses", durable=True)
    file.write_text(header + "work_queues:\n  email.send: {retry: {delays: [20s]}}\n")
    capsys.readouterr()

    assert run("plan", "--prune", "--detailed-exitcode") == 2
    out = capsys.readouterr().out
    assert "  - queue email.send.retry.10s\n" in out
    assert "  - queue old.empty\n" in out
    assert "kept: queue old.audit: on-remove says retain" in out

    assert run("apply", "--prune", "--yes") == 0
    out, err = capsys.readouterr()
    assert "deleted 4; " in out
    assert "kept: queue old.audit: on-remove says retain" in err
    left = {each["name"] for each in broker.http("GET", f"queues/{broker.vhost}?disable_stats=true")[1]}
    work = {"email.send", "email.send.dlq", "email.send.retry.20s"}
    assert left == work | {"old.audit", "somebody.elses"}
    assert all("fence" not in each["name"] for each in broker.http("GET", f"policies/{broker.vhost}")[1])
