"""Workers that die at each step around an effect, and one that sleeps through its lease."""

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.life.notes import Note
from tests.broker.life.rig import applied, until
from tests.broker.once.crew import FILE, SQL, STORES, Effects, Processes, settings_for
from tests.broker.once.victim import Point

KINDS = pytest.mark.parametrize("threads", [False, True], ids=["async", "threads"])

IN_TRANSACTION = {
    # how often the handler is called, and how the message ends for the worker that comes after
    Point.EFFECT: (2, "handled"),
    Point.COMMITTED: (1, "duplicate"),
    Point.COMPLETED: (1, "duplicate"),
    Point.ACKED: (1, None),
}
WITHOUT = {
    Point.EFFECT: (2, "handled"),
    Point.COMMITTED: (2, "handled"),
    Point.COMPLETED: (1, "duplicate"),
    Point.ACKED: (1, None),
}


async def crash_and_go_on(nest, rig, settings, point, end):
    """Let one worker die at a point, and the next come to the end; return how often the handler was called."""
    effects = Effects(Path(settings.effects))
    await rig.publish()
    async with nest.started(replace(settings, kill_at=point.value)) as first:
        assert await first.ended() == -9
    async with nest.started(settings) as second:
        if end is not None:
            await until(lambda: effects.read(end), f"the message ends as {end}")
        assert await second.terminate() == 0
    assert await rig.ledger() == {}
    ends = Counter(each for each in ("handled", "duplicate", "retried", "dead") for _ in effects.read(each))
    # the first has told of its end only when it died after the ack
    assert ends == Counter([end or "handled"])
    return effects.count("begun").total()


@KINDS
@pytest.mark.parametrize("point", IN_TRANSACTION)
@pytest.mark.parametrize("place", SQL, indirect=True)
async def test_a_worker_killed_around_its_transaction_leaves_exactly_one_effect(
    broker, nest, place, tmp_path, point, threads
):
    async with applied(broker, FILE) as rig:
        settings = settings_for(rig, tmp_path, place, transact=True, threads=threads, lease=0.5)
        calls, end = IN_TRANSACTION[point]
        assert await crash_and_go_on(nest, rig, settings, point, end) == calls
        assert list(place.effects().values()) == [1]
        assert place.claims() == Counter(done=1)


@pytest.mark.parametrize("point", WITHOUT)
@pytest.mark.parametrize("place", STORES, indirect=True)
async def test_without_a_transaction_only_a_worker_killed_between_effect_and_end_doubles_it(
    broker, nest, place, tmp_path, point
):
    async with applied(broker, FILE) as rig:
        settings = settings_for(rig, tmp_path, place, lease=0.5)
        calls, end = WITHOUT[point]
        assert await crash_and_go_on(nest, rig, settings, point, end) == calls
        assert list(Effects(Path(settings.effects)).count("effect").values()) == [calls]
        assert place.claims() == Counter(done=1)


@KINDS
@pytest.mark.parametrize(
    ("place", "transact"),
    [
        pytest.param("sqlite", True, id="sqlite-transaction"),
        pytest.param("sqlite", False, id="sqlite"),
        pytest.param("postgresql", True, id="transaction-postgresql-server"),
        pytest.param("redis", False, id="redis-server"),
    ],
    indirect=["place"],
)
async def test_a_worker_that_sleeps_through_its_lease_is_overtaken_and_says_so(
    broker, nest, place, tmp_path, transact, threads
):
    async with applied(broker, FILE) as rig, AsyncExitStack() as stack:
        # a prefetch of one: the broker gives the frozen worker nothing more to keep
        settings = settings_for(rig, tmp_path, place, transact=transact, lease=0.5, prefetch=1)
        crew = Processes(settings, nest, stack)
        effects = crew.effects
        await crew.hire(threads=threads)
        message_id = await rig.publish(seconds=1.0)
        await until(lambda: effects.count("begun")[message_id], "the first has begun")
        crew.freeze(threads=threads)
        await rig.publisher.publish(Note(), message_id=message_id)
        await crew.hire(threads=not threads)
        await until(lambda: effects.count("handled")[message_id], "another has handled it")
        crew.thaw(threads=threads)
        if transact:
            await until(lambda: effects.count("duplicate")[message_id], "its copy is known as a duplicate")
        else:
            await until(lambda: effects.count("handled")[message_id] == 2, "both have handled it")
        await crew.retire()
        assert await rig.ledger() == {}
        assert place.claims() == Counter(done=1)
        if transact:
            assert place.effects() == Counter([message_id])
        else:
            assert effects.count("effect")[message_id] == 2
            assert effects.count("lost")[message_id] >= 1
