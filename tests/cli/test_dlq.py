"""`amqpkit dlq` on a real broker, as operators and programs meet it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amqpkit.cli import main
from tests.broker.life.ledger import Letter, open_channel
from tests.cli.dlq_desk import Desk
from tests.cli.terminal import read_until

ESCAPES = "\x1b[31mred\x1b]0;owned\x07 \u202eevil\r\n\x9b2J"


def only_seen(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each) not in ("Cc", "Cf", "Zl", "Zp") for each in text)


def test_every_dead_letter_queue_is_listed_with_its_owner_and_alert(here: Desk) -> None:
    here.bury(2)
    here.bury(headers={"amqpkit-fate": "crashed", "amqpkit-replays": 1, "amqpkit-replay-run": "r-1"}, message_id="c")

    quiet, orders = sorted(here.told("list")["queues"], key=lambda each: each["depth"])
    assert (orders["queue"], orders["work_queue"], orders["owner"]) == ("orders.dlq", "orders", "team-orders")
    assert (orders["depth"], orders["seen"], orders["reasons"]) == (3, 3, {"exhausted": 2, "crashed": 1})
    assert (orders["replayed"], orders["most_replays"]) == (1, 1)
    assert orders["alert"] == {"messages": 3, "age_seconds": 600, "holds": True, "because": ["3 letters (alert at 3)"]}
    assert datetime.now(UTC) - datetime.fromisoformat(orders["oldest"]) > timedelta(minutes=1)
    assert (quiet["depth"], quiet["oldest"], quiet["alert"]["holds"]) == (0, None, False)

    out, err = here.dlq("list", "--limit", "2")
    assert "2 exhausted (of the first 2)" in out
    assert "orders.dlq: https://runbooks.example.com/orders" in out
    assert err == ""


def test_a_queue_that_is_not_there_is_told(here: Desk) -> None:
    here.broker.http("DELETE", f"queues/{here.broker.vhost}/quiet.dlq")

    out, err = here.dlq("list", code=1)

    assert "is not on the broker" in out
    assert '"quiet.dlq" does not exist' in err


def test_counts_are_the_brokers_own_at_once_and_need_no_management_api(
    here: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (1, 3):  # statistics would still tell the first
        here.bury(count)
        words = ["dlq", "list", str(here.file), "--json", "--url", here.broker.url, "--api", "http://127.0.0.1:1"]
        assert main(words) == 0
        depths = {each["queue"]: each["depth"] for each in json.loads(capsys.readouterr().out)["queues"]}
        assert depths == {"orders.dlq": 1 if count == 1 else 4, "quiet.dlq": 0}


def test_a_queue_that_may_not_be_read_hides_no_other(here: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    here.bury(3)
    here.send("", "quiet.dlq")
    user, broker = f"reader-{here.broker.vhost}", here.broker
    broker.http("PUT", f"users/{user}", {"password": "reads", "tags": ""})
    try:
        allowed = {"configure": "", "write": "", "read": "^orders.*"}
        broker.http("PUT", f"permissions/{broker.vhost}/{user}", allowed)
        url = re.sub(r"//[^@]*@", f"//{user}:reads@", broker.url)
        assert main(["dlq", "list", str(here.file), "--url", url, "--api", broker.api]) == 1
    finally:
        broker.http("DELETE", f"users/{user}")
    out, err = capsys.readouterr()

    assert "3 exhausted" in out
    assert "may not be" in out
    assert "quiet.dlq" in err


def test_letters_are_listed_grouped_and_chosen(here: Desk) -> None:
    here.bury(3)
    here.bury(message_id="other", type="order.cancel", headers={"amqpkit-replays": 1, "amqpkit-replay-run": "run-9"})

    letters = here.told("list", "--letters", "orders")["letters"]
    assert [each["id"] for each in letters] == ["m-0", "m-1", "m-2", "other"]
    assert letters[0]["error"] == {"type": "NoAnswer", "message": "no answer in 0 s"}
    assert (letters[3]["replays"], letters[3]["replay_run"]) == (1, "run-9")
    out, err = here.dlq("list", "--letters", "orders", "--type", "order.cancel")
    assert "1 (run-9)" in out
    assert "m-0" not in out
    assert err == "1 letter of 4 seen\n"

    big, small = here.told("groups", "orders")["groups"]
    assert (big["count"], big["error"]) == (3, {"type": "NoAnswer", "message": "no answer in «number» s"})
    assert (small["count"], small["type"], small["most_replays"], small["example"]) == (1, "order.cancel", 1, "other")
    out, _ = here.dlq("groups", "orders", "--replayed-below", "1", "--since", "1h", "--error", "NO ANSWER")
    assert "NoAnswer: no answer in «number» s" in out
    assert "order.cancel" not in out
    assert here.dlq("groups", "orders", "--until", "1h")[0] == ""


def test_a_letter_is_shown_whole_but_for_its_secrets(here: Desk) -> None:
    here.bury(headers={"Authorization": "Bearer x", "n": 5}, correlation_id="c-1")

    out, err = here.dlq("show", "orders", "m-0")
    assert err == ""
    for line in (
        "  fate        exhausted",
        "  error       NoAnswer: no answer in 0 s",
        '  origin      exchange "shop", key "order.place.eu"',
        "  correlation_id: c-1",
        "  Authorization: **********",
        "  n: 5",
        "  2026-03-01 11:59:00Z  attempt 1: NoAnswer: no answer; again after 1m",
        "  Traceback …",
        '    "password": "**********",',
    ):
        assert line in out.splitlines()

    (letter,) = here.told("show", "orders.dlq", "m-0")["letters"]
    assert letter["body"] == {"kind": "JSON", "size": 25, "redacted": {"password": "**********", "n": 1}}
    assert letter["headers"]["n"] in (5, {"$int32": 5})
    (letter,) = here.told("show", "orders", "m-0", "--body")["letters"]
    assert letter["body"]["text"] == '{"password": "x", "n": 1}'

    assert here.dlq("show", "orders", "m-7", code=1) == (
        "",
        'no letter in "orders.dlq" has the id m-7 (1 of 1 were seen)\n',
    )


def test_hostile_letters_do_no_harm_and_stay_what_they_are(here: Desk, tmp_path: Path) -> None:
    foreign = {f"h{number}": "y" * 1000 for number in range(60)}
    error = {"type": ESCAPES, "message": ESCAPES, "traceback": ESCAPES, "at": ESCAPES}
    here.send("", "orders.dlq", b"x" * (5 * 1024 * 1024), message_id="big", content_type=ESCAPES)
    here.send("", "orders.dlq", bytes(range(256)), message_id="binary", headers=foreign)
    here.send("", "orders.dlq", ESCAPES.encode(), message_id=ESCAPES, type=ESCAPES, headers={ESCAPES: ESCAPES})
    here.send(
        "", "orders.dlq", headers={"amqpkit-fate": "exhausted", "amqpkit-error": error, "amqpkit-history": [error]}
    )
    before = here.told("list", "--letters", "orders")["letters"]
    assert [each["size"] for each in before] == [5 * 1024 * 1024, 256, len(ESCAPES.encode()), 2]

    said = [here.dlq("list"), here.dlq("groups", "orders"), here.dlq("list", "--letters", "orders")]
    said += [here.dlq("show", "orders", letter["id"]) for letter in before]
    said += [here.dlq("show", "orders", "binary", "--body"), here.dlq("show", "orders", ESCAPES, "--json")]
    for out, err in said:
        assert only_seen(out), out
        assert only_seen(err), err

    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    here.dlq("export", "orders", "--out", str(one))
    originals = here.take("orders.dlq")
    here.dlq("import", str(one))
    here.dlq("export", "orders", "--out", str(two))
    copies = here.take("orders.dlq")
    assert [(each.body, _own(each)) for each in originals] == [(each.body, _own(each)) for each in copies]
    assert len(two.read_text().splitlines()) == 4
    assert one.stat().st_mode & 0o077 == 0


def _own(letter: Letter) -> tuple[Any, ...]:
    """What the producer wrote."""
    properties = letter.properties
    headers = {name: value for name, value in letter.headers.items() if not name.startswith("x-")}
    return (properties.message_id, properties.content_type, properties.type, properties.delivery_mode, headers)


def test_looks_change_nothing(here: Desk) -> None:
    here.bury(3)

    here.dlq("list")
    here.dlq("groups", "orders")
    here.dlq("show", "orders", "m-1")

    assert [letter.message_id for letter in here.take("orders.dlq")] == ["m-0", "m-1", "m-2"]


def test_letters_of_others_are_read_and_go_back_where_they_failed(here: Desk) -> None:
    here.queue("plain.dead", queue_type="classic")
    here.queue("plain", queue_type="classic", dead_letter_exchange="", dead_letter_routing_key="plain.dead")
    here.queue("sibling", queue_type="classic")
    for queue in ("plain", "sibling"):
        path = f"bindings/{here.broker.vhost}/e/amq.fanout/q/{queue}"
        here.broker.http("POST", path, {"routing_key": "", "arguments": {}})
    celery = {"task": "shop.invoice", "id": "1", "lang": "py", "root_id": "1", "retries": 2}
    here.send("amq.fanout", "paid", b"one", message_id="dlx")
    here.send("amq.fanout", "paid", b"[[7], {}, {}]", headers=celery, message_id="celery")
    refuse(here, "plain", 2)
    spring = {"x-exception-message": "no stock", "x-original-exchange": "", "x-original-routingKey": "plain"}
    here.send("", "plain.dead", b"three", headers=spring, message_id="spring")
    here.send("", "plain.dead", b"four", message_id="nothing told")

    letters = here.told("list", "--letters", "plain.dead", file=False)["letters"]
    assert [(each["source"], each["fate"], each["own_queue"]) for each in letters] == [
        ("dlx", "rejected", "plain"),
        ("celery", "rejected", "plain"),
        ("spring", "failed", "plain"),
        ("unknown", "unknown", None),
    ]
    assert "  rejected  by queue plain\n" in here.dlq("groups", "plain.dead", file=False)[0]
    out, err = here.dlq("replay", "plain.dead", "--dry-run", file=False, code=1)
    assert out == '3 letters would be replayed to "plain" (of 4 in plain.dead)\n'
    assert "1 letter stayed, nothing tells where it failed: name the queue with --to" in err

    _, err = here.dlq("replay", "plain.dead", "--id", "dlx", "--to-exchange", file=False, code=1)
    assert 'exchange "amq.fanout" with key "paid": plain, sibling would get it' in err
    assert "--yes" in err

    here.dlq("replay", "plain.dead", file=False, code=1)
    assert [letter.message_id for letter in here.take("plain")] == ["dlx", "celery", "spring"]
    assert [letter.message_id for letter in here.take("sibling")] == ["dlx", "celery"]
    assert [letter.message_id for letter in here.take("plain.dead")] == ["nothing told"]


def refuse(here: Desk, queue: str, count: int) -> None:
    channel = open_channel(here.broker.url)
    for _ in range(count):
        method, _, _ = channel.basic_get(queue)
        channel.basic_nack(method.delivery_tag, requeue=False)
    channel.connection.close()
    until(lambda: here.told("list", "--letters", f"{queue}.dead", file=False)["total"] == count)


def until(fact: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it does not become true"
        time.sleep(0.05)


def test_a_replay_counts_names_its_run_and_keeps_to_the_files_limit(here: Desk) -> None:
    here.bury(2)
    here.bury(message_id="often", headers={"amqpkit-replays": 2})

    done = here.told("replay", "orders")

    assert (done["replayed"], done["stayed"], done["failed"]) == (2, {"too_often": 1}, 0)
    assert done["targets"] == [{"exchange": "", "routing_key": "orders", "letters": 2}]
    went = here.take("orders")
    assert {
        (each.message_id, each.headers["amqpkit-replays"], each.headers["amqpkit-replay-run"]) for each in went
    } == {
        ("m-0", 1, done["run"]),
        ("m-1", 1, done["run"]),
    }
    assert "amqpkit-attempt" not in went[0].headers
    out, err = here.dlq("replay", "orders")
    assert out == "0 letters replayed (of 1 in orders.dlq)\n"
    assert "replayed as often as allowed: --force replays them all the same" in err
    out, _ = here.dlq("replay", "orders", "--force")
    assert out.startswith('1 letter replayed to "orders" (of 1 in orders.dlq)\nrun run-')


def test_what_cannot_go_stays_and_is_told(here: Desk) -> None:
    here.bury(2)

    out, err = here.dlq("replay", "orders", "--to", "nowhere", code=1)

    assert out == "0 letters replayed (of 2 in orders.dlq)\n"
    assert 'failed: m-0: queue "nowhere" does not exist' in err
    assert len(here.take("orders.dlq")) == 2


def test_a_replay_on_a_terminal_shows_how_far_it_is_and_ends_cleanly_by_ctrl_c(here: Desk) -> None:
    here.bury(40)
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-m", "amqpkit.cli", "dlq", "replay", "orders", str(here.file), "--rate", "4/s"]
    environment = {**os.environ, "AMQP_URL": here.broker.url, "AMQP_API_URL": here.broker.api, "TERM": "xterm"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other_end, env=environment) as program:
        os.close(other_end)
        said = read_until(main_end, b" 3/40")
        program.send_signal(signal.SIGINT)
        read_until(main_end, None)
        out, _ = program.communicate(timeout=30)
        os.close(main_end)

    assert program.returncode == 130
    assert b"Replaying" in said
    gone = int(out.split()[0])
    assert 0 < gone < 40
    assert [len(here.take(queue)) for queue in ("orders", "orders.dlq")] == [gone, 40 - gone]


def test_discarding_needs_a_reason_a_yes_and_a_file_and_can_be_undone(here: Desk, tmp_path: Path) -> None:
    here.bury(3)
    audit = tmp_path / "audit.jsonl"
    words = ("discard", "orders", "--id", "m-1", "--audit", str(audit))

    here.dlq(*words, code=64)
    assert "without a reason" in here.dlq(*words, "--reason", " ", code=1)[1]
    _, err = here.dlq(*words, "--reason", "a test", code=1)
    assert "nothing was discarded: there is no terminal to ask at" in err
    out, _ = here.dlq(*words, "--reason", "a test", "--dry-run")
    assert out == "1 letter would be discarded (of 3 in orders.dlq)\n"
    _, err = here.dlq(*words[:-1], str(tmp_path), "--reason", "a test", "--yes", code=1)
    assert "cannot be written" in err
    assert not audit.exists()

    done = here.told(*words, "--reason", "a test", "--yes")
    assert (done["discarded"], done["stayed"], done["audit"]) == (1, 2, str(audit))
    line = json.loads(audit.read_text())
    assert (line["properties"]["message_id"], line["extra"]["why"]) == ("m-1", "a test")

    out, _ = here.dlq("import", str(audit))
    assert out == "1 letter stored of 1 line\n"
    assert [letter.message_id for letter in here.take("orders.dlq")] == ["m-0", "m-2", "m-1"]


def test_an_import_names_its_broken_lines_and_goes_on(here: Desk, tmp_path: Path) -> None:
    here.bury(1)
    out, err = here.dlq("export", "orders")
    assert err == "1 letter written to standard output (1 seen in orders.dlq)\n"
    file = tmp_path / "letters.jsonl"
    file.write_text(f"{{}}\n{out}")

    done = here.told("import", str(file), "--to", "quiet.dlq", code=1)

    assert (done["read"], done["stored"]) == (2, 1)
    assert done["faults"][0]["line"] == 1
    assert [letter.message_id for letter in here.take("quiet.dlq")] == ["m-0"]
    assert "cannot be read" in here.dlq("import", str(tmp_path / "none"), code=1)[1]
    assert "exists" in here.dlq("export", "orders", "--out", str(file), code=1)[1]


def test_looking_where_it_costs_is_warned_of_and_where_each_look_costs_it_is_asked(here: Desk) -> None:
    here.queue("costly", queue_type="quorum", delivery_limit=3)
    here.send("", "costly")

    asks = here.broker.release < (4, 3)
    _, err = here.dlq("list", "--letters", "costly", file=False, code=int(asks))
    assert 'warning: "costly" has a delivery limit of 3' in err
    assert ("say --yes" in err) is asks
    assert here.told("list", "--letters", "costly", "--yes", file=False)["seen"] == 1


def test_the_remedy_for_a_queue_that_is_not_there_fits_whose_it_would_be(here: Desk) -> None:
    here.queue("invoices.dead", queue_type="classic")
    _, foreign = here.dlq("groups", "invoice.dead", code=1)
    here.broker.http("DELETE", f"queues/{here.broker.vhost}/quiet.dlq")
    _, ours = here.dlq("groups", "quiet", code=1)
    _, alone = here.dlq("groups", "quiet.dlq", code=1, file=False)

    assert ours == 'amqpkit: queue "quiet.dlq" does not exist on the broker; run `amqpkit apply` first\n'
    vhost = f'check the name and the vhost, which is "{here.broker.vhost}"'
    missing = 'amqpkit: queue "{}" does not exist on the broker; '
    near = ' (did you mean "invoices.dead"?); dead letters seem to be in "invoices.dead", "orders.dlq", "quiet.dlq"\n'
    assert foreign == f"{missing.format('invoice.dead')}the topology does not declare it either: {vhost}{near}"
    assert alone.startswith(f"{missing.format('quiet.dlq')}no topology file was given: {vhost}")
    assert 'seem to be in "invoices.dead", "orders.dlq"' in alone


def test_the_command_line_says_what_is_missing(here: Desk) -> None:
    assert "--letters QUEUE" in here.dlq("list", file=False, code=64)[1]
    assert "--letters QUEUE" in here.dlq("list", "--fate", "crashed", code=64)[1]
    assert "give one" in here.dlq("replay", "orders", "--to", "a", "--to-exchange", code=64)[1]
    for verb in ("replay", "export", "groups"):
        assert "--limit" in here.dlq(verb, "orders", "--limit", "-1", code=64)[1]
    assert '"nothing" does not exist' in here.dlq("groups", "nothing", code=1)[1]
    _, err = here.dlq("groups", "orders", "--yes", file=False)
    assert 'its dead letters are in "orders.dlq"' in err
