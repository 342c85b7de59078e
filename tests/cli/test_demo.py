"""`amqpkit demo`: what a stranger sees, that it checks itself, and that it hurts no broker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from amqpkit.cli import main
from amqpkit.cli.demo import perform, shop
from amqpkit.cli.demo.memory import MemoryStage
from amqpkit.cli.demo.play import check, play
from amqpkit.cli.demo.script import Expected, acts

ROOT = Path(__file__).parents[2]


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it as a stranger would, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "amqpkit.cli", "demo", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
        timeout=110,
    )


# --- in memory -----------------------------------------------------------------------------------


def test_it_tells_each_journey_and_ends_well(capsys):
    assert main(["demo"]) == 0

    out = capsys.readouterr().out
    movements = [
        re.sub(r" {2,}", " | ", line.strip()) for line in out.splitlines() if re.match(r" *\d+:\d\d\.\d", line)
    ]
    assert movements[:7] == [
        "0:00.0 | welcome | publisher → shop → email.send | with key email.send.welcome",
        "0:00.0 | welcome | email.send → SendEmail | attempt 1 of 4",
        "0:00.0 | welcome | SendEmail → email.send.retry.2s | ProviderDown: 503 try again later",
        "0:02.0 | welcome | email.send.retry.2s → email.send | attempt 2 of 4",
        "0:02.0 | welcome | SendEmail → email.send.retry.10s | ProviderDown: 503 try again later",
        "0:12.0 | welcome | email.send.retry.10s → email.send | attempt 3 of 4",
        "0:12.0 | welcome | SendEmail → done | handled",
    ]
    assert "9 handled, 3 dead, 0 lost; on the way 6 retries, 4 crashes of a worker and 2 duplicates." in out
    assert "Checked: every message ended as it had to" in out
    assert out.rstrip().endswith("the same on RabbitMQ, in real time")


def test_without_a_terminal_it_is_plain_narrow_and_the_same_each_time(capsys):
    main(["demo"])
    first = capsys.readouterr().out
    main(["demo"])

    assert capsys.readouterr().out == first
    assert "\x1b" not in first
    assert max(map(len, first.splitlines())) <= 100


def test_it_needs_no_terminal_no_utf8_and_no_broker():
    ran = demo(PYTHONIOENCODING="ascii", AMQP_URL="amqp://nobody@localhost:1/")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "SendEmail -> email.send.retry.2s" in ran.stdout


def test_json_tells_the_same(capsys):
    assert main(["demo", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["ok"]
    assert document["problems"] == []
    ends = {
        (each["message"], each["queue"]): (each["ended"], each["calls"], each["crashes"], each["duplicates"])
        for each in document["journeys"]
    }
    assert ends == {
        ("welcome", "email.send"): ("handled", 3, 0, 0),
        ("news", "email.send"): ("handled", 1, 0, 0),
        ("photo-1", "image.resize"): ("handled", 1, 0, 0),
        ("photo-2", "image.resize"): ("handled", 1, 0, 0),
        ("photo-3", "image.resize"): ("handled", 1, 0, 0),
        ("invoice", "billing.charge"): ("exhausted", 4, 0, 0),
        ("lead", "lead.enrich"): ("handled", 2, 0, 0),
        ("lead", "lead.report"): ("handled", 1, 0, 0),
        ("nonsense", "email.send"): ("invalid", 0, 0, 0),
        ("bomb", "image.resize"): ("crashed", 3, 3, 0),
        ("twice", "billing.charge"): ("handled", 1, 0, 1),
        ("crash", "billing.charge"): ("handled", 1, 1, 1),
    }


def test_it_shows_an_old_message_a_duplicate_and_a_crash_after_the_charge(capsys):
    assert main(["demo"]) == 0

    out = re.sub(r" {2,}", " | ", capsys.readouterr().out)
    for line in (
        "news | publisher → shop → email.send | with key email.send.news, version 1",
        "twice | publisher → shop → billing.charge | with key billing.charge, again",
        "twice | billing.charge → done | a duplicate: it was handled before",
        "crash | ChargeCard → billing.charge | the worker dies (crash 1 of 20)",
        "crash | billing.charge → done | a duplicate: it was handled before",
        "and in the shop's books\neach charge that was made stands once",
    ):
        assert line in out


async def test_it_notices_what_does_not_end_as_the_script_says():
    found = shop.find_shop()
    stage = MemoryStage(found, lambda _line: None)
    email, *_ = acts(found.payloads)
    (sent,) = email.messages
    wrong = replace(sent, expected=(Expected("email.send", "exhausted", 4),))
    async with stage.running():
        await play(stage, email)
        right = await check(stage, (sent,))
        problems = await check(stage, (wrong,))

    assert right == []
    assert problems == [
        "welcome in email.send: ended handled, expected exhausted",
        "welcome in email.send: handler calls 3, expected 4",
        "welcome in email.send: delays 2s, 10s, expected 2s, 10s, 1m",
        "welcome is not in email.send.dlq",
    ]


async def test_it_notices_a_charge_that_the_books_do_not_show_and_one_that_they_show_twice():
    found = shop.find_shop()
    stage = MemoryStage(found, lambda _line: None)
    act = next(act for act in acts(found.payloads) if any(sent.again for sent in act.messages))
    (sent,) = act.messages
    async with stage.running():
        before = await check(stage, (sent,))
        await play(stage, act)
        right = await check(stage, (sent,))
        with stage._books.begin() as page:
            found.books.book(page, sent.invoice, 1)
        problems = await check(stage, (sent,))

    assert f"twice: invoice {sent.invoice} is 0 times in the books, expected 1" in before
    assert right == []
    assert problems == [f"twice: invoice {sent.invoice} is 2 times in the books, expected 1"]


def test_it_fails_when_something_does_not_end_as_promised(monkeypatch, capsys):
    def other_script(payloads):
        first, *_ = acts(payloads)
        (sent,) = first.messages
        return (replace(first, messages=(replace(sent, expected=(Expected("email.send", "handled", 2),)),)),)

    monkeypatch.setattr(perform, "acts", other_script)

    assert main(["demo"]) == 1
    assert (
        "This is not how it had to end:\n  welcome in email.send: handler calls 3, expected 2"
        in capsys.readouterr().out
    )


def test_without_its_shop_it_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(shop, "_HOMES", ("nowhere.shop",))

    assert main(["demo"]) == 1
    assert "examples/shop" in capsys.readouterr().err


def test_without_sqlite_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "examples.shop.consumers", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)

    assert main(["demo"]) == 1
    assert "pip install 'amqpkit[cli,sqlite]'" in capsys.readouterr().err


def test_an_option_for_a_broker_without_a_broker_is_a_wrong_command_line(capsys):
    assert main(["demo", "--yes"]) == 64
    assert "--yes without --url" in capsys.readouterr().err


# --- on a broker ---------------------------------------------------------------------------------


def contents(broker) -> dict[str, list[str]]:
    """Name everything in the vhost that RabbitMQ has not put there itself."""
    vhost = quote(broker.vhost, safe="")
    found = {
        kind: [each["name"] for each in broker.http("GET", f"{kind}/{vhost}")[1]] for kind in ("queues", "policies")
    }
    exchanges = [each["name"] for each in broker.http("GET", f"exchanges/{vhost}")[1]]
    return {**found, "exchanges": [name for name in exchanges if name and not name.startswith("amq.")]}


NOTHING: dict[str, list[str]] = {"queues": [], "policies": [], "exchanges": []}


def test_on_a_broker_it_ends_the_same_and_leaves_nothing(broker):
    ran = demo("--url", broker.url, "--api", broker.api, "--json")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    assert [each["ended"] for each in document["journeys"] if each["message"] == "bomb"] == ["crashed"]
    assert [each["crashes"] for each in document["journeys"] if each["message"] == "bomb"] == [3]
    (crash,) = (each for each in document["journeys"] if each["message"] == "crash")
    assert (crash["ended"], crash["calls"], crash["crashes"], crash["duplicates"]) == ("handled", 1, 1, 1)
    assert contents(broker) == NOTHING


def put(broker, path, body):
    status, answer = broker.http("PUT", path.format(vhost=quote(broker.vhost, safe="")), body)
    assert status in (201, 204), answer


def test_it_refuses_a_broker_that_has_its_queues_and_touches_nothing(broker):
    put(broker, "queues/{vhost}/email.send", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    message = {"properties": {}, "routing_key": "email.send", "payload": "somebody's", "payload_encoding": "string"}
    broker.http("POST", f"exchanges/{quote(broker.vhost, safe='')}/amq.default/publish", message)
    before = contents(broker)

    ran = demo("--url", broker.url, "--api", broker.api)

    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "email.send (1)" in ran.stderr
    assert "--yes" in ran.stderr
    assert contents(broker) == before


def test_with_yes_it_uses_what_is_there_and_leaves_it(broker):
    arguments = {"x-queue-type": "quorum"}
    put(broker, "queues/{vhost}/shop.unrouted", {"durable": True, "arguments": arguments})
    message = {"properties": {}, "routing_key": "shop.unrouted", "payload": "somebody's", "payload_encoding": "string"}
    broker.http("POST", f"exchanges/{quote(broker.vhost, safe='')}/amq.default/publish", message)

    ran = demo("--url", broker.url, "--api", broker.api, "--yes", "--json")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert contents(broker) == {**NOTHING, "queues": ["shop.unrouted"]}
    get = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    _, items = broker.http("POST", f"queues/{quote(broker.vhost, safe='')}/shop.unrouted/get", get)
    assert [item["payload"] for item in items] == ["somebody's"]


def test_stopped_half_way_it_leaves_nothing_either(broker):
    running = subprocess.Popen(
        [sys.executable, "-m", "amqpkit.cli", "demo", "--url", broker.url, "--api", broker.api],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    with running:
        assert running.stdout is not None
        seen = next(line for line in running.stdout if "email.send.retry" in line)
        running.send_signal(signal.SIGTERM)
        _, error = running.communicate(timeout=30)

    assert seen
    assert running.returncode == 128 + signal.SIGTERM, error
    assert contents(broker) == NOTHING
