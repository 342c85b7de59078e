"""Letters fit the terminal that they are listed on."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from amqpkit.cli.dlq.letters import is_called, letter_table
from amqpkit.cli.dlq.wording import Paper
from amqpkit.operate.dead_letters.letter import Letter
from tests.broker.life.ledger import open_channel
from tests.cli.dlq_desk import Desk
from tests.cli.terminal import read_until
from tests.unit.operate.dead_letters.letters import DIED, letter

ID = "0199f0c4-7b1e-7c52-9a55-3c1d6a0f4e21"
LONG = "the gateway at 10.0.0.7 did not answer within 8 s, and so did the three others of its pool, one after another"
NOW = DIED + timedelta(hours=3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def listed(*letters: Letter, width: int, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None = None) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = stream or Terminal()
    letter_table(letters, NOW, Paper(stream))
    return stream.getvalue()


FULL: dict[str, Any] = {"id": ID, "error": ("NoAnswer", LONG, ""), "type": "orders.payment.capture", "size": 1_048_000}


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    "differences",
    [
        {},
        {"fate": "delivery_limit", "replays": 12, "replay_run": "run-1a2b3c4d", "died_at": NOW - timedelta(days=250)},
        {"type": "", "error": ("", "", "")},
        {"id": "日" * 40, "error": ("", "日" * 100, ""), "type": "日" * 50},
        {"id": "\x1b[31m" * 20, "error": ("\x1b", "\x1b" * 100, ""), "type": "\x1b" * 50},
    ],
    ids=["usual", "replayed", "bare", "wide", "hostile"],
)
def test_every_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int, differences: dict[str, Any]) -> None:
    out = listed(letter(**FULL), letter(**FULL | differences), width=width, monkeypatch=monkeypatch)

    assert len(out.splitlines()) == 3
    assert max(map(cell_len, out.splitlines())) <= width, out


def test_what_tells_most_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    few = listed(
        letter(**FULL), letter(**FULL | {"type": "a", "error": ("", "no", "")}), width=80, monkeypatch=monkeypatch
    )

    assert few.splitlines() == [
        "ID               AGE  FATE       TYPE         ERROR                     ATTEMPTS",
        "0199f0c4…0f4e21  3h   exhausted  orders.pay…  NoAnswer: the gateway a…         2",
        "0199f0c4…0f4e21  3h   exhausted  a v1         no                               2",
    ]
    replayed = listed(letter(**FULL, replays=2, replay_run="run-1"), width=80, monkeypatch=monkeypatch)
    assert ID not in replayed
    assert "REPLAYS" in replayed
    assert "run-1" not in replayed
    assert ID in listed(letter(**FULL), width=120, monkeypatch=monkeypatch)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "wide terminal"])
def test_nothing_is_cut_where_there_is_room(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    width = 300 if stream.isatty() else 80
    out = listed(letter(**FULL, replays=1, replay_run="run-1"), width=width, monkeypatch=monkeypatch, stream=stream)

    for told in (ID, "orders.payment.capture v1", f"NoAnswer: {LONG}"[:100], "1 (run-1)", "1023.4 KiB"):
        assert told in out


@pytest.mark.parametrize(
    ("called", "is_it"),
    [
        (ID, True),
        ("0199f0c4…0f4e21", True),
        ("0199f0c4…0f4e22", False),
        ("0199f0c5…0f4e21", False),
        ("0199f0c4", False),
        ("…", False),
        ("0199f0c4…", False),
        ("", False),
    ],
)
def test_a_letter_is_known_by_its_cut_id(called: str, is_it: bool) -> None:
    assert is_called(ID, called) is is_it


@pytest.mark.parametrize(
    ("verb", "doing"),
    [(["discard", "--reason", "a test"], b"Discarding"), (["replay", "--to-exchange"], b"Replaying")],
    ids=["discard", "replay"],
)
def test_a_bar_says_what_is_done_and_counts_what_is_meant(here: Desk, verb: list[str], doing: bytes) -> None:
    here.bury(4)
    channel = open_channel(here.broker.url)
    channel.exchange_declare("shop", "fanout")
    channel.queue_bind("quiet", "shop")
    channel.connection.close()
    main_end, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    environment = {**os.environ, "AMQP_URL": here.broker.url, "AMQP_API_URL": here.broker.api, "TERM": "xterm"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "amqpkit.cli", "dlq", verb[0], "orders", str(here.file), *verb[1:], "--limit", "1"]
    with subprocess.Popen(
        command, stdin=other_end, stdout=subprocess.PIPE, stderr=other_end, env=environment, cwd=here.file.parent
    ) as program:
        os.close(other_end)
        try:
            before = read_until(main_end, b"Only yes is accepted: ")
            os.write(main_end, b"yes\n")
            after = read_until(main_end, None)
            program.wait(timeout=30)
        finally:
            program.kill()
            os.close(main_end)

    assert program.returncode == 0
    for said, word, other in ((before, b"Counting", doing), (after, doing, b"Counting")):
        assert word in said
        assert other not in said
        assert b"1/1" in said
    assert b"/4" not in before + after


def test_a_terminal_of_80_columns_shows_ids_that_show_takes(here: Desk) -> None:
    here.bury(1, message_id=ID)
    main_end, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = ["dlq", "list", str(here.file), "--letters", "orders"]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"AMQP_URL": here.broker.url, "AMQP_API_URL": here.broker.api, "TERM": "xterm"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "amqpkit.cli", *words]
    done = subprocess.run(command, stdout=other_end, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(other_end)
    out = os.read(main_end, 65536).decode()
    os.close(main_end)

    assert done.returncode == 0, done.stderr
    assert max(map(len, out.splitlines())) <= 80, out
    assert "0199f0c4…0f4e21" in out
    assert here.told("show", "orders", "0199f0c4…0f4e21")["letters"][0]["id"] == ID
