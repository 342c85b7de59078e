"""The tests of the walk can fail: each bug planted in its source makes the crash test red."""

import types
from collections.abc import Callable
from pathlib import Path

import pytest

import amqpkit.deliver.walk as sound
from tests.walk.test_crashes import DRIVERS, check_a_crash_before_every_effect, fails, gives_up, run_blocking
from tests.walk.world import Got, World

BUGS = {
    "acks before the copy is confirmed": (
        "    yield Publish(work.retry_exchange,",
        "    yield Ack()\n    yield Publish(work.retry_exchange,",
    ),
    "acks a dead letter before it is placed": (
        "    yield Publish(work.dead_exchange,",
        "    yield Ack()\n    yield Publish(work.dead_exchange,",
    ),
    "does not count the attempt": (
        'trouble, attempt = _trouble(case, judged, "failed"), case.past.attempt + 1',
        'trouble, attempt = _trouble(case, judged, "failed"), case.past.attempt',
    ),
    "acks a failure without a copy": (
        "case Retry() | Snooze():\n            return (yield from _delay(case, judged, judgement))",
        "case Retry() | Snooze():\n            return case.end(Outcome.RETRIED)",
    ),
    "completes the claim of a retry": (
        "    yield from _release(case)\n    return case.end(outcome,",
        '    yield Complete(case.key or "")\n    return case.end(outcome,',
    ),
    "forgets crashes": (
        "if (dead := crashed(past, work.delivery_limit)) is not None:",
        "if (dead := crashed(past, 10**9)) is not None:",
    ),
    "leaves without an end": ("    yield Refuse() if end.outcome is Outcome.REFUSED else Ack()\n", ""),
}


def mutant(find: str, put: str) -> types.ModuleType:
    source = Path(sound.__file__).read_text()
    assert source.count(find) == 1, "the planted bug no longer fits the source"
    module = types.ModuleType("mutant")
    module.__dict__["__name__"] = "amqpkit.deliver.mutant"
    import sys

    sys.modules["amqpkit.deliver.mutant"] = module
    try:
        exec(compile(source.replace(find, put), sound.__file__, "exec"), module.__dict__)  # noqa: S102 - our own source
    finally:
        del sys.modules["amqpkit.deliver.mutant"]
    return module


def check_everything(walk: Callable[..., object]) -> None:
    for handler in (fails(0), fails(2), fails(10**6), gives_up):
        check_a_crash_before_every_effect(handler, run_blocking, walk=walk)
    world = World(lambda _call: None, ready=[Got()], walk=walk)
    for _ in range(4):
        for steps in world.deliveries(bound=100):
            next(steps)
            world.came_back()
            break
    assert world.deaths <= 4
    run_blocking(world)
    assert [m.properties.headers["amqpkit-fate"] for m in world.dead] == ["crashed"]


def test_the_sound_walk_passes() -> None:
    check_everything(sound.walk)


@pytest.mark.parametrize(("find", "put"), BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(find: str, put: str) -> None:
    with pytest.raises(AssertionError):
        check_everything(mutant(find, put).walk)


assert DRIVERS
