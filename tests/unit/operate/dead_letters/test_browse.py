import asyncio
from collections.abc import Callable
from typing import Self

import pytest

from amqpkit.brokers.memory.subscription import MemorySubscription
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.errors import QueueMissing
from amqpkit.model import Received
from amqpkit.operate.dead_letters import page as room
from amqpkit.operate.dead_letters.browse import Browsed, browse
from amqpkit.operate.dead_letters.holding import LOST, SILENT, STOPPED
from amqpkit.operate.dead_letters.page import page_size
from amqpkit.ports import Delivery


def reader_of(seen: list[str | None]):
    def visit(received: Received) -> None:
        seen.append(received.properties.message_id)

    return visit


async def test_every_letter_is_seen_and_all_are_given_back_in_order(lab):
    ids, seen = await lab.bury(500), []

    browsed = await lab.live(browse(lab.transport, "work.dlq", reader_of(seen), clock=lab.clock))

    assert browsed == Browsed(500, 500)
    assert seen == ids
    assert lab.ids() == ids


async def test_the_five_hundred_take_a_few_pages_and_no_letter_is_seen_twice(lab):
    await lab.bury(500)
    opened = []
    consume = lab.transport.consume

    async def counting(queue, *, prefetch, deliver):
        opened.append(prefetch)
        return await consume(queue, prefetch=prefetch, deliver=deliver)

    lab.transport.consume = counting
    await lab.live(browse(lab.transport, "work.dlq", lambda _: None, clock=lab.clock))

    assert opened == [16, 100, 100, 100, 100, 84]


@pytest.mark.parametrize(
    ("seen", "largest", "size"),
    [
        (0, 0, 16),
        (16, 100, 100),
        (20_000, 100, 400),
        (1_000_000, 100, 20_000),
        (500, 5 * 2**20, 12),
        (500, 16 * 2**20, 4),
        (500, 10**9, 1),
        (100, 0, 100),
    ],
)
def test_a_page_grows_with_what_was_seen_and_shrinks_with_the_largest_letter(seen, largest, size):
    assert page_size(seen, largest) == size


async def test_a_look_may_end_early_and_gives_back_what_it_had_not_read(lab):
    ids, seen = await lab.bury(50), []

    def three(received: Received) -> bool:
        seen.append(received.properties.message_id)
        return len(seen) < 3

    browsed = await lab.live(browse(lab.transport, "work.dlq", three, clock=lab.clock))

    assert (browsed, seen) == (Browsed(50, 3), ids[:3])
    assert lab.ids() == ids


async def test_no_more_are_taken_than_were_asked_for(lab):
    ids, seen = await lab.bury(50), []

    browsed = await lab.live(browse(lab.transport, "work.dlq", reader_of(seen), clock=lab.clock, limit=5))

    assert (browsed, seen, lab.ids()) == (Browsed(5, 5), ids[:5], ids)


async def test_what_arrives_meanwhile_is_not_waited_for(lab):
    await lab.bury(20)

    async def and_more():
        started = asyncio.Event()

        def visit(_received: Received) -> None:
            started.set()

        look = asyncio.ensure_future(browse(lab.transport, "work.dlq", visit, clock=lab.clock))
        await started.wait()
        await lab.bury(20)
        return await look

    assert await lab.live(and_more()) == Browsed(20, 20)
    assert len(lab.ids()) == 40


async def test_a_visit_that_fails_gives_everything_back(lab):
    ids = await lab.bury(20)

    def fails(_received: Received) -> None:
        raise KeyError("broken")

    with pytest.raises(KeyError):
        await lab.live(browse(lab.transport, "work.dlq", fails, clock=lab.clock))

    assert lab.ids() == ids


async def test_an_empty_queue_is_seen_at_once_and_a_missing_one_is_said(lab):
    assert await lab.live(browse(lab.transport, "work.dlq", lambda _: None, clock=lab.clock)) == Browsed(0, 0)
    with pytest.raises(QueueMissing):
        await lab.live(browse(lab.transport, "nobody", lambda _: None, clock=lab.clock))


async def test_letters_that_somebody_else_took_are_not_waited_for(lab):
    await lab.bury(30)

    def purge(_received: Received) -> None:
        lab.broker.purge("work.dlq")  # what we do not hold yet is gone

    browsed = await lab.live(browse(lab.transport, "work.dlq", purge, clock=lab.clock))

    assert (browsed.total, browsed.seen, browsed.trouble) == (30, 16, "")
    assert len(lab.ids()) == 16


async def test_a_lost_connection_ends_the_look_and_says_so(lab):
    ids, seen = await lab.bury(300), []

    def cut(received: Received) -> None:
        seen.append(received.properties.message_id)
        if len(seen) == 150:
            lab.broker.drop_connections()

    browsed = await lab.live(browse(lab.transport, "work.dlq", cut, clock=lab.clock))

    assert browsed.trouble == LOST
    assert browsed.seen < 300
    assert sorted(lab.ids()) == sorted(ids)
    assert await lab.transport.depth("work.dlq") == 300


class Interrupted(MemoryTransport):
    """Its connection is lost and comes back while the second page is turned."""

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> MemorySubscription:
        self.pages = getattr(self, "pages", 0) + 1
        if self.pages == 2:
            self._memory.drop_connections()
            await asyncio.sleep(0)
        return await super().consume(queue, prefetch=prefetch, deliver=deliver)


async def test_no_letter_is_seen_twice_when_the_connection_is_lost_between_two_pages(lab):
    ids, seen = await lab.bury(300), []
    transport = Interrupted(lab.broker)
    await transport.open()

    browsed = await lab.live(browse(transport, "work.dlq", reader_of(seen), clock=lab.clock))
    await transport.close()

    assert (browsed.trouble, seen) == (LOST, ids[: browsed.seen])
    assert browsed.seen < 300
    assert sorted(lab.ids()) == sorted(ids)


async def test_a_look_that_is_told_to_stop_stops(lab):
    ids, stop = await lab.bury(100), asyncio.Event()

    browsed = await lab.live(browse(lab.transport, "work.dlq", lambda _: stop.set(), clock=lab.clock, stop=stop))

    assert (browsed.seen, browsed.trouble, lab.ids()) == (1, STOPPED, ids)


async def test_a_queue_that_gives_nothing_though_letters_wait_is_not_waited_for_for_ever(lab, monkeypatch):
    await lab.bury(3)
    monkeypatch.setattr(lab.broker, "consume", lambda channel, queue, **settings: None)

    browsed = await lab.live(browse(lab.transport, "work.dlq", lambda _: None, clock=lab.clock))

    assert browsed == Browsed(3, 0, SILENT)


class Body(bytes):
    """A body that counts those of its kind that are still held."""

    alive = 0

    def __new__(cls, body: bytes) -> Self:
        cls.alive += 1
        return super().__new__(cls, body)

    def __del__(self) -> None:
        Body.alive -= 1


async def test_letters_that_were_looked_at_are_held_without_what_they_say(lab, monkeypatch):
    await lab.bury(200)
    receive, most = room.Page.receive, []

    def counting(page, delivery):
        delivery.body = Body(delivery.body)
        receive(page, delivery)

    monkeypatch.setattr(room.Page, "receive", counting)
    await lab.live(browse(lab.transport, "work.dlq", lambda _: most.append(Body.alive), clock=lab.clock))

    assert max(most) <= room.PAGE + 1
