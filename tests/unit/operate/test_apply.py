"""Applying on the broker in memory, and on one that fails on the way."""

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.extras import FENCE
from amqpkit.declare.plan.planning import Wishes
from amqpkit.errors import AccessRefused, ConnectionFailed, Refused
from amqpkit.model import Binding, Exchange, Holding, Message, Policy, Properties, Queue, Surroundings, Topology
from amqpkit.operate.apply import ApplyFailed, Conflicts, apply, perform, prepare
from amqpkit.operate.prune import Pruning


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
    assert [judged.address(change) for change in error.missing] == [
        "binding x -a.#-> queue a",
        "binding x -b.#-> queue b",
    ]
    assert "applied 3 of 6 changes" in str(error)
    assert "not done: binding x -a.#-> queue a" in str(error)

    again = await apply(TOPOLOGY, admin)

    assert (len(again.created), again.unchanged) == (3, 3)


async def test_when_the_lock_is_lost_nothing_more_is_begun(admin):
    done = []

    def trouble():
        return ConnectionFailed("the lock is lost") if len(done) >= 2 else None

    plan = await prepare(TOPOLOGY, admin)
    with pytest.raises(ApplyFailed) as caught:
        await perform(plan, TOPOLOGY, admin, on_step=done.append, trouble=trouble)

    assert len(caught.value.report.created) == 2
    assert len(caught.value.failures) + len(caught.value.missing) == 4
    assert "the lock is lost" in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (ConnectionFailed("gone"), "applying again does the rest"),
        (AccessRefused("queue b: no"), "remove the cause, then apply again"),
        (Refused(object="queue b", reason="PRECONDITION_FAILED"), "remove the cause, then apply again"),
    ],
)
async def test_what_will_be_refused_again_is_not_promised_to_a_second_run(admin, failure, advice):
    with pytest.raises(ApplyFailed) as caught:
        await apply(TOPOLOGY, Faulty(admin, {"b": failure}))

    assert str(caught.value).splitlines()[0] == f"applied 3 of 6 changes, then stopped; {advice}"


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


async def test_a_policy_of_somebody_else_that_wins_blocks(admin):
    await admin.create(Policy("theirs", ".*", {"max-length": 1}, apply_to="queues", priority=900))
    before = await admin.read()

    with pytest.raises(Conflicts, match=r"^policy theirs: it is in no file, has priority 900") as caught:
        await apply(TOPOLOGY, admin)
    assert caught.value.refusals[0].object == "policy theirs"
    assert str(caught.value).count("theirs") == 2  # the other one is in the remedy
    assert await admin.read() == before

    report = await apply(TOPOLOGY, admin, wishes=Wishes(accepted=frozenset({"theirs"})))
    assert report.warnings == ('policy "theirs" (priority 900) wins over "p" (100): a',)


class Surveyed(Faulty):
    """An Admin in surroundings of our making."""

    def __init__(self, inner, surroundings):
        super().__init__(inner, {})
        self.around = surroundings

    async def surroundings(self):
        return self.around

    async def holdings(self, queues):
        return await self.inner.holdings(queues)


async def test_an_operator_policy_blocks_where_the_admin_can_read_them(admin):
    cap = Policy("cap", "^a$", {"max-length": 2}, apply_to="queues", priority=0)

    with pytest.raises(Conflicts, match=r"operator-policy cap: it rules over queues of this file \(max-length\): a"):
        await apply(TOPOLOGY, Surveyed(admin, Surroundings(operator_policies=(cap,))))


async def test_a_user_who_may_make_no_policies_is_told_before_anything_is_changed(admin):
    limited = Surveyed(admin, Surroundings(user="ann", tags=frozenset({"management"})))

    with pytest.raises(AccessRefused, match=r'policy p: user "ann" needs the tag policymaker .*nothing was changed'):
        await apply(TOPOLOGY, limited)
    assert (await admin.read()).queues == ()

    await apply(TOPOLOGY, Surveyed(admin, Surroundings(user="bo", tags=frozenset({"policymaker"}))))
    await apply(TOPOLOGY, limited)


async def test_a_lossy_update_is_done_in_two_steps(admin):
    classic = Topology(queues=(Queue("c", type="classic"),))
    await apply(classic, admin)
    for number in range(10):
        await publish(admin, "c", str(number))
    policy = Policy("p", "^c$", {"max-length": 3, "overflow": "reject-publish"}, apply_to="queues")

    await apply(Topology(queues=classic.queues, policies=(policy,)), admin)

    assert (await admin.holdings(["c"]))["c"] == Holding(10, 0)


async def test_without_prune_nothing_is_ever_deleted(admin):
    await apply(TOPOLOGY, admin)

    await apply(Topology(queues=(queue("a"),), policies=TOPOLOGY.policies, owns=("a", "b", "x")), admin)

    assert len((await admin.read()).queues) == 2


class Time:
    """Passes at once, and lets something happen meanwhile."""

    def __init__(self, meanwhile=None):
        self.slept, self.meanwhile = [], meanwhile

    async def __call__(self, seconds):
        self.slept.append(seconds)
        if self.meanwhile:
            await self.meanwhile()


async def publish(admin, queue, message_id="m"):
    transport = MemoryTransport(admin._broker)
    await transport.open()
    try:
        await transport.publish("", queue, Message(b"{}", Properties(message_id=message_id)))
    finally:
        await transport.close()


OWNED = Topology(queues=(queue("a"),), owns=("a",))
PRUNE = Wishes(prune=True)


async def prune(admin, meanwhile=None, topology=OWNED):
    time = Time(meanwhile)
    report = await apply(topology, admin, wishes=PRUNE, pruning=Pruning(admin, sleep=time))
    return report, time


@pytest.fixture
async def old(admin):
    for each in (Exchange("a.x"), queue("a"), queue("a.old"), Binding("a.x", "a.old"), queue("other")):
        await admin.create(each)
    return admin


async def test_prune_deletes_what_is_owned_and_in_no_file_after_two_looks(old):
    report, time = await prune(old)

    assert [getattr(each, "name", "binding") for each in report.deleted] == ["binding", "a.old", "a.x"]
    assert time.slept == [10.0, 1.0]
    left = await old.read()
    assert ([each.name for each in left.queues], left.exchanges, left.policies) == (["a", "other"], (), ())


async def test_prune_keeps_a_queue_with_messages_and_says_so(old):
    await publish(old, "a.old")

    report, time = await prune(old)

    assert [(each.address, each.reason) for each in report.kept] == [("queue a.old", "it holds 1 message")]
    assert time.slept == []
    assert "a.old" in {each.name for each in (await old.read()).queues}


async def test_a_message_that_comes_while_we_look_is_refused_or_keeps_the_queue(old):
    async def meanwhile():
        await publish(old, "a.old", "late")

    with pytest.raises(ApplyFailed, match=r"queue a\.old: it holds 1 message: it stays") as caught:
        await prune(old, meanwhile)

    assert caught.value.touched
    left = await old.read()
    assert "a.old" in {each.name for each in left.queues}
    assert (await old.holdings(["a.old"]))["a.old"].messages == 1
    assert left.policies == ()


async def test_somebody_who_begins_to_dead_letter_to_it_keeps_the_queue(old):
    async def meanwhile():
        await old.create(queue("other2", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a.old"}))

    with pytest.raises(ApplyFailed, match="queue other2 dead-letters to it: it stays"):
        await prune(old, meanwhile)


async def test_a_fence_stands_while_we_look_and_never_after(old):
    seen = []

    async def meanwhile():
        seen.extend((await old.read()).policies)

    await prune(old, meanwhile)

    (fence,) = seen
    assert (fence.name, fence.pattern, fence.priority) == (f"{FENCE}a.old", r"^a\.old$", 999)
    assert dict(fence.definition) == {"max-length": 0, "overflow": "reject-publish"}
    assert (await old.read()).policies == ()


async def test_queues_are_not_deleted_without_eyes_on_amqp(old):
    with pytest.raises(ApplyFailed, match="give `pruning`"):
        await apply(OWNED, old, wishes=PRUNE)


async def test_a_fence_of_an_interrupted_prune_is_taken_away(old):
    await old.create(Policy(f"{FENCE}a", "^a$", {"max-length": 0, "overflow": "reject-publish"}, priority=999))

    report = await apply(OWNED, old)

    assert [each.name for each in report.deleted] == [f"{FENCE}a"]
