"""The tests of the walk can fail: each bug planted in its source makes the crash test red."""

import re
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import amqpkit.deliver.copies as sound_copies
import amqpkit.deliver.walk as sound
from amqpkit import DeadLetter, RetryAfter
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import Moment
from amqpkit.deliver.retry import put_off
from amqpkit.events import Outcome
from tests.walk.test_crashes import check_a_crash_before_every_effect, fails, gives_up, run_blocking
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
    "releases what another holds": (
        "return Judged(_wait_for_lease(case, claimed), case.begun)",
        "return Judged(_wait_for_lease(case, claimed), case.begun, case.key)",
    ),
    "keeps the claim of a dead letter": (
        "    yield from _release(judged.claim)\n    return case.end(Outcome.DEAD,",
        "    return case.end(Outcome.DEAD,",
    ),
    "forgets to complete": ("                yield Complete(judged.claim, result)\n", "                pass\n"),
    "acks work that never ran": ("case _ if _is_no_result(said):", "case _ if False:"),
    "puts off for ever": (
        "put_off_within_bound(work.snoozes, instant_of",
        "put_off_unbounded(work.snoozes, instant_of",
    ),
    "leaves without an end": ("    yield Refuse() if end.outcome is Outcome.REFUSED else Ack()\n", ""),
}


def mutant(find: str, put: str) -> types.ModuleType:
    sources = [Path(each.__file__).read_text() for each in (sound_copies, sound)]
    # the walk and what it writes onto copies, as one module
    source = "\n".join(
        re.sub(r"^from amqpkit.deliver.copies import .*$", "", text, flags=re.MULTILINE) for text in sources
    )
    assert source.count(find) == 1, "the planted bug no longer fits the source"
    module = types.ModuleType("mutant")
    module.__dict__["__name__"] = "amqpkit.deliver.mutant"
    module.__dict__["put_off_unbounded"] = lambda delays, until, now, _past, *, reason, **_: put_off(
        delays, until, now, reason
    )
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
    check_claims(walk)
    check_verdicts(walk)


def check_claims(walk: Callable[..., object]) -> None:
    """One of two copies works, the other waits and leaves its claim alone; no end but a good one keeps it."""
    world = World(lambda _call: None, ready=[Got(), Got()], walk=walk)
    first, second = [world.walk(got, world.terms, Moment(world.now)) for got in world.ready]
    first.send(world.perform(next(first)))
    world.unacked = world.ready.pop()
    assert drive_blocking(second, world).outcome is Outcome.SNOOZED
    assert set(world.leases) == {"orders:m-1"}
    for says, done in ((None, {"orders:m-1"}), (DeadLetter("gone"), set())):
        world = World(lambda _call, says=says: says, ready=[Got()], walk=walk)  # type: ignore[misc]
        run_blocking(world)
        assert (world.done, world.leases) == (done, {})


def check_verdicts(walk: Callable[..., object]) -> None:
    """What is no result is not acked away, and RetryAfter ends."""
    for says in (DeadLetter, RetryAfter(3600)):
        world = World(lambda _call, says=says: says, ready=[Got()], walk=walk)  # type: ignore[misc]
        run_blocking(world)
        assert [m.properties.headers["amqpkit-fate"] for m in world.dead] == ["exhausted"]


def test_the_sound_walk_passes() -> None:
    check_everything(sound.walk)


@pytest.mark.parametrize(("find", "put"), BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(find: str, put: str) -> None:
    with pytest.raises(AssertionError):
        check_everything(mutant(find, put).walk)
