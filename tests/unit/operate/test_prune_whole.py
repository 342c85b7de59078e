"""A work queue of no file goes whole or not at all, whenever somebody begins to use one of its queues."""

import asyncio
from dataclasses import replace

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.identity import address
from amqpkit.declare.plan.planning import Wishes
from amqpkit.declare.plan.vanished import vanished
from amqpkit.declare.spec.parsing import parse
from amqpkit.errors import BrokerError, ConnectionFailed, PublishError
from amqpkit.model import Binding, Exchange, Message, Properties, Queue, Topology
from amqpkit.operate.apply import ApplyFailed, apply, perform, prepare
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey

BEFORE = """
version: 1
owns: [q, x, p]
exchanges:
  x: {type: direct}
  kept: {type: direct}
queues:
  p: {type: quorum, bindings: [{source: x, routing_key: p}]}
work_queues:
  q:
    bindings: [{source: x, routing_key: k}, {source: kept, routing_key: k}]
    retry: {delays: [30s, 60s]}
"""
AFTER = """
version: 1
owns: [q, x, p]
exchanges:
  kept: {type: direct}
"""
PRUNE = Wishes(prune=True)
STEPS = 17
"""Deletions: of the work queue, of a plain queue and its binding, of an exchange."""
QUEUES = ("q", "q.retry.30s", "q.retry.1m", "q.dlq")


def compiled(text):
    return compile_topology(parse([("test.yaml", text)], {}))


def objects(there: Topology):
    return {address(each) for each in (*there.queues, *there.exchanges, *there.bindings, *there.policies)}


async def at_once(_seconds):
    """Let no time pass."""


async def send(broker, queue):
    transport = MemoryTransport(broker)
    await transport.open()
    try:
        await transport.publish("", queue, Message(b"{}", Properties(message_id="m")))
    except PublishError:
        return False
    finally:
        await transport.close()
    return True


class Late:
    """The hands and eyes of a prune, whose statistics know of nothing, and a moment at which something happens."""

    def __init__(self, admin, moment=0, happens=None):
        self.admin, self.moment, self.happens, self.calls, self.verbs = admin, moment, happens, 0, []

    def __getattr__(self, name):
        verb = getattr(self.admin, name)  # it has no more of them than the other

        async def call(*args, **options):
            self.calls += 1
            self.verbs.append((name, *args))
            if self.calls == self.moment:
                await self.happens()
            return {} if name == "holdings" else await verb(*args, **options)

        return call

    async def surroundings(self):
        return await self.admin.surroundings()

    async def holdings(self, queues):
        return await self.__getattr__("holdings")(queues)


async def made():
    broker = MemoryBroker(VirtualClock())
    admin = MemoryAdmin(broker)
    await apply(compiled(BEFORE), admin)
    return broker, admin


async def pruned(admin, late):
    plan, _ = await survey(compiled(AFTER), Late(admin), PRUNE)
    assert len([each for each in plan.steps if isinstance(each.unwanted, Queue)]) == 5
    try:
        await perform(plan, compiled(AFTER), late, wishes=PRUNE, pruning=Pruning(late, sleep=at_once))
    except ApplyFailed as error:
        return error
    return None


async def the_parts(admin):
    return {each for each in objects(await admin.read()) if "exchange x" not in each and "queue p" not in each}


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_message_that_comes_at_any_moment_is_kept_with_the_whole_work_queue(queue):
    moment, kept, refused = 0, 0, 0
    while True:
        moment += 1
        broker, admin = await made()
        before = await the_parts(admin)
        confirmed = []

        async def come(broker=broker, confirmed=confirmed):
            confirmed.append(await send(broker, queue))

        late = Late(admin, moment, come)
        error = await pruned(admin, late)
        if not confirmed:
            break
        there = await admin.read()
        after = await the_parts(admin)
        if confirmed == [False]:
            assert queue not in {each.name for each in there.queues}
            refused += 1
            continue
        assert (await admin.holdings([queue]))[queue].messages == 1
        assert isinstance(error, ApplyFailed)
        if queue == "q" or "queue q" in after:
            assert after == before
            told = [
                *error.report.deleted,
                *(each.unwanted for each in error.missing),
                *(each for each, _ in error.failures),
            ]
            assert len(told) == len({address(each) for each in told}) == STEPS
            assert [reason for reason in error.reasons if reason.startswith("queue q: ")] == list(error.reasons)
            kept += 1
    assert kept > 10
    assert refused


async def test_the_queues_go_in_the_order_that_leaves_no_message_without_its_way_on():
    _, admin = await made()
    late = Late(admin)

    assert await pruned(admin, late) is None

    deleted = [args[0].name for name, *args in late.verbs if name == "delete_empty"]
    assert deleted == ["p", "q", "q.retry.1m", "q.retry.30s", "q.dlq"]
    others = [address(args[0]) for name, *args in late.verbs if name == "delete" and "fence" not in address(args[0])]
    assert set(others[:3]) == {"binding kept -k-> queue q", "binding x -k-> queue q", "binding x -p-> queue p"}
    assert others[-5:] == [
        "exchange q.dlx",
        "exchange q.retry",
        "exchange x",
        "policy amqpkit.q",
        "policy amqpkit.q.parts",
    ]
    assert objects(await admin.read()) == {"exchange kept"}


async def test_killed_between_any_two_deletions_no_queue_stands_without_what_its_messages_need():
    """And the next prune takes what is left."""
    _, admin = await made()
    whole = await the_parts(admin)
    late = Late(admin)
    await pruned(admin, late)

    for moment in range(1, late.calls + 1):
        _, admin = await made()

        async def die():
            raise Killed

        killed = Late(admin, moment, die)
        with pytest.raises((Killed, BaseExceptionGroup)):
            await pruned_by_a_process_that_dies(admin, killed)
        there = await the_parts(admin)
        if "queue q" in there:
            missing = {each for each in whole - there if "-k-> queue q" not in each}
            assert missing == set()
        await apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))
        assert objects(await admin.read()) == {"exchange kept"}


async def pruned_by_a_process_that_dies(admin, late):
    plan, _ = await survey(compiled(AFTER), Late(admin), PRUNE)
    hands = Dying(late)
    await perform(plan, compiled(AFTER), hands, wishes=PRUNE, pruning=Pruning(hands, sleep=at_once))


class Killed(BaseException):
    """The process is no more."""


class Dying:
    """Does nothing more once it was killed."""

    def __init__(self, late):
        self.late, self.dead = late, False

    def __getattr__(self, name):
        verb = getattr(self.late, name)

        async def call(*args, **options):
            if self.dead:
                raise Killed
            try:
                return await verb(*args, **options)
            except Killed:
                self.dead = True
                raise

        return call


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_message_that_is_counted_already_keeps_the_whole_work_queue_in_one_line(queue):
    broker, admin = await made()
    before = await the_parts(admin)
    assert await send(broker, queue)

    report = await apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))

    assert await the_parts(admin) == before
    lines = {each.address: each.reason for each in report.kept}
    named = "" if queue == "q" else f"queue {queue}: "
    assert lines["queue q"] == f"{named}it holds 1 message; a work queue stays whole"
    assert set(lines) == {"queue q", "exchange x"}  # which feeds it
    assert {address(each) for each in report.deleted} == {"binding x -p-> queue p", "queue p"}
    plan = await prepare(compiled(AFTER), admin, PRUNE)
    assert (plan.steps, plan.extras) == ((), ())


async def test_what_stays_and_dead_letters_to_a_part_keeps_the_whole():
    _, admin = await made()
    await admin.create(Queue("other", arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "q.retry"}))
    before = await the_parts(admin)

    report = await apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))

    assert await the_parts(admin) == before
    (line,) = (each.reason for each in report.kept if each.address == "queue q")
    assert line.startswith("exchange q.retry: queue other dead-letters or hands over to it")


async def test_a_queue_that_dead_letters_to_a_work_queue_and_stays_keeps_it():
    broker, admin = await made()
    arguments = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    await admin.create(Queue("p.first", arguments=arguments))
    before = await the_parts(admin)
    pauses = []

    async def meanwhile(_seconds):
        pauses.append(None)
        if len(pauses) == 2:
            assert await send(broker, "p.first")

    pruning = Pruning(Late(admin), sleep=meanwhile)
    with pytest.raises(ApplyFailed, match=r"queue p\.first: it holds 1 message"):
        await apply(compiled(AFTER), Late(admin), wishes=PRUNE, pruning=pruning)

    assert await the_parts(admin) == before


async def test_a_prune_that_is_cancelled_binds_a_work_queue_again():
    _, admin = await made()
    before = await the_parts(admin)
    waiting = asyncio.Event()

    async def wait(_seconds):
        waiting.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(
        apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=wait)),
    )
    await waiting.wait()
    assert await the_parts(admin) < before
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await the_parts(admin) == before


async def test_a_binding_that_cannot_be_made_again_is_told():
    broker, admin = await made()

    class Refusing(Late):
        async def create(self, wanted):
            if address(wanted) == "binding kept -k-> queue q":
                raise BrokerError("no")
            await self.admin.create(wanted)

    late = Refusing(admin, 12, lambda: send(broker, "q"))
    error = await pruned(admin, late)

    assert "binding kept -k-> queue q: no; its work queue stays, and this binding of it is gone" in error.reasons
    assert "binding kept -k-> queue q" in {address(each) for each in error.report.deleted}
    assert "binding x -k-> queue q" not in {address(each) for each in error.report.deleted}
    assert "binding x -k-> queue q" in objects(await admin.read())


async def test_what_lacks_a_part_that_every_work_queue_has_is_pruned_piece_by_piece():
    broker, admin = await made()
    (exchange,) = (each for each in compiled(BEFORE).exchanges if each.name == "q.retry")
    await admin.delete(exchange)
    assert await send(broker, "q.retry.30s")

    report = await apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))

    assert "queue q" in {address(each) for each in report.deleted}
    assert "queue q.retry.30s" in {each.address for each in report.kept}


async def test_a_part_that_the_file_declares_by_itself_is_left_alone():
    _, admin = await made()
    here = await admin.read()
    dead = next(each for each in here.queues if each.name == "q.dlq")
    wanted = compiled(AFTER)

    await apply(replace(wanted, queues=(dead,)), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))

    assert objects(await admin.read()) == {"exchange kept", "queue q.dlq"}


async def test_a_binding_from_another_exchange_to_its_own_is_part_of_it():
    broker, admin = await made()
    await admin.create(Binding("kept", "q.dlx", "dead", "exchange"))
    before = await the_parts(admin)

    late = Late(admin, 12, lambda: send(broker, "q.dlq"))
    assert await pruned(admin, late) is not None
    assert ("delete", Binding("kept", "q.dlx", "dead", "exchange")) in late.verbs
    assert await the_parts(admin) == before

    assert await send(broker, "q")
    report = await apply(compiled(AFTER), admin, wishes=PRUNE, pruning=Pruning(admin, sleep=at_once))
    (kept,) = (each for each in report.kept if each.address == "queue q")
    assert "binding kept -dead-> exchange q.dlx" in {address(each) for each in kept.parts}


async def test_nothing_is_unbound_when_nobody_can_look():
    _, admin = await made()
    before = objects(await admin.read())

    class Blind(Late):
        async def look(self, queue):
            raise ConnectionFailed("gone")

    error = await pruned(admin, Blind(admin))

    assert error.reasons == ("queue q: gone",)
    assert objects(await admin.read()) == before


async def test_who_has_lost_the_lock_does_not_bind_again_and_says_so():
    """Somebody else may be deleting the same queue now."""
    _, admin = await made()
    lost = []

    async def lose(_seconds):
        lost.append(BrokerError("the lock is lost"))
        await send(admin._broker, "q")

    plan, _ = await survey(compiled(AFTER), admin, PRUNE)
    with pytest.raises(ApplyFailed) as caught:
        await perform(
            plan,
            compiled(AFTER),
            admin,
            wishes=PRUNE,
            pruning=Pruning(admin, sleep=lose),
            trouble=lambda: lost[0] if lost else None,
        )

    left = "the lock is lost; its work queue stays, and this binding of it is gone"
    assert {f"binding {source} -k-> queue q: {left}" for source in ("kept", "x")} < set(caught.value.reasons)


def test_names_beside_those_of_a_work_queue_are_no_part_of_it():
    names = ("q", "q.dlq", "q.retry.30s", "q.retry.other", "q.retry", "q.dlq.retry.30s", "qq.dlq")
    queues = tuple(Queue(name) for name in names)
    there = Topology(queues=queues, exchanges=(Exchange("q.retry"), Exchange("q.dlx")))

    (found,) = vanished(there, (*queues, *there.exchanges))

    assert [each.name for each in found.queues] == ["q", "q.retry.30s", "q.dlq"]
