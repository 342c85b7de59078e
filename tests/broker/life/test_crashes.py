"""Workers that die at the worst moments: nothing is lost, and a message that kills them is taken out of the way."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from amqpkit.errors import PublishError
from tests.broker.life.notes import Note
from tests.broker.life.process import settings_for
from tests.broker.life.rig import ONE_QUEUE, Rig, applied, by_queue, until
from tests.broker.life.victim import Effects, Point

QUEUES = ("work", "work.retry.300ms", "work.retry.600ms", "work.retry.900ms")


async def is_dead(rig: Rig, count: int = 1) -> bool:
    return await rig.ready("work.dlq") >= count


async def is_empty(rig: Rig, queues: Iterable[str] = QUEUES) -> bool:
    """Whether no message is ready, unacked or on its way in any of the queues."""
    for queue in queues:
        if await rig.ready(queue):
            return False
    return not any([(await rig.statistics(queue)).get("messages", 1) for queue in queues])


async def test_a_message_that_kills_its_worker_ends_crashed_within_delivery_limit_plus_one(broker, nursery, tmp_path):
    limit = 3
    text = ONE_QUEUE.replace("accepts:", f"delivery-limit: {limit}\n    accepts:")
    async with applied(broker, text) as rig:
        settings = settings_for(rig, tmp_path, prefetch=1)
        effects = Effects(Path(settings.effects))
        poison = await rig.publish(deadly=True)
        healthy = await rig.publish()
        deaths = 0
        while not await is_dead(rig):
            async with nursery.started(settings) as process:
                deaths += await process.dies_unless(lambda: is_dead(rig))
            assert deaths <= limit + 1
        async with nursery.started(settings) as process:
            await until(lambda: effects.count("handled")[healthy], "the message behind it is handled")
            assert await process.terminate() == 0

        letters = await rig.take()
        assert by_queue(letters) == {"work.dlq": Counter([poison])}
        assert letters[0].fate == "crashed"
        assert effects.count("begun")[poison] == deaths == limit
        assert effects.count("handled") == Counter([healthy])


ENDS = {
    # attempts seen, and how often it may have been handled in the end
    Point.BEFORE_COPY: ([1, 1, 2], {1}),
    Point.SENDING_COPY: (None, {1, 2}),
    Point.COPY_CONFIRMED: ([1, 1, 2, 2], {2}),
    Point.ACKED: ([1, 2], {1}),
}


@pytest.mark.parametrize("point", ENDS)
async def test_a_worker_killed_around_the_retry_copy_loses_nothing(broker, nursery, tmp_path, point):
    """celery/celery#1628, Bogdanp/dramatiq#431; a second copy is possible between the copy and the ack, no more."""
    attempts, times = ENDS[point]
    async with applied(broker) as rig:
        settings = settings_for(rig, tmp_path)
        effects = Effects(Path(settings.effects))
        message_id = await rig.publish(failures=1)
        async with nursery.started(replace(settings, kill_at=point.value)) as process:
            assert await process.ended() == -9
        async with nursery.started(settings) as process:
            await until(lambda: effects.count("handled")[message_id] >= min(times), "it is handled")
            await until(lambda: is_empty(rig), "nothing is left")
            assert await process.terminate() == 0

        assert await rig.ledger() == {}
        assert effects.count("handled")[message_id] in times
        assert attempts is None or sorted(effect.attempt for effect in effects.read("begun")) == attempts


async def publish_many(rig: Rig, notes: list[Note], effects: Effects) -> tuple[dict[str, Note], int]:
    """Publish through every fault, not far ahead of the work; return what was confirmed, and how many were not."""
    confirmed: dict[str, Note] = {}
    failed = 0
    for start in range(0, len(notes), 100):
        await until(lambda start=start: len(effects.read("handled")) >= start - 300, "the work keeps up")
        batch = [rig.publisher.publish(note, timeout=10) for note in notes[start : start + 100]]
        answers = await asyncio.gather(*batch, return_exceptions=True)
        for note, answer in zip(notes[start : start + 100], answers, strict=True):
            match answer:
                case str():
                    confirmed[answer] = note
                case PublishError():
                    failed += 1
                case _:
                    raise answer
    return confirmed, failed


async def test_two_thousand_messages_survive_kills_and_closed_connections(broker, nursery, tmp_path, record_property):
    """Promise 1, by message id: every confirmed message is handled or in a queue."""
    began, total, prefetch = time.monotonic(), 2000, 20
    notes = [
        Note(failures=99 if number % 100 == 50 else 1 if number % 10 == 0 else 0, seconds=0.002)
        for number in range(total)
    ]
    async with applied(broker) as rig:
        settings = settings_for(rig, tmp_path, prefetch=prefetch)
        effects = Effects(Path(settings.effects))
        faults = 0
        publishing = asyncio.create_task(publish_many(rig, notes, effects))
        for goal in (400, 900):
            async with nursery.started(settings) as process:
                await until(lambda goal=goal: len(effects.read("handled")) >= goal / 2, "the work goes on")
                faults += await asyncio.to_thread(broker.close_connections, at_least=2)
                await until(lambda goal=goal: len(effects.read("handled")) >= goal, "the work goes on")
                await process.kill()
                faults += 1
        async with nursery.started(settings) as process:
            confirmed, failed = await publishing
            hopeless = {each for each, note in confirmed.items() if note.failures > 3}
            await until(lambda: set(effects.count("handled")) >= set(confirmed) - hopeless, "the others are handled")
            await until(lambda: is_dead(rig, len(hopeless)), "the always failing ones are dead")
            await until(lambda: is_empty(rig), "the work is done")
            assert await process.terminate() == 0

        found = await rig.ledger()
        handled = effects.count("handled")
        lost = set(confirmed) - set(handled) - {each for ids in found.values() for each in ids}
        duplicates = (handled - Counter(set(handled))).total() + sum(
            (ids - Counter(set(ids))).total() for ids in found.values()
        )
        seconds = time.monotonic() - began
        report = {"confirmed": len(confirmed), "failed": failed, "faults": faults, "duplicates": duplicates}
        print(report | {"seconds": round(seconds, 1), "windows told": len(effects.read("window"))})
        for name, value in report.items():
            record_property(name, value)
        assert lost == set()
        assert len(confirmed) + failed == total
        assert set(found) == {"work.dlq"}
        assert duplicates <= faults * prefetch
        assert seconds < 60
