"""A worker that is told to stop in the middle of its work."""

import asyncio
from collections import Counter

from amqpkit.events import Begun
from tests.broker.life.rig import ONE_QUEUE, Rig, applied, handling, until


async def is_ready(rig: Rig, count: int) -> bool:
    return await rig.ready("work") == count


async def test_on_a_stop_what_has_not_begun_goes_back_at_once_and_what_has_begun_is_finished(broker):
    text = ONE_QUEUE.replace("accepts:", "consume: {prefetch: 20, concurrency: 5}\n    accepts:")
    async with applied(broker, text) as rig:
        door = asyncio.Event()
        consumer, calls = handling("work", lambda _note, _context: door.wait())
        async with rig.working(consumer) as worker:
            sent = [await rig.publish() for _ in range(30)]
            await until(lambda: is_ready(rig, 10), "twenty are delivered")
            await until(lambda: len(calls.begun) == 5, "five are begun")
            worker.stop()
            await until(lambda: is_ready(rig, 25), "what has not begun is back while the others go on")
            assert calls.handled == []
            assert not worker.ready
            door.set()

        finished = list(calls.handled)
        assert sorted(map(str, finished)) == sorted(str(call.message_id) for call in calls.begun)
        again, later = handling("work")
        async with rig.working(again):
            await until(lambda: len(later.handled) == 25, "the others are handled by the next worker")
            await until(lambda: len(rig.settled()) == 30, "all are settled")
        assert Counter(finished) + Counter(later.handled) == Counter(sent)
        assert {call.attempt for call in later.begun} == {1}
        assert await rig.ledger() == {}


async def test_no_ack_of_a_finished_message_is_lost_by_a_stop_in_the_middle_of_a_load(broker):
    async with applied(broker) as rig:
        sent = await asyncio.gather(*(rig.publish() for _ in range(2000)))
        handled: Counter[str | None] = Counter()
        stops = 0
        while handled.total() < len(sent):
            consumer, calls = handling("work")
            goal = min(150, len(sent) - handled.total())
            async with rig.working(consumer):
                await until(lambda calls=calls, goal=goal: len(calls.handled) >= goal, "the work goes on")
            handled += Counter(calls.handled)
            stops += 1

        assert stops >= 3
        assert handled == Counter(sent)
        assert len(rig.told(Begun)) == len(sent)
        assert await rig.ledger() == {}
