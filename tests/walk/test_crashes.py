"""A worker that dies before any effect loses nothing, and repeats no more than the known windows allow."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amqpkit import DeadLetter, Discard, RetryAfter
from amqpkit.deliver.drive import drive, drive_blocking
from amqpkit.deliver.effects import Raised, Returned
from tests.walk.world import Died, Got, World


def fails(times: int) -> Callable[[int], object]:
    def handler(call: int) -> object:
        if call <= times:
            msg = "the provider is down"
            raise ConnectionError(msg)
        return None

    return handler


def gives_up(_call: int) -> object:
    return DeadLetter("no such customer")


def discards(_call: int) -> object:
    return Discard("not ours")


def comes_back(call: int) -> object:
    return RetryAfter(30, "busy") if call == 1 else None


SCENARIOS = {
    "works at once": fails(0),
    "fails once": fails(1),
    "fails twice": fails(2),
    "always fails": fails(10**6),
    "gives up": gives_up,
    "comes back": comes_back,
}
MAX_EFFECTS = 20


def run_blocking(world: World) -> None:
    for walk in world.deliveries():
        try:
            drive_blocking(walk, world)
        except Died:
            world.came_back()


def run_async(world: World) -> None:
    class Hands:
        async def perform(self, effect: Any) -> object:
            await asyncio.sleep(0)
            return world.perform(effect)

    async def main() -> None:
        for walk in world.deliveries():
            try:
                await drive(walk, Hands())
            except Died:
                world.came_back()

    asyncio.run(main())


DRIVERS = {"blocking": run_blocking, "async": run_async}


def check_a_crash_before_every_effect(
    handler: Callable[[int], object], run: Callable[[World], None], **parts: Any
) -> None:
    """The invariant that the planted bugs must break."""
    for n in range(MAX_EFFECTS):
        world = World(handler, die_before=n, ready=[Got()], **parts)
        run(world)
        world.check_nothing_lost({"o-1"})
        # one crash makes at most one more effect and one more copy
        assert world.handled["o-1"] <= 1 + world.deaths
        assert len(world.dead) <= 1 + world.deaths
        assert len(world.delays) <= 3 + world.deaths


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
@pytest.mark.parametrize("handler", SCENARIOS.values(), ids=SCENARIOS)
def test_a_crash_before_any_effect_loses_nothing(
    handler: Callable[[int], object], driver: Callable[[World], None]
) -> None:
    check_a_crash_before_every_effect(handler, driver)


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_a_message_that_always_kills_its_worker_is_dead_after_the_delivery_limit(
    driver: Callable[[World], None],
) -> None:
    class Deadly(World):
        def _call(self, payload: Any) -> Returned | Raised:  # death inside the handler, not a failure of it
            raise Died

    world = Deadly(fails(0), ready=[Got()])
    driver(world)

    assert world.deaths == 3
    assert [m.properties.headers["amqpkit-fate"] for m in world.dead] == ["crashed"]
    assert world.dead[0].body == Got().body


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_without_a_crash_everything_happens_once(driver: Callable[[World], None]) -> None:
    world = World(fails(2), ready=[Got()])
    driver(world)

    assert world.handled == {"o-1": 1}
    assert world.delays == ["10s", "60s"]
    assert (world.acked, world.dead, world.done) == (3, [], {"orders:m-1"})
