"""User and password apart from the URL, as every command takes them; and nowhere in what any of them says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from amqpkit import broker_url
from amqpkit.cli import main
from amqpkit.cli.connect import AdminOptions
from tests.cli.service import SECRET, Service, set_all

# every command that talks to a broker, with what it needs besides
COMMANDS = (
    ["plan"],
    ["apply", "--yes"],
    ["drift"],
    ["lint", "--live"],
    ["route", "amq.topic", "a", "--live"],
    ["graph", "--live"],
    ["import"],
    ["migrate", "queue", "letter.send"],
    ["export", "definitions", "--live"],
    ["run", "post"],
    ["publish", "letter.send", '{"to": "ann"}'],
    ["status"],
    ["dlq", "list"],
    ["dlq", "show", "letter.send", "m-1"],
    ["dlq", "groups", "letter.send"],
    ["dlq", "replay", "letter.send"],
    ["dlq", "discard", "letter.send", "--reason", "old"],
    ["dlq", "export", "letter.send"],
    ["dlq", "import", "letters.jsonl"],
    ["demo"],
)


def named(command: list[str]) -> str:
    return " ".join(command[:2])


def called(command: list[str]) -> tuple[str, ...]:
    return tuple(command[: 2 if command[0] in {"dlq", "export"} else 1])


# --- on a broker -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["file", "environment", "mounted", "url"])
def test_whichever_way_they_are_given_commands_log_in(
    service: Service, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options, environment = service.way(way)
    set_all(monkeypatch, environment)

    assert main(["plan", "--detailed-exitcode", *options]) == 2
    assert main(["apply", "--yes", *options]) == 0
    assert main(["plan", "--detailed-exitcode", *options]) == 0
    assert main(["publish", "letter.send", '{"to": "ann"}', *options]) == 0
    assert main(["dlq", "list", *options]) == 0
    assert "does not help" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[0] != "demo"], ids=named)
def test_a_wrong_password_is_refused_by_user_and_host(
    service: Service, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    service.file.write_text("wr@ng/p#ss\n")
    options, _ = service.way("file")

    assert main([*command, *options]) == 1
    out, err = capsys.readouterr()
    assert f'the broker at {service.host} refuses user "{service.user}"' in err
    assert "wr@ng" not in out + err
    assert "wr%40ng" not in out + err
    assert "Traceback" not in err


def test_the_demo_logs_in_as_it_is_told_and_not_by_the_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMQP_PASSWORD", "not for the demo")
    options, _ = service.way("file")
    queue = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    service.broker.http("PUT", f"queues/{service.broker.vhost}/email.send", queue)

    # the sight of a queue of its names ends it early
    assert main(["demo", *options, "--api", os.environ["AMQP_API_URL"]]) == 1
    assert "has queues of the demo's names already: email.send; none holds a message" in capsys.readouterr().err


async def test_the_shop_reads_the_same_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.shop import api, page

    options, environment = service.way("mounted")
    set_all(monkeypatch, environment | {"AMQP_URL": options[1]})

    for shop in (api.shop(), page.shop()):
        async with shop.router.lifespan_context(shop):
            assert shop.state.transport.broker.version == service.broker.version


# --- without one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_every_command_that_has_a_broker_explains_both_options_once(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*called(command), "--help"]) == 0
    options = re.findall(r"^│ +(--url|--user|--password[a-z-]*) ", capsys.readouterr().out, re.MULTILINE)

    assert options == ["--url", "--user", "--password-file"]


def test_the_commands_above_are_all_that_have_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    def verbs(*words: str) -> set[str]:
        main([*words, "--help"])
        return set(re.findall(r"^│ ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)) - {"json"}

    found = set()
    for name in verbs():
        for words in [(name,), *((name, verb) for verb in verbs(name))]:
            main([*words, "--help"])
            if " --url " in capsys.readouterr().out:
                found.add(words)

    assert found == {called(command) for command in COMMANDS}


@pytest.mark.parametrize(
    ("environment", "options", "says"),
    [
        (
            {"AMQP_URL": "amqp://us+er:s3cret@127.0.0.1:1", "AMQP_USER": "other"},
            [],
            "the URL (--url, AMQP_URL) and --user (AMQP_USER) give different users",
        ),
        (
            {"AMQP_PASSWORD": "t0psecret"},
            ["--url", "amqp://us+er:s3cret@127.0.0.1:1"],
            "the URL (--url, AMQP_URL) and AMQP_PASSWORD give different passwords",
        ),
        (
            {"AMQP_PASSWORD": "t0psecret"},
            ["--url", "amqp://us+er@127.0.0.1:1", "--password-file", "secret"],
            "AMQP_PASSWORD and --password-file (AMQP_PASSWORD_FILE) give different passwords",
        ),
        (
            {},
            ["--url", "amqp://127.0.0.1:1", "--user", "us+er"],
            "--user (AMQP_USER) gives a user and nothing a password: give it in AMQP_PASSWORD, --password-file",
        ),
        (
            {"AMQP_URL": "amqp://us+er@127.0.0.1:1", "AMQP_PASSWORD_FILE": "nothing"},
            [],
            '--password-file (AMQP_PASSWORD_FILE): the file "nothing" does not exist; name a file that',
        ),
    ],
)
@pytest.mark.parametrize("command", [["plan"], ["publish", "letter.send", "{}"], ["run", "post"]], ids=named)
def test_what_differs_or_is_missing_is_said_before_connecting(
    folder: Path,
    command: list[str],
    environment: dict[str, str],
    options: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "secret").write_text("s3cret")
    set_all(monkeypatch, environment)

    assert main([*command, *options]) == 1
    out, err = capsys.readouterr()
    assert says in err
    for value in ("s3cret", "t0psecret", "us+er", "other"):
        assert value not in out + err


def test_the_default_url_gives_nobody() -> None:
    options = AdminOptions(user="us+er", password=SECRET)

    location = options.broker().location
    assert (location.user, location.password, str(location)) == ("us+er", SECRET, "localhost:5672")
    guest = AdminOptions(password="changed").broker().location
    assert (guest.user, guest.password) == ("guest", "changed")


@pytest.mark.parametrize(
    ("api", "login"),
    [
        (None, ("us+er", SECRET)),
        ("http://host:1", ("us+er", SECRET)),
        ("http://us+er@host:1", ("us+er", SECRET)),
        ("http://ann:a%2Fb@host:1", ("ann", "a/b")),
        ("http://us+er:a%2Fb@host:1", ("us+er", "a/b")),
    ],
)
def test_the_management_api_takes_its_own_credentials_else_the_brokers(api: str | None, login: tuple[str, str]) -> None:
    place = AdminOptions(url="amqp://host/v", user="us+er", password=SECRET, api=api).place()

    assert broker_url({"AMQP_URL": place.api.replace("http:", "amqp:")}).location.user == login[0]
    assert broker_url({"AMQP_URL": place.api.replace("http:", "amqp:")}).location.password == login[1]


def test_an_environment_for_other_commands_is_none_for_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_all(monkeypatch, {"AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET, "AMQP_PASSWORD_FILE": "nothing"})

    assert main(["demo", "--url", "amqp://ann@127.0.0.1:1"]) == 1
    assert "gives a user and nothing a password" in capsys.readouterr().err
    assert main(["demo", "--user", "ann", "--password-file", "f"]) == 64
    assert "--user, --password-file without --url" in capsys.readouterr().err


def test_what_needs_a_vhost_alone_asks_for_no_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_all(monkeypatch, {"AMQP_URL": "amqp://us+er@host/shop", "AMQP_PASSWORD_FILE": "nothing"})

    assert main(["export", "definitions", "--cluster"]) == 0
    assert '"vhost": "shop"' in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--password", "s3cret"], ["--password=s3cret"]])
def test_a_password_in_the_arguments_is_refused_and_not_repeated(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 64
    said = "".join(capsys.readouterr())
    assert "AMQP_PASSWORD or in a file, with --password-file" in said
    assert "s3cret" not in said
    assert main(["publish", "letter.send", "{}", "topology.yaml", "--", "--password"]) != 0
    assert "there is no --password" not in capsys.readouterr().err
