"""A message that kills its worker is taken out of the way, whatever store remembers its claim."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from amqpkit.ports import Claimed, Hold
from tests.broker.life.rig import Rig, applied, by_queue, until
from tests.broker.once.crew import FILE, STORES, Effects, settings_for

LIMIT = 3


async def is_dead(rig: Rig) -> bool:
    return await rig.ready("work.dlq") > 0


@pytest.mark.parametrize("place", [pytest.param("memory", id="memory"), *STORES], indirect=True)
async def test_a_message_that_kills_its_worker_is_dead_after_delivery_limit_plus_one_deliveries_at_most(
    broker, nest, place, tmp_path
):
    """What a `MemoryStore` knows dies with the worker; the other stores make its message wait for the lease."""
    text = FILE.replace("accepts:", f"delivery-limit: {LIMIT}\n    accepts:")
    async with applied(broker, text) as rig:
        settings = settings_for(rig, tmp_path, place, prefetch=1, lease=0.8)
        effects = Effects(Path(settings.effects))
        poison = await rig.publish(deadly=True)
        healthy = await rig.publish()
        deaths = 0
        while not await is_dead(rig):
            async with nest.started(settings) as process:
                died = await process.dies_unless(lambda: is_dead(rig))
                deaths += died
                assert died or await process.terminate() == 0
            assert deaths <= LIMIT + 1
        async with nest.started(replace(settings, threads=True)) as process:
            await until(lambda: effects.count("handled")[healthy], "the message behind it is handled")
            assert await process.terminate() == 0

        letters = await rig.take()
        assert by_queue(letters) == {"work.dlq": Counter([poison])}
        assert letters[0].fate == "crashed"
        assert effects.count("begun")[poison] == deaths <= LIMIT + 1
        assert effects.count("effect") == effects.count("handled") == Counter([healthy])

        store = place.open()

        async def is_free() -> bool:
            return await store.claim(f"work:{poison}", owner="a replay", lease=1) == Claimed(Hold.CLAIMED)

        await until(is_free, "the last claim of the dead runs out, so that a replay is handled")
        await store.close()
