"""Applying on the broker in memory, and on one that fails on the way."""

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.errors import AccessRefused, ConnectionFailed, Refused
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology
from amqpkit.operate.apply import ApplyFailed, Conflicts, apply


def queue(name, **arguments):
    return Queue(name, arguments={"x-queue-type": "quorum", **arguments})


TOPOLOGY = Topology(
    exchanges=(Exchange("x", type="topic"),),
    queues=(queue("a"), queue("b")),
    bindings=(Binding("x", "a", "a.#"), Binding("x", "b", "b.#")),
    policies=(Policy("p", "^a$", {"max-length": 5}),),
)


@pytest.fixture
def admin():
    return MemoryAdmin(MemoryBroker(VirtualClock()))


class Faulty:
    """An Admin that does what it is told to instead of creating some objects."""

    def __init__(self, inner, faults):
        self.inner, self.faults = inner, faults

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def create(self, wanted):
        fault = self.faults.get(getattr(wanted, "name", "binding"))
        if isinstance(fault, Exception):
            raise fault
        if fault != "nothing":
            await self.inner.create(wanted)


async def test_everything_is_created_once(admin):
    steps = []

    first = await apply(TOPOLOGY, admin, on_step=steps.append)
    second = await apply(TOPOLOGY, admin)

    assert (len(first.created), first.updated, first.unchanged) == (6, (), 0)
    assert [step.wanted for step in steps] == list(first.created)
    assert (second.created, second.updated, second.unchanged) == ((), (), 6)


async def test_a_policy_is_changed_in_place(admin):
    await apply(TOPOLOGY, admin)
    changed = Policy("p", "^a$", {"max-length": 6})

    report = await apply(Topology(policies=(changed,)), admin)

    assert (report.created, report.updated) == ((), (changed,))
    assert (await admin.read()).policies == (changed,)


async def test_all_conflicts_are_told_and_nothing_is_touched(admin):
    await apply(TOPOLOGY, admin)
    before = await admin.read()
    wanted = Topology(
        exchanges=(Exchange("x"), Exchange("new")),
        queues=(queue("a", **{"x-message-ttl": 5}),),
        policies=(Policy("p", "^a$", {"max-length": 7}),),
    )

    with pytest.raises(Conflicts) as caught:
        await apply(wanted, admin)

    assert isinstance(caught.value, Refused)
    assert [(each.object, each.argument) for each in caught.value.refusals] == [
        ("exchange x", "type"),
        ("queue a", "x-message-ttl"),
    ]
    assert caught.value.argument == "type"
    assert len(str(caught.value).splitlines()) == 2
    assert await admin.read() == before


async def test_a_failure_on_the_way_says_what_is_done_and_a_second_run_does_the_rest(admin):
    faulty = Faulty(admin, {"b": ConnectionFailed("gone")})

    with pytest.raises(ApplyFailed) as caught:
        await apply(TOPOLOGY, faulty)

    error = caught.value
    assert error.touched
    assert [each.name for each in error.report.created] == ["x", "p", "a"]
    assert error.reasons == ("queue b: gone",)
    assert [step.address for step in error.missing] == ["binding x -a.#-> queue a", "binding x -b.#-> queue b"]
    assert "applied 3 of 6 changes" in str(error)
    assert "not done: binding x -a.#-> queue a" in str(error)

    again = await apply(TOPOLOGY, admin)

    assert (len(again.created), again.unchanged) == (3, 3)


async def test_a_refusal_at_the_first_object_touches_nothing(admin):
    faulty = Faulty(admin, {"x": AccessRefused("exchange x: no")})

    with pytest.raises(ApplyFailed) as caught:
        await apply(TOPOLOGY, faulty)

    assert not caught.value.touched
    assert caught.value.reasons == ("exchange x: no",)


async def test_a_change_without_effect_is_an_error(admin):
    with pytest.raises(ApplyFailed) as caught:
        await apply(TOPOLOGY, Faulty(admin, {"p": "nothing"}))

    assert caught.value.reasons == ("policy p: it is not there, though the broker accepted it",)

    with pytest.raises(ApplyFailed) as caught:
        await apply(Topology(policies=(Policy("q", "^a$", {"max-length": 1}),)), Faulty(admin, {"q": "nothing"}))
    assert "policy q" in str(caught.value)


async def test_an_overwritten_policy_without_effect_is_an_error(admin):
    await apply(TOPOLOGY, admin)
    changed = Topology(policies=(Policy("p", "^a$", {"max-length": 9}),))

    with pytest.raises(ApplyFailed, match="policy p: the change had no effect"):
        await apply(changed, Faulty(admin, {"p": "nothing"}))


async def test_what_is_no_failure_of_the_brokers_comes_out_as_it_is(admin):
    with pytest.raises(NotImplementedError):
        await apply(TOPOLOGY, Faulty(admin, {"b": NotImplementedError("not modelled")}))


async def test_a_result_that_cannot_be_read_back_is_no_success(admin):
    class Blinded(Faulty):
        reads = 0

        async def read(self):
            self.reads += 1
            if self.reads > 1:
                raise ConnectionFailed("gone")
            return await self.inner.read()

    with pytest.raises(ApplyFailed) as caught:
        await apply(TOPOLOGY, Blinded(admin, {}))

    assert caught.value.touched
    assert caught.value.reasons == ("the result could not be read back: gone",)
    assert len(caught.value.report.created) == 6


async def test_a_policy_of_somebody_else_that_wins_is_a_warning(admin):
    await admin.create(Policy("theirs", ".*", {"max-length": 1}, apply_to="queues", priority=900))

    report = await apply(TOPOLOGY, admin)

    assert report.warnings == ('policy "theirs" (priority 900) wins over "p" (100): a',)


async def test_an_operator_policy_is_a_warning_where_the_admin_can_read_them(admin):
    class Operated(Faulty):
        async def operator_policies(self):
            return (Policy("cap", "^a$", {"max-length": 2}, apply_to="queues", priority=0),)

    report = await apply(TOPOLOGY, Operated(admin, {}))

    assert report.warnings == ('operator policy "cap" also rules (max-length): a',)


async def test_nothing_is_ever_deleted(admin):
    await apply(TOPOLOGY, admin)

    await apply(Topology(queues=(queue("a"),)), admin)

    assert len((await admin.read()).queues) == 2
