"""Messages that say the same of different things are one; and no message takes long."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.operate.dead_letters.groups import NORMAL_MAX, READ_MAX, Grouping, grouped, normal
from tests.unit.operate.dead_letters.letters import letter

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            "no answer in 8 s for order 123",
            "no answer in 5.5 s for order 77",
            "no answer in «number» s for order «number»",
        ),
        ("timeout after 8s", "timeout after 12s", "timeout after «number»s"),
        ("order-17 is gone", "order-9 is gone", "order-«number» is gone"),
        (
            "no user 6f1d0c1e-0000-4000-8000-000000000001",
            "no user 0190A8A0-0000-7000-8000-00000000000F",
            "no user «uuid»",
        ),
        ("at 0x7f3a9c is <A>", "at 0x10 is <A>", "at «hex» is <A>"),
        ("commit deadbeef01 is bad", "commit 0123456789abcdef is bad", "commit «hex» is bad"),
        ("KeyError: 'anna'", "KeyError: 'bob smith'", "KeyError: «quoted»"),
        ('field "a b" is missing', 'field "c" is missing', "field «quoted» is missing"),
        ("bounced: anna@example.com", "bounced: b.c+d@mail.example.org", "bounced: «email»"),
        ("GET https://a.example/x?y=1 said 500", "GET http://b.example said 404", "GET «url» said «number»"),
        ("no file /srv/data/a.png", "no file /home/x/y/z", "no file «path»"),
        (r"no file C:\Users\x", r"no file D:\a\b", "no file «path»"),
        ("due 2026-01-02T03:04:05.678Z", "due 2025-12-31 23:59:59+02:00", "due «time»"),
        ("at 03:04:05", "at 3:04:05.1", "at «time»"),
        ("line\n  one", "line one", "line one"),
        ("-3 is less than 0", "+1e9 is less than 7", "«number» is less than «number»"),
        ("connect 10.0.0.1:5672 failed", "connect 192.168.1.20:443 failed", "connect «number»:«number» failed"),
    ],
)
def test_what_differs_from_letter_to_letter_is_made_alike(one: str, other: str, expected: str) -> None:
    assert normal(one) == normal(other) == expected


@pytest.mark.parametrize(
    "words", ["the card was declined", "don't retry, it isn't worth it", "a/b", "decade", "and/or", "İstanbul ß 日本"]
)
def test_words_stay_words(words: str) -> None:
    assert normal(words) == words


PIECES = st.sampled_from([*"\"'`«»@./-:ea \n\\TZ", "«number»", "://", "0x", "12", "deadbeef"])


@given(st.text(max_size=300) | st.lists(PIECES, max_size=120).map("".join))
def test_what_is_normal_stays_so_and_short(message: str) -> None:
    once = normal(message)

    assert normal(once) == once
    assert len(once) <= NORMAL_MAX


HOSTILE = (
    *(
        "a",
        "0",
        "a0",
        "0-",
        "a.",
        "a@",
        "/a",
        "/",
        '"',
        "'",
        "`",
        "a@a.",
        "a://",
        "0:",
        "0.",
        "0,",
        "-",
        "é",
        "«",
        "0x",
    ),
    *("ab0", "0000-00-00T", "a-", "C:\\", "00:00:00", "=", ".@", "+", "~/", "“"),
)


@pytest.mark.parametrize("piece", [*HOSTILE, "\n", " ", "A" * 63 + "."])
def test_no_message_takes_long(piece: str) -> None:
    message = piece * (64 * 1024 // len(piece))
    begun = time.process_time()

    normal(message)
    normal(message[:-1] + "!")

    assert time.process_time() - begun < 0.05


@given(st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_no_repetition_takes_long(piece: str) -> None:
    message = (piece * READ_MAX)[: 64 * 1024]
    begun = time.process_time()

    normal(message)

    assert time.process_time() - begun < 0.05


def test_letters_are_grouped_by_what_they_share_and_the_largest_group_comes_first() -> None:
    def died(minutes: int, message: str, **more: object):
        return replace(
            letter(id=f"m{minutes}", died_at=AT + timedelta(minutes=minutes), size=minutes),
            error=("NoAnswer", message, "…"),
            **more,
        )

    big, small = grouped(
        [
            died(1, "in 8 s", type="b"),
            died(3, "in 5 s"),
            died(2, "in 6 s", replays=2),
        ]
    )

    assert (big.count, big.cause.message, big.cause.type) == (2, "in «number» s", "order.place")
    assert (big.first, big.last) == (AT + timedelta(minutes=2), AT + timedelta(minutes=3))
    assert (big.example, big.replays, big.bytes) == ("m3", 2, 5)
    assert (small.count, small.cause.type) == (1, "b")


@pytest.mark.parametrize(
    "difference",
    [
        *({"fate": "crashed"}, {"type": "b"}, {"version": 2}, {"exchange": "b"}, {"routing_key": "b"}, {"queue": "b"}),
        *({"error": ("Other", "no", "")}, {"error": ("NoAnswer", "yes", "")}),
    ],
)
def test_what_a_person_would_treat_differently_is_another_group(difference: dict[str, object]) -> None:
    assert len(grouped([letter(), replace(letter(), **difference)])) == 2


def test_a_letter_without_any_time_is_counted() -> None:
    grouping = Grouping()
    grouping.add(replace(letter(), died_at=None, published_at=None))

    (group,) = grouping.groups()
    assert (group.count, group.first, group.last, group.example) == (1, None, None, "m-1")
