"""A prune that is stopped on the way: what went is told as gone, and every fence that can be is taken away."""

from dataclasses import replace

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.declare.plan.extras import FENCE
from amqpkit.declare.plan.planning import Wishes
from amqpkit.declare.policies import reaches
from amqpkit.errors import AccessRefused, ConnectionFailed
from amqpkit.model import Queue, Topology
from amqpkit.operate.apply import ApplyFailed, apply
from amqpkit.operate.prune import Pruning, prune_queues

NAMES = ("a.1", "a.2", "a.3")
OWNED = Topology(owns=("a",))


class Failing:
    """Somebody's hands or eyes, with one verb that fails for some names."""

    def __init__(self, inner, verb, faults):
        self.inner, self.verb, self.faults = inner, verb, faults

    def __getattr__(self, name):
        async def fail(subject, **options):
            if fault := self.faults.get(subject.name):
                raise fault
            return await getattr(self.inner, name)(subject, **options)

        return fail if name == self.verb else getattr(self.inner, name)


@pytest.fixture
async def admin():
    here = MemoryAdmin(MemoryBroker(VirtualClock()))
    for name in NAMES:
        await here.create(Queue(name, arguments={"x-queue-type": "quorum"}))
    return here


async def no_time(_seconds):
    """Pass at once."""


async def prune(admin, sentry):
    with pytest.raises(ApplyFailed) as caught:
        await apply(OWNED, admin, wishes=Wishes(prune=True), pruning=Pruning(sentry, sleep=no_time))
    there = await sentry.read()
    return caught.value, [each.name for each in there.queues], [each.name for each in there.policies]


@pytest.mark.parametrize("fault", [AccessRefused("no permission"), ConnectionFailed("gone")], ids=["refused", "lost"])
async def test_what_went_before_a_failure_is_told_as_done(admin, fault):
    error, queues, policies = await prune(admin, Failing(admin, "delete_empty", {"a.2": fault}))

    assert [each.name for each in error.report.deleted] == ["a.1", "a.3"]
    assert error.touched
    assert error.reasons == (f"queue a.2: {fault}",)
    assert (queues, policies) == (["a.2"], [])


async def test_a_fence_that_cannot_be_taken_away_is_named_and_keeps_no_other(admin):
    await admin.create(Queue("a.4", "classic", arguments={"x-queue-type": "classic"}))
    faults = {f"{FENCE}a.1": ConnectionFailed("no answer")}

    error, queues, policies = await prune(Failing(admin, "delete", faults), admin)

    assert [each.name for each in error.report.deleted] == [*NAMES, "a.4"]
    (reason,) = error.reasons
    assert reason.startswith(f"policy {FENCE}a.1: no answer")
    assert "applying again" in reason
    assert (queues, policies) == ([], [f"{FENCE}a.1"])


async def test_a_broker_that_dies_behind_the_fence_leaves_no_queue_and_no_fence_untold(admin):
    class Dying(Failing):
        async def read(self):
            if any(each.name.startswith(FENCE) for each in (await self.inner.read()).policies):
                raise ConnectionFailed("dead")
            return await self.inner.read()

    error, queues, policies = await prune(Dying(admin, "delete", {f"{FENCE}a.1": ConnectionFailed("dead")}), admin)

    assert error.report.deleted == ()
    assert error.touched
    assert error.reasons[:3] == tuple(f"queue {name}: dead" for name in NAMES)
    assert [reason.split(":")[0] for reason in error.reasons[3:]] == [f"policy {FENCE}a.1"]
    assert (queues, policies) == (list(NAMES), [f"{FENCE}a.1"])

    await apply(OWNED, admin, wishes=Wishes(prune=True), pruning=Pruning(admin, sleep=no_time))
    there = await admin.read()
    assert (there.queues, there.policies) == ((), ())


async def test_many_queues_share_a_fence_and_each_is_behind_one(admin):
    """RabbitMQ looks at every queue for each policy that changes, and takes patterns of 1,024 bytes (measured)."""
    every = [Queue(f"a.{'long' * 20}.{number}", kind) for number in range(30) for kind in ("quorum", "classic")]
    every = [replace(each, name=f"{each.name}.{each.type}+") for each in every]
    seen = []

    async def look(_seconds):
        seen[:] = [each for each in (await admin.read()).policies if each.name.startswith(FENCE)]

    for each in every:
        await admin.create(each)
    gone, staying = await prune_queues(every, admin, Pruning(admin, sleep=look))

    assert (len(gone), staying) == (60, [])
    assert 2 < len(seen) < 10
    assert all(len(each.pattern.encode()) <= 1024 for each in seen)
    assert {each.apply_to for each in seen} == {"classic_queues", "quorum_queues"}
    for queue in every:
        assert len([each for each in seen if reaches(each, queue)]) == 1
    assert not [each for each in seen if reaches(each, Queue(f"{every[0].name}x"))]
