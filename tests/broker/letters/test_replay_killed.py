"""A replay that is killed anywhere and run again loses nothing, and doubles at most its window."""

import asyncio
import signal

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.operate.dead_letters.replay import replay
from amqpkit.operate.dead_letters.verdicts import Order
from amqpkit.operate.dead_letters.window import WINDOW
from amqpkit.stores.memory import MemoryStore
from tests.broker.letters.rig import CLOCK, all_back, bury, doubled, ids_in, numbered
from tests.broker.letters.victim import WORK, Point, Settings
from tests.broker.life.rig import applied, handling, until


def many(broker):
    """Twenty thousand; fewer on the older broker, which differs in the time it takes."""
    return 20_000 if broker.release >= (4, 3) else 4_000


@pytest.mark.timeout(240)
async def test_thousands_of_letters_killed_at_several_points_are_all_replayed(broker, letters_nursery, tmp_path):
    async with applied(broker) as rig:
        ids, total = await bury(rig.transport, numbered(many(broker))), many(broker)
        again: set[str] = set()
        went = 0

        for point in (Point.SENT, Point.CONFIRMED, Point.ACKED):
            ended = await letters_nursery.run(
                Settings(broker.url, "replay", str(tmp_path / "out"), point, after=total // 5, run=f"killed {point}")
            )
            assert ended.status == -signal.SIGKILL
            there = await rig.transport.depth("work")
            await all_back(rig.transport, "work.dlq", total - there)
            # A short run that ends: it tells which letters may have gone twice.
            order = Order(f"after {point}", limit=3 * WINDOW)
            report = await replay(rig.transport, "work.dlq", order, work=WORK, clock=CLOCK)
            assert report.replayed == 3 * WINDOW
            again |= set(report.again)
            went += total // 5 + report.replayed

        last = await replay(rig.transport, "work.dlq", Order("last"), work=WORK, clock=CLOCK)
        again |= set(last.again)

        assert last.complete
        assert last.replayed < total - went + 4 * WINDOW
        assert await rig.transport.depth("work.dlq") == 0
        found = await ids_in(rig.transport, "work")
        assert set(found) == set(ids)
        assert len(found) - total <= 3 * WINDOW
        assert doubled(found) <= again
        assert len(again) <= 2 * 3 * WINDOW


@pytest.mark.parametrize("times", [1, 2])
async def test_interrupted_it_ends_and_each_letter_is_in_one_place(broker, letters_nursery, tmp_path, times):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(700))

        ended = await letters_nursery.run(
            Settings(
                broker.url,
                "replay",
                str(tmp_path / "out"),
                Point.CONFIRMED,
                after=300,
                signal=signal.SIGINT,
                times=times,
            )
        )

        assert ended.status == 130
        await all_back(rig.transport, "work.dlq", 700 - await rig.transport.depth("work"))
        went, left = await ids_in(rig.transport, "work"), await ids_in(rig.transport, "work.dlq")
        assert set(went) | set(left) == set(ids)
        if times == 1:
            assert (went, left) == (ids[: len(went)], ids[len(went) :])
        else:
            assert len(set(went) & set(left)) <= WINDOW


async def test_two_at_once_replay_each_letter_once(broker):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(1000))
        other = AioTransport(broker.url, name="other")
        await other.open()
        try:
            reports = await asyncio.gather(
                replay(rig.transport, "work.dlq", Order("one"), work=WORK, clock=CLOCK),
                replay(other, "work.dlq", Order("two"), work=WORK, clock=CLOCK),
            )
        finally:
            await other.close()

        assert sum(report.replayed for report in reports) == 1000
        assert all(report.replayed > 0 for report in reports)
        assert sorted(await ids_in(rig.transport, "work"), key=str) == sorted(ids)
        assert await rig.transport.depth("work.dlq") == 0


async def test_a_worker_with_a_store_handles_a_letter_once_that_was_replayed_twice(broker, letters_nursery, tmp_path):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(400))
        settings = Settings(broker.url, "replay", str(tmp_path / "out"), Point.CONFIRMED, after=200)
        await letters_nursery.run(settings)
        await all_back(rig.transport, "work.dlq", 400 - await rig.transport.depth("work"))
        await replay(rig.transport, "work.dlq", Order("again"), work=WORK, clock=CLOCK)
        assert await rig.transport.depth("work") > 400  # some are there twice, or nothing is shown

        consumer, calls = handling("work", lambda _note, _context: None)
        async with rig.working(consumer, store=MemoryStore()):

            async def empty() -> bool:
                return await rig.ready("work") == 0 and len(rig.settled()) >= 400

            await until(empty, "the queue is worked off")

        assert sorted(calls.handled, key=str) == sorted(ids)
