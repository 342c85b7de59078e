"""What a stranger wrote does nothing on a terminal, whatever it is."""

import io
import json
import os
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.cli.dlq.bodies import shown_body, shown_headers
from amqpkit.cli.dlq.choosing import Choice
from amqpkit.cli.dlq.discard import _user
from amqpkit.cli.dlq.wording import Paper, aged, harmless, harmless_lines, print_json, sized
from amqpkit.cli.usage import UsageError
from amqpkit.deliver.credentials import HIDDEN
from amqpkit.model import Int32, Properties
from tests.unit.operate.dead_letters.letters import Found

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
BIDI = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
OTHERS = ["\u2028", "\u2029", "\ufeff", "\u200b", "\U000e0041", "\ue000", "\ud800"]
HOSTILE = st.lists(st.sampled_from([*CONTROLS, *BIDI, *OTHERS, "[2J", "]0;t", "a", "é", "日"]), max_size=12).map(
    "".join
)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def does_nothing(text: str) -> bool:
    """Whether every character is only seen."""
    return all(unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for each in text)


@given(HOSTILE | st.text())
def test_nothing_reaches_a_terminal_but_what_can_be_seen(text: str) -> None:
    assert does_nothing(harmless(text))
    assert all(map(does_nothing, harmless_lines(text, 1000)))


@pytest.mark.parametrize("character", [*CONTROLS, *BIDI, *OTHERS], ids=lambda each: f"U+{ord(each):04X}")
def test_each_of_them_is_spelt_out(character: str) -> None:
    assert harmless(f"a{character}b").startswith("a\\")


def test_what_can_be_seen_is_left_alone_and_what_is_long_is_cut() -> None:
    assert harmless("Ünïcode 日本 «x» \\ 🙂") == "Ünïcode 日本 «x» \\ 🙂"
    assert harmless("abcdef", 4) == "abc…"
    assert harmless_lines("a\n\tb\r\nc", 100) == ["a", "    b\\r", "c"]


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=4))
def test_a_table_keeps_its_rows_and_columns(rows: list[tuple[str, str]]) -> None:
    paper = io.StringIO()
    Paper(paper).table(("A", "B"), rows)
    lines = paper.getvalue().splitlines()

    assert len(lines) == len(rows) + 1
    assert all(map(does_nothing, lines))


def test_numbers_are_on_the_right_and_wide_characters_are_counted_as_wide() -> None:
    paper = io.StringIO()
    Paper(paper).table(("NAME", "N"), [("日本", "5"), ("abcd", "15")])

    assert paper.getvalue() == "NAME   N\n日本   5\nabcd  15\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        Paper(stream).line("x", "red")
        assert (stream.getvalue() == "\x1b[31mx\x1b[0m\n") is coloured
    monkeypatch.setenv(name, value)
    plain = Terminal()
    Paper(plain).line("x", "red")
    assert plain.getvalue() == "x\n"


def test_a_terminal_that_cannot_write_a_letter_gets_its_number() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Paper(stream).line("é")
    stream.flush()

    assert raw.getvalue() == b"\\xe9\n"


@given(HOSTILE)
def test_json_stays_ascii_and_means_the_same(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out := io.StringIO())
        print_json({text: [text]})

    assert json.loads(out.getvalue()) == {text: [text]}
    assert all(character == "\n" or " " <= character <= "~" for character in out.getvalue())


# --- bodies and headers ------------------------------------------------------------------------------


def body(content: bytes, *, whole: bool = False, **properties: Any) -> Any:
    return shown_body(Found(body=content, properties=Properties(**properties)), whole=whole)


def test_a_json_body_is_shown_without_its_credentials() -> None:
    shown = body(b'{"to": "a", "password": "x", "inner": [{"apiKey": "y"}]}')

    assert shown.document == {"to": "a", "password": HIDDEN, "inner": [{"apiKey": HIDDEN}]}
    assert (shown.text, shown.summary) == (None, "56 B of JSON")


@pytest.mark.parametrize(
    ("content", "properties", "summary"),
    [
        (b"", {}, "0 B of nothing"),
        (b"token=abc", {"content_type": "text/plain"}, "9 B of text/plain that is no JSON"),
        (b"\xff\x00", {}, "2 B of something that is no UTF-8 text"),
        (b"x", {"content_encoding": "gzip"}, "1 B of something that cannot be read: the gzip body is cut off"),
        (b"[" * 100_000, {}, "97.7 KiB of text that is no JSON"),
        (b"9" * 5000, {}, "4.9 KiB of text that is no JSON"),
    ],
)
def test_a_body_that_is_not_redacted_is_named_unless_wanted(content: bytes, properties: Any, summary: str) -> None:
    shown = body(content, **properties)

    assert shown.summary.startswith(summary)
    assert (shown.document, shown.text) == (None, None)
    assert bool(body(content, whole=True, **properties).text) is bool(content)


def test_headers_hide_what_their_names_tell_of() -> None:
    headers = {
        "Authorization": "Bearer x",
        "x-auth-token": "y",
        "session_cookie": "z",
        "apiKey": "k",
        "nested": {"password": "p", "n": Int32(5)},
        "kwargsrepr": "{'password': 'x'}",
        "author": "anna",
    }

    assert shown_headers(headers, whole=False) == {
        **dict.fromkeys(("Authorization", "x-auth-token", "session_cookie", "apiKey"), HIDDEN),
        "nested": {"password": HIDDEN, "n": {"$int32": 5}},
        "kwargsrepr": "(17 characters, shown with --body)",
        "author": "anna",
    }
    assert shown_headers(headers, whole=True)["kwargsrepr"] == "{'password': 'x'}"


# --- times, sizes, choices ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (100_000, "1d"), (-5, "0s")],
)
def test_an_age_is_told_by_its_largest_unit(seconds: int, expected: str) -> None:
    assert aged(NOW - timedelta(seconds=seconds), NOW) == expected
    assert aged(None, NOW) == ""


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (2**31, "2.0 GiB")]
)
def test_a_size_is_told_roughly(size: int, expected: str) -> None:
    assert sized(size) == expected


def test_times_are_durations_ago_or_instants() -> None:
    chosen = Choice(since="2h", until="2026-03-01T11:00:00+01:00").filter(NOW)

    assert chosen.since == NOW - timedelta(hours=2)
    assert chosen.until == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert Choice(since="9999999d").filter(NOW).since == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["5", "yesterday", "2026-03-01", "2026-03-01T12:00:00", ""])
def test_other_times_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since .* such as 2h"):
        Choice(since=text).filter(NOW)


def test_whoever_discards_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)  # as in a container that was started as any number

    assert _user() == "uid 3999999999"
