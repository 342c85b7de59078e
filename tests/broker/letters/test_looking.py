"""Looking costs nothing: dead-letter queues keep their letters, in order, however many readers look or crash."""

import asyncio
import signal

import pytest

from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.model import Queue
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.costs import Price, cost_of_looking
from tests.broker.letters.rig import CLOCK, all_back, bury, ids_in, numbered
from tests.broker.letters.victim import Point, Settings
from tests.broker.life.rig import applied, until


async def test_thirty_readers_that_crash_leave_all_letters_there(broker, letters_nursery, tmp_path):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(60))

        for _ in range(30):
            ended = await letters_nursery.run(
                Settings(broker.url, "browse", str(tmp_path / "out"), Point.SEEN, after=40)
            )
            assert ended.status == -signal.SIGKILL
            await all_back(rig.transport, "work.dlq", 60)

        assert sorted(await ids_in(rig.transport, "work.dlq"), key=str) == sorted(ids)


async def test_thirty_looks_leave_all_letters_in_their_place(broker):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(300))

        for _ in range(30):
            async with asyncio.timeout(10):  # RabbitMQ 4.0 gives back one by one, for a moment after the close
                while await rig.transport.depth("work.dlq") < 300:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.01)
            seen: list[str | None] = []
            browsed = await browse(
                rig.transport,
                "work.dlq",
                lambda received, seen=seen: seen.append(received.properties.message_id),
                clock=CLOCK,
            )
            assert (browsed.total, browsed.seen, browsed.trouble) == (300, 300, "")
            assert seen == ids

        assert await ids_in(rig.transport, "work.dlq") == ids


async def test_a_part_of_a_long_queue_goes_back_in_front(broker):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(500))

        await browse(rig.transport, "work.dlq", lambda _: None, clock=CLOCK, limit=150)

        assert await ids_in(rig.transport, "work.dlq") == ids


@pytest.fixture
async def admin(broker):
    here = ManagementAdmin(broker.api, vhost=broker.vhost)
    yield here
    await here.close()


async def test_where_a_look_costs_a_delivery_it_is_said_before(broker, admin):
    """The usual look through the management API empties such a queue on 4.0."""
    async with applied(broker) as rig:
        kinds = {
            "free": {"x-queue-type": "classic"},
            "limited": {"x-queue-type": "quorum", "x-delivery-limit": 2},
            "log": {"x-queue-type": "stream"},
        }
        for name, arguments in kinds.items():
            await admin.create(Queue(name, arguments["x-queue-type"], arguments=arguments))
        actual = await admin.read()

        def price(queue: str) -> Price:
            return cost_of_looking(queue, actual, version=broker.version).price

        is_new = broker.release >= (4, 3)
        assert price("limited") is (Price.IF_IT_CRASHES if is_new else Price.EACH_TIME)
        assert (price("free"), price("log")) == (Price.NOTHING, Price.REFUSED)
        assert price("work.dlq") is Price.NOTHING
        assert price("work") is (Price.IF_IT_CRASHES if is_new else Price.EACH_TIME)

        await bury(rig.transport, ["m"], "limited")
        for _ in range(5 if is_new else 2):
            await browse(rig.transport, "limited", lambda _: None, clock=CLOCK)
        assert await rig.ready("limited") == 1
        if not is_new:  # the price was no idle talk
            await browse(rig.transport, "limited", lambda _: None, clock=CLOCK)

            async def gone() -> bool:
                return await rig.ready("limited") == 0

            await until(gone, "the third look costs the letter")
