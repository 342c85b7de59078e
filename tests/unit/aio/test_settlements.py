"""Which frames settle what: checked against a broker's own book of what is outstanding."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqpkit.brokers.aio.delivery import Settlements
from amqpkit.brokers.blame import Loss


@dataclass
class Book:
    """Stands in for the channel: does to its book what a broker does when frames arrive."""

    outstanding: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    nacked: set[int] = field(default_factory=set)
    returned: list[int] = field(default_factory=list)
    frames: int = 0
    stands: bool = True
    lost: asyncio.Future[Loss] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def nacks(self, tag: int, singly: Iterable[tuple[int, bool]]) -> bytes:
        if tag:
            assert tag in self.outstanding, "406 unknown delivery tag"
            returned = sorted(each for each in self.outstanding if each <= tag)
            self.settle(set(returned), self.nacked)
            self.returned += returned
        for each, requeue in singly:
            self.settle({each}, self.nacked)
            self.returned += [each] * requeue
        return b"n"

    def acks(self, tag: int, singly: Iterable[int]) -> bytes:
        if tag:
            assert tag in self.outstanding, "406 unknown delivery tag"
            self.settle({each for each in self.outstanding if each <= tag}, self.acked)
        for each in singly:
            self.settle({each}, self.acked)
        return b"a"

    def settle(self, tags: set[int], how: set[int]) -> None:
        assert tags <= self.outstanding, "406 unknown delivery tag"
        self.outstanding -= tags
        how |= tags
        self.frames += 1

    async def write(self, _payload: bytes) -> None:
        await asyncio.sleep(0)


def settled(script: list[tuple[Any, ...]], count: int) -> tuple[Book, Settlements, set[int], set[int]]:
    async def run() -> tuple[Book, Settlements, set[int], set[int]]:
        book = Book()
        settlements = Settlements(book)  # type: ignore[arg-type]
        acked, nacked = set(), set()
        for tag in range(1, count + 1):
            book.outstanding.add(tag)
            settlements.begin(tag)
        for step, tag in script:
            if step == "turn":
                await settlements.flush()
            elif step == "ack":
                settlements.ack(tag)
                acked.add(tag)
            else:
                settlements.nack(tag, requeue=True)
                nacked.add(tag)
        await settlements.flush()
        await settlements.close()
        return book, settlements, acked, nacked

    return asyncio.run(run())


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[tuple[Any, ...]], int]:
    count = draw(st.integers(1, 30))
    order = draw(st.permutations(range(1, count + 1)))
    ended = order[: draw(st.integers(0, count))]
    script: list[tuple[Any, ...]] = []
    for tag in ended:
        script.append((draw(st.sampled_from(["ack", "ack", "nack"])), tag))
        if draw(st.booleans()):
            script.append(("turn", 0))
    return script, count


@given(scripts())
def test_each_delivery_is_settled_once_and_as_it_was_said(given_script: tuple[list[tuple[Any, ...]], int]):
    script, count = given_script

    book, settlements, acked, nacked = settled(script, count)

    assert (book.acked, book.nacked) == (acked, nacked)
    assert book.frames == settlements.sent


def test_what_ends_in_one_turn_and_in_order_is_one_frame():
    book, *_ = settled([("ack", tag) for tag in range(1, 101)], 100)

    assert book.frames == 1


def test_what_is_given_back_in_one_turn_and_in_order_is_one_frame():
    book, *_ = settled([("nack", tag) for tag in range(1, 101)], 120)

    assert (book.frames, book.returned) == (1, [*range(1, 101)])


def test_what_is_given_back_in_another_order_stays_in_it():
    book, *_ = settled([("nack", 1), ("nack", 2), ("nack", 4), ("nack", 3), ("nack", 5)], 5)

    assert (book.frames, book.returned) == (4, [1, 2, 4, 3, 5])


def test_what_is_given_back_takes_nothing_along_that_is_still_worked_on_or_acked():
    book, *_ = settled([("nack", 1), ("nack", 3), ("nack", 6), ("ack", 5)], 6)

    assert (book.nacked, book.acked, book.outstanding) == ({1, 3, 6}, {5}, {2, 4})


def test_a_slow_first_delivery_holds_back_none_of_the_others():
    book, *_ = settled([("ack", tag) for tag in range(2, 6)], 5)

    assert (book.acked, book.outstanding, book.frames) == ({2, 3, 4, 5}, {1}, 4)


def test_nothing_is_sent_when_the_channel_is_gone():
    async def run() -> Book:
        book = Book(outstanding={1}, stands=False)
        settlements = Settlements(book)  # type: ignore[arg-type]
        settlements.begin(1)
        settlements.ack(1)
        await settlements.flush()
        await settlements.close()
        return book

    assert asyncio.run(run()).frames == 0
