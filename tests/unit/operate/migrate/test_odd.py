"""Odd queues and odd moments, in memory."""

import asyncio

import pytest

from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.declare.migration.hazards import refusals
from amqpkit.declare.migration.request import make_migration
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.errors import Refused
from amqpkit.model import Binding, Exchange, Message, Policy, Properties, Queue, Surroundings, Topology
from amqpkit.operate.migrate.copy import moved_in
from amqpkit.operate.migrate.mover import Mover, Way
from amqpkit.operate.migrate.prepare import prepare
from amqpkit.operate.migrate.report import CannotMigrate, MigrationStopped
from amqpkit.operate.migrate.run import Tools, migrate
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from tests.unit.operate.migrate.mortal import NAME, World, classic, quorum, topology


async def a_moment(_seconds):
    for _ in range(8):
        await asyncio.sleep(0)


async def run(here, *, patience=3.0):
    transport = MemoryTransport(here.broker)
    await transport.open()
    prospect = await prepare(NAME, here.wanted, here.admin)
    tools = Tools(here.admin, Pruning(here.admin, a_moment), transport, patience=patience)
    try:
        return await migrate(prospect.migration, tools)
    finally:
        await transport.close()


class Around:
    """An Admin in surroundings of our making."""

    def __init__(self, inner, surroundings):
        self.inner, self.around = inner, surroundings

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def surroundings(self):
        return self.around

    async def holdings(self, queues):
        return await self.inner.holdings(queues)


async def refused(here, admin=None, wishes=None):
    before = await here.admin.read()
    with pytest.raises(CannotMigrate) as error:
        await prepare(NAME, here.wanted, admin or here.admin, wishes or Wishes())
    assert await here.admin.read() == before
    return str(error.value)


async def test_what_cannot_be_migrated_is_told_before_anything_is_changed():
    wanted = topology(quorum())

    here = World(classic(), wanted)
    here.broker.declare(Queue(f"{NAME}.migrating"))
    assert "queue work.migrating is there, and not of a migration" in await refused(here)

    here = World(classic(), wanted)
    here.broker.declare(Exchange(f"{NAME}.migrating", "topic"))
    assert "exchange work.migrating is there" in await refused(here)

    here = World(classic(), wanted)
    here.broker.declare(Policy("theirs", ".*", {"max-length": 5}, "queues", 100))
    assert 'policy "theirs" is in no file, has priority 100' in await refused(here)
    await prepare(NAME, wanted, here.admin, Wishes(accepted=frozenset({"theirs"})))

    here = World(classic(), wanted)
    cap = Policy("cap", ".*", {"message-ttl": 5}, "queues", 0)
    admin = Around(here.admin, Surroundings(operator_policies=(cap,)))
    wishes = Wishes(accepted=frozenset({"cap"}))
    assert "its message-ttl would cost messages there" in await refused(here, admin, wishes)
    admin = Around(here.admin, Surroundings(max_queues=2))
    assert "raise its limit max-queues" in await refused(here, admin)
    admin = Around(here.admin, Surroundings(user="ann", tags=frozenset({"management"})))
    assert 'user "ann" needs the tag policymaker' in await refused(here, admin)


@pytest.mark.parametrize(
    ("found", "wanted", "reason"),
    [
        (Queue(NAME, "stream"), quorum(), "a stream's messages cannot be moved"),
        (quorum(), Queue(NAME, "stream"), "a stream's messages cannot be moved"),
        (Queue(NAME, "classic", exclusive=True), quorum(), "an exclusive queue belongs to its connection"),
        (Queue(NAME, "classic", auto_delete=True), quorum(), "an auto-delete queue goes with its last consumer"),
        (Queue("n" * 240, "classic"), Queue("n" * 240), "its name is too long"),
    ],
)
def test_queues_that_cannot_be_moved(found, wanted, reason):
    file, actual = Topology(queues=(wanted,)), Actual(Topology(queues=(found,)))
    plan = make_plan(file, actual)
    assert reason in "\n".join(refusals(make_migration(wanted, file, actual, plan), file, actual, plan))


async def test_a_delay_queue_that_returns_by_name_at_most_once_must_be_empty_first():
    delay = Queue("delay", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": NAME})
    here = World(classic(), topology(quorum(), delay))
    await prepare(NAME, here.wanted, here.admin)

    here.people.publish("", "delay")
    assert "queue delay dead-letters to it by its name, at most once, and holds messages" in await refused(here)


async def test_a_new_queue_that_the_broker_refuses_is_found_before_the_old_one_goes():
    here = World(classic(), topology(quorum(**{"x-max-priority": 5})))
    before = await here.admin.read()

    with pytest.raises(Refused, match="x-max-priority"):
        await run(here)
    assert await here.admin.read() == before


async def test_the_dead_letter_exchange_and_its_queue_are_made_before_and_the_rest_is_left_to_apply():
    wanted = Topology(
        (Exchange("x", "topic"), Exchange("dlx", "fanout"), Exchange("apart", "fanout")),
        (quorum(**{"x-dead-letter-exchange": "dlx"}), Queue("dlq")),
        (Binding("x", NAME, "a.#"), Binding("x", NAME, "b"), Binding("dlx", "dlq")),
        (Policy("mine", f"^{NAME}$", {"delivery-limit": 3}), Policy("other", "^nobody$", {"delivery-limit": 3})),
    )
    here = World(classic(), topology(classic()))
    here.wanted = wanted

    await run(here)

    plan, _ = await survey(wanted, here.admin)
    assert sorted(change.wanted.name for change in plan.changes) == ["apart", "other"]


async def test_bindings_that_are_in_no_file_come_along():
    here = World(classic(), topology(quorum()))
    foreign = Binding("amq.headers", NAME, "k", arguments={"x-match": "all", "n": 1})
    here.broker.declare(foreign)

    await run(here)
    assert foreign in (await here.admin.read()).bindings


async def test_what_a_consumer_holds_is_waited_for_and_told_when_it_takes_too_long():
    here = World(classic(), topology(quorum()))
    channel = here.broker.open_channel(here.broker.connect())
    inbox = []
    here.broker.consume(channel, NAME, prefetch=1, deliver=inbox.append)

    with pytest.raises(MigrationStopped, match="1 messages of work are with consumers, unacknowledged, for 3 s"):
        await run(here)

    here.broker.ack(inbox.pop())
    report = await run(here)
    assert (report.moved_in, report.moved_back, report.runs) == (0, 4, 2)


async def test_a_new_queue_that_fills_up_stops_it_and_a_later_run_goes_on():
    here = World(classic(), topology(quorum(**{"x-max-length": 2, "x-overflow": "reject-publish"})), backlog=8)

    with pytest.raises(MigrationStopped, match="5 messages are left to be moved, none is lost") as stopped:
        await run(here)
    assert (stopped.value.report.moved_in, stopped.value.report.moved_back) == (8, 3)
    plan, _ = await survey(here.wanted, here.admin)
    assert [(each.kind, each.name) for each in plan.obstacles] == [("migration", NAME)]
    assert "finish it with `amqpkit migrate queue work`" in str(plan.obstacles[0])

    here.broker.purge(NAME)
    with pytest.raises(MigrationStopped, match="2 messages are left"):
        await run(here)
    here.broker.purge(NAME)
    report = await run(here)
    assert (report.left, report.runs) == (0, 3)


async def test_changed_back_half_way_it_goes_back():
    here = World(classic(), topology(quorum()))
    for effects in range(12, 30):
        here = World(classic(), topology(quorum()))
        report, _ = await here.migrate(effects)
        assert report is None
        here.wanted = topology(classic())

        await here.migrate()

        assert set(here.everything()) == set(here.people.confirmed)
        assert (await survey(here.wanted, here.admin))[0].changes == ()


async def test_a_message_that_nothing_can_carry_stops_the_move_and_stays():
    here = World(classic(), topology(quorum()), backlog=3)
    transport = MemoryTransport(here.broker)
    await transport.open()

    def unable(delivery):
        odd = delivery.properties.message_id == "m2"
        return Message(delivery.body, Properties(headers={"odd": object()} if odd else {}))

    here.broker.declare(Exchange("way", "fanout"))
    here.broker.declare(Queue("target"))
    here.broker.declare(Binding("way", "target"))
    moved = await Mover(transport, sleep=a_moment).move(Way(NAME, "way", unable))

    assert moved.trouble.startswith(f'message m2 of queue "{NAME}" cannot be moved')
    assert "m2" in here.broker.ledger()[NAME]
    assert here.broker.depth("target") + here.broker.depth(NAME) == 3


async def mover_of(here, sleep=a_moment, **options):
    transport = MemoryTransport(here.broker)
    await transport.open()
    for each in (Exchange("way", "fanout"), Queue("target"), Binding("way", "target")):
        here.broker.declare(each)
    return Mover(transport, sleep=sleep, **options), Way(NAME, "way", moved_in)


async def test_a_connection_that_is_lost_on_the_way_costs_no_message_and_what_may_be_doubled_is_counted():
    here = World(quorum(), topology(quorum()), backlog=200)
    moves = 0

    def on_moved():
        nonlocal moves
        moves += 1
        if moves in {50, 120}:
            here.broker.drop_connections()

    mover, way = await mover_of(here, on_moved=on_moved)
    moved = await mover.move(way)

    there = here.broker.ledger()["target"]
    assert (NAME in here.broker.ledger(), moved.trouble) == (False, "")
    assert set(there) == set(here.people.confirmed)
    assert 0 < len(there) - len(set(there)) <= moved.doubled <= 400


async def test_an_alarm_is_waited_for_and_when_it_lasts_what_was_taken_goes_back():
    here = World(quorum(), topology(quorum()), backlog=30)

    async def sleep(seconds):
        await here.broker.clock.advance(seconds)

    here.broker.block()
    mover, way = await mover_of(here, sleep, patience=100.0)
    moved = await mover.move(way)
    assert "the broker blocks publishers" in moved.trouble
    assert here.broker.depth(NAME) == 30

    mover, way = await mover_of(here, sleep, patience=100.0)
    here.broker.clock.call_later(40, here.broker.unblock)
    moved = await mover.move(way)
    assert (moved.messages, moved.trouble) == (30, "")


async def test_of_large_messages_only_a_few_are_in_our_hands_at_a_time(monkeypatch):
    monkeypatch.setattr("amqpkit.operate.migrate.mover.BYTES", 12)
    here = World(quorum(), topology(quorum()), backlog=90)  # bodies of two and three bytes
    most = []

    def on_moved():
        most.append(len(here.broker.vhost.queues[NAME].unacked))

    mover, way = await mover_of(here, lambda _: asyncio.sleep(0), on_moved=on_moved)
    moved = await mover.move(way)

    assert moved.messages == 90
    assert max(most) > 6  # as long as nobody knows how large they are
    assert max(most[40:]) <= 6


async def test_whoever_publishes_as_fast_as_we_move_does_not_keep_us_for_ever():
    here = World(quorum(), topology(quorum()), backlog=100)

    async def sleep(_seconds):
        for _ in range(50):
            here.people.publish()
        await a_moment(0)

    mover, way = await mover_of(here, sleep)
    moved = await mover.move(way, most=150)
    assert 150 <= moved.messages <= 400
    assert moved.messages + here.broker.depth(NAME) == len(here.people.confirmed)


async def test_a_queue_that_another_consumer_has_for_itself_is_not_waited_for_for_ever():
    here = World(quorum(), topology(quorum()), backlog=3)
    mover, way = await mover_of(here, patience=1.0)

    async def nobody(*_arguments, **_options):
        return Silent()

    mover._transport.consume = nobody  # the broker in memory knows no single active consumer
    moved = await mover.move(way)
    assert moved.trouble.endswith("gives us none of its messages: another consumer may have it for itself")


class Silent:
    """A subscription that is given nothing."""

    async def pause(self):
        pass

    async def close(self):
        pass


@pytest.mark.parametrize("old", [classic(), quorum(), classic(**{"x-overflow": "drop-head"})])
async def test_whoever_publishes_straight_to_the_queue_now_and_then_is_moved_too_and_nothing_confirmed_is_lost(old):
    here = World(old, topology(quorum(**{"x-delivery-limit": 7})))
    waits = 0

    async def sleep(_seconds):
        nonlocal waits
        waits += 1
        if waits % 3 == 0:
            here.people.publish("", NAME)
        await a_moment(0)

    transport = MemoryTransport(here.broker)
    await transport.open()
    prospect = await prepare(NAME, here.wanted, here.admin)
    report = await migrate(prospect.migration, Tools(here.admin, Pruning(here.admin, sleep), transport))

    assert (report.left, report.duplicates) == (0, 0)
    assert set(here.everything()) == set(here.people.confirmed)
    assert here.people.number > 6
