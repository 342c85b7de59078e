"""`amqpkit publish`: what is checked before anything connects, files of messages, and going on after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from amqpkit.cli import main
from amqpkit.cli.resume import Resume
from amqpkit.deliver.outgoing import Outcome
from amqpkit.errors import AmqpkitError, PublishUncertain
from tests.cli.office import apply, letters, lines, taken
from tests.cli.terminal import hears_ctrl_c
from tests.containers.brokers import Broker

NOWHERE = ("--url", "amqp://nowhere.invalid")


# --- before anything connects ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "body", "says"),
    [
        ((), "{", "the body is not JSON"),
        (("--payloads", "office"), "{}", "to: Field required"),
        (("--payloads", "office"), '{"to": 1}', "to: Input should be a valid string"),
        (
            ("--payloads", "office", "--schema-version", "2"),
            "{}",
            'office has no version 2 of "letter.send"; there is 3',
        ),
        ((), "@nothing.json", "the body cannot be read"),
        ((), '{"copies": 1}', 'routing key "letter.{to}" needs a field'),
    ],
)
@pytest.mark.usefixtures("office")
def test_a_body_that_does_not_fit_is_refused_before_connecting(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], body: str, says: str
) -> None:
    assert main(["publish", "letter.send", body, *options, *NOWHERE]) == 1
    assert says in capsys.readouterr().err


def test_a_locked_schema_is_used_where_no_class_is_named(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "export", "office", "--out", "topology/schemas"]) == 0
    assert main(["publish", "letter.send", '{"copies": "x"}', *NOWHERE]) == 1
    said = capsys.readouterr().err
    assert "checked against the schema of version 3 in topology/schemas" in said
    assert '$.to: is missing; $.copies: is "x", not integer' in said
    assert main(["publish", "letter.send", "{}", "--schema-version", "1", *NOWHERE]) == 1
    assert "checked only that the body is JSON: name its class" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "what is to be published?"),
        (["--bdoy", "{}"], "there is no option --bdoy"),
        (["{}", "--resume", "r"], "are for --many"),
        (["{}", "--skip-invalid"], "are for --many"),
        (["{}", "--rate", "0"], "--rate '0' is not a rate"),
        (["{}", "--timeout", "nan"], "--timeout nan makes no sense"),
        (["--many", "x", "--key", "k"], "--key would make all of the lines one message"),
    ],
)
@pytest.mark.usefixtures("office")
def test_a_command_line_that_makes_no_sense_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["publish", "letter.send", *arguments]) == 64
    assert says in capsys.readouterr().err


def test_one_bad_line_keeps_all_from_being_sent_and_is_named(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = lines(office, '{"to": "a"}', "", '{"to": 7}', "{", '{"copies": 2}')
    (office / name).write_bytes((office / name).read_bytes() + b"\xff\n")
    assert main(["publish", "letter.send", "--many", name, "--payloads", "office", *NOWHERE]) == 1
    said = capsys.readouterr().err
    for told in (
        "line 3: to: Input",
        "line 4: the body is not JSON",
        "line 5: to: Field",
        "line 6: the body is not UTF-8",
    ):
        assert told in said
    assert "invalid lines: 4; nothing was sent" in said


# --- the resume file -------------------------------------------------------------------------------


def remembered(path: Path, *, kind: str = "letter.send") -> Resume:
    return Resume.read(path, kind)


def test_a_line_keeps_its_id_from_run_to_run_and_no_two_lines_share_one(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with remembered(path) as first:
        first.begin("letter.send")
        first.note(1, Outcome(0, first.id_of(1, "a")))
        first.note(2, Outcome(1, first.id_of(2, "a"), PublishUncertain("gone")))
    again, other = remembered(path), remembered(tmp_path / "other")
    assert again.stored == 1
    assert [again.id_of(n, "a") for n in (1, 2)] == [first.id_of(n, "a") for n in (1, 2)]
    assert len({again.id_of(1, "a"), again.id_of(2, "a"), again.id_of(1, "b"), other.id_of(1, "a")}) == 4
    assert (again.has(1, "a"), again.has(2, "a"), again.has(3, "a")) == (True, False, False)
    with pytest.raises(AmqpkitError, match="line 1 is not what it was"):
        again.has(1, "b")


def test_half_a_line_at_the_end_is_what_a_kill_leaves_and_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with remembered(path) as first:
        first.begin("letter.send")
        first.note(1, Outcome(0, first.id_of(1, "a")))
    with path.open("a") as file:
        file.write('{"line": 2, "id": "x", "fa')
    with remembered(path) as again:
        again.begin("letter.send")
        again.note(3, Outcome(0, again.id_of(3, "c")))
    assert [json.loads(text).get("line") for text in path.read_text().splitlines()] == [None, 1, 3]
    assert remembered(path).stored == 2


def test_a_resume_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with remembered(path) as first:
        first.begin("letter.send")
    with pytest.raises(AmqpkitError, match=r'published "letter\.send", not "mail\.send"'):
        remembered(path, kind="mail.send")
    path.write_text("hello\n")
    with pytest.raises(AmqpkitError, match="is no resume file"):
        remembered(path)


# --- on a broker -----------------------------------------------------------------------------------


def test_a_body_comes_from_the_line_a_file_or_standard_input(
    broker: Broker, office: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(broker)
    (office / "body.json").write_text('{"to": "file"}')
    monkeypatch.setattr("sys.stdin", StringIO('{"to": "input"}'))
    capsys.readouterr()
    for body in ('{"to": "line"}', "@body.json", "-"):
        assert main(["publish", "letter.send", body, "--payloads", "office", "--url", broker.url]) == 0
    printed = capsys.readouterr().out.split()
    found = taken(broker)
    assert [each.message_id for each in found] == printed
    assert [each.headers["amqpkit-key"] for each in found] == ["line", "file", "input"]
    assert {each.headers["amqpkit-version"] for each in found} == {3}


def test_a_file_is_published_once_however_often_it_is_resumed(
    broker: Broker, office: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(broker)
    name = lines(office, *letters(300), "{")
    command = ["publish", "letter.send", "topology.yaml", "--many", name, "--resume", "r", "--url", broker.url]
    capsys.readouterr()
    assert main([*command, "--skip-invalid"]) == 1
    assert capsys.readouterr().out == "300 confirmed, 1 invalid\n"
    lines(office, *letters(350))
    assert main(command) == 0
    assert capsys.readouterr().out == "300 stored before, 50 confirmed\n"
    ids = [each.message_id for each in taken(broker)]
    assert len(ids) == len(set(ids)) == 350
    # without a resume file it is other messages; from standard input, too
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO("\n".join(letters(3)).encode())))
    assert main(["publish", "letter.send", "--many", "-", "--url", broker.url]) == 0
    again = {each.message_id for each in taken(broker)}
    assert len(again) == 3
    assert not again & set(ids)


def test_a_full_queue_is_told_line_by_line_and_the_rest_goes_later(
    broker: Broker, office: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(broker)
    name = lines(office, *letters(1500))
    command = ["publish", "letter.send", "--many", name, "--resume", "r", "--url", broker.url, "--overload", "fail"]
    capsys.readouterr()
    assert main(command) == 1
    printed = capsys.readouterr()
    confirmed, nacked = (int(part.split()[0]) for part in printed.out.split(", "))
    assert (confirmed + nacked, nacked > 0) == (1500, True)
    assert "was refused by the broker: a queue is full" in printed.err
    first = taken(broker)
    assert len(first) == confirmed
    while main(command) == 1:
        first += taken(broker)
    first += taken(broker)
    assert len({each.message_id for each in first}) == len(first) == 1500


def test_a_killed_run_goes_on_and_an_interrupted_one_says_how_far_it_came(broker: Broker, office: Path) -> None:
    apply(broker)
    name = lines(office, *letters(900))
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "amqpkit.cli", "publish", "letter.send", "--many", name, "--resume", "r"]
    for end, rate, further in ((signal.SIGKILL, "600", 10_000), (signal.SIGINT, "50", 1_000)):
        before = (office / "r").stat().st_size if (office / "r").exists() else 0
        process = subprocess.Popen(
            [*command, "--url", broker.url, "--rate", rate],
            cwd=office,
            env=os.environ | {"PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hears_ctrl_c,  # noqa: PLW1509 - no threads here
        )
        deadline = time.monotonic() + 30
        while not (office / "r").exists() or (office / "r").stat().st_size < before + further:
            assert time.monotonic() < deadline, process.communicate()
            time.sleep(0.02)
        process.send_signal(end)
        out, err = process.communicate(timeout=30)
        assert "Traceback" not in err
    assert process.returncode == 130
    assert "not tried" in out
    assert main(["publish", "letter.send", "--many", name, "--resume", "r", "--url", broker.url]) == 0
    ids = [each.message_id for each in taken(broker)]
    assert len(set(ids)) == 900, "every line is there"
    assert len(ids) <= 900 + 2 * 500, "and only what was under way may be there twice, under one id"
