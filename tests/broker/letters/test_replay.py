"""Replay on real brokers: what a letter keeps, where it goes, and that it ends."""

import asyncio
from base64 import b64decode

import pytest

from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.model import Binding, Exchange, Message, Properties, Queue
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.reach import reached
from amqpkit.operate.dead_letters.replay import replay
from amqpkit.operate.dead_letters.verdicts import Order, Reason
from tests.broker.letters.rig import CLOCK, bury, ids_in, numbered, take_all
from tests.broker.letters.victim import WORK
from tests.broker.life.rig import applied, handling, until

THREE = (
    Message(
        b'{"n":1}',
        Properties(
            content_type="application/json",
            message_id="m-1",
            correlation_id="c-1",
            type="order.placed",
            app_id="shop",
            priority=5,
            reply_to="rpc.r",
            headers={"tenant": "t1", "n": 1, "list": [1, "a"]},
        ),
    ),
    Message(b64decode("H4sIAAAAAAACA6tWylOyMqoFAL1oZv8HAAAA"), Properties(content_encoding="gzip", message_id="m-2")),
    Message(b"{}", Properties(message_id="m-3", expiration="60000")),
)
ONE_ATTEMPT = """
version: 1
work_queues:
  work:
    accepts: [note]
    retry: none
"""
KEPT = [
    *("content_type", "content_encoding", "message_id", "correlation_id"),
    *("type", "app_id", "priority", "reply_to"),
]


@pytest.fixture
async def admin(broker):
    here = ManagementAdmin(broker.api, vhost=broker.vhost)
    yield here
    await here.close()


async def test_a_letter_keeps_all_that_its_producer_said(broker):
    async with applied(broker) as rig:
        for message in THREE:
            await rig.transport.publish("", "work.dlq", message)

        report = await replay(rig.transport, "work.dlq", Order("run-1"), work=WORK, clock=CLOCK)

        assert report.complete
        taken = await take_all(rig.transport, "work")
        by_id = {delivery.properties.message_id: delivery for delivery in taken}
        for message in THREE:
            found, wanted = by_id[message.properties.message_id], message.properties
            assert found.body == message.body
            assert [getattr(found.properties, name) for name in KEPT] == [getattr(wanted, name) for name in KEPT]
            assert dict(found.properties.headers).items() >= dict(wanted.headers).items()
            assert (found.properties.delivery_mode, found.properties.expiration) == (2, None)
            assert not [name for name in found.properties.headers if name.startswith("x-")]


async def test_a_letter_for_a_queue_that_does_not_exist_stays(broker):
    async with applied(broker) as rig:
        for message in THREE:
            await rig.transport.publish("", "work.dlq", message)

        report = await replay(rig.transport, "work.dlq", Order("r", to="nowhere"), work=WORK, clock=CLOCK)

        assert (report.replayed, report.failed, report.complete) == (0, 3, False)
        assert await rig.ready("work.dlq") == 3


async def test_a_letter_goes_to_the_queue_that_failed_and_to_nobody_who_had_succeeded(broker, admin):
    """A fanout with two queues, one of which failed; the topology is a stranger's."""
    async with applied(broker) as rig:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b.dead"}
        await admin.create(Exchange("ev", "fanout"))
        for name, more in (("a", {}), ("b", dead), ("b.dead", {})):
            await admin.create(Queue(name, "classic", arguments={"x-queue-type": "classic", **more}))
        for name in "ab":
            await admin.create(Binding("ev", name))
        await rig.transport.publish("ev", "made", THREE[0])
        failing = await rig.transport.consume("b", prefetch=1, deliver=lambda delivery: delivery.refuse())
        await until(lambda: _is_dead(rig), "it is dead")
        await failing.close()

        report = await replay(rig.transport, "b.dead", Order("r"), clock=CLOCK)

        assert report.replayed == 1
        assert [await rig.ready(queue) for queue in ("a", "b", "b.dead")] == [1, 1, 0]
        (letter,) = await take_all(rig.transport, "b")
        assert not [name for name in letter.properties.headers if name.startswith("x-")]
        assert letter.properties.headers["amqpkit-history"][0]["type"] == "rejected"

        # and to the exchange only when asked, which can be told to reach others before
        failing = await rig.transport.consume("b", prefetch=1, deliver=lambda delivery: delivery.refuse())
        await rig.transport.publish("", "b", THREE[1])
        await until(lambda: _is_dead(rig), "it is dead")
        await failing.close()
        assert reached(await admin.read(), "ev", "made") == ("a", "b")
        await replay(rig.transport, "b.dead", Order("r2", to="a"), clock=CLOCK)
        assert [await rig.ready(queue) for queue in ("a", "b", "b.dead")] == [2, 0, 0]


async def _is_dead(rig):
    return await rig.ready("b.dead") == 1


async def test_to_the_exchange_a_letter_reaches_all_who_are_bound(broker, admin):
    async with applied(broker) as rig:
        await admin.create(Exchange("ev", "fanout"))
        for name in ("a", "b"):
            await admin.create(Queue(name, arguments={"x-queue-type": "quorum"}))
            await admin.create(Binding("ev", name))
        origin = {"amqpkit-exchange": "ev", "amqpkit-routing-key": "made"}
        await bury(rig.transport, ["m"], headers=origin)

        report = await replay(rig.transport, "work.dlq", Order("r", to_exchange=True), work=WORK, clock=CLOCK)

        assert report.replayed == 1
        assert [await rig.ready(queue) for queue in ("a", "b", "work.dlq")] == [1, 1, 0]


async def test_a_letter_that_tells_nothing_needs_a_target(broker, admin):
    async with applied(broker) as rig:
        await admin.create(Queue("orphans", arguments={"x-queue-type": "quorum"}))
        await bury(rig.transport, ["m"], "orphans")

        report = await replay(rig.transport, "orphans", Order("r"), clock=CLOCK)

        assert (report.replayed, report.stayed) == (0, {Reason.NO_TARGET: 1})
        assert await rig.ready("orphans") == 1


async def test_a_replay_whose_letters_all_die_again_ends(broker):
    async with applied(broker, ONE_ATTEMPT) as rig:
        await bury(rig.transport, numbered(100))

        def fail(_note, _context):
            raise RuntimeError("still broken")

        consumer, calls = handling("work", fail)
        async with rig.working(consumer):
            report = await replay(rig.transport, "work.dlq", Order("r"), work=WORK, clock=CLOCK)

            async def all_are_dead() -> bool:
                return await rig.ready("work.dlq") == 100

            await until(all_are_dead, "all are dead again")

        assert (report.replayed, len(calls.begun)) == (100, 100)
        assert {call.attempt for call in calls.begun} == {1}
        letters = await take_all(rig.transport, "work.dlq")
        assert {
            (letter.properties.headers["amqpkit-replays"], letter.properties.headers["amqpkit-replay-run"])
            for letter in letters
        } == {(1, "r")}


async def test_what_a_full_queue_refuses_is_still_here(broker, admin):
    """Whoever acks before the confirm loses it."""
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(300))
        full = {"x-queue-type": "quorum", "x-max-length": 10, "x-overflow": "reject-publish"}
        await admin.create(Queue("small", arguments=full))

        report = await replay(rig.transport, "work.dlq", Order("r", to="small"), work=WORK, clock=CLOCK)

        assert "failures in a row" in report.trouble
        went = await ids_in(rig.transport, "small")
        assert report.replayed == len(went) < 300
        assert await ids_in(rig.transport, "work.dlq") == [each for each in ids if each not in set(went)]


async def test_what_is_passed_over_stays_in_order(broker):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(700))

        report = await replay(rig.transport, "work.dlq", Order("r", Filter(id="m-350")), work=WORK, clock=CLOCK)

        assert (report.replayed, report.stayed) == (1, {Reason.FILTERED: 699})
        assert await ids_in(rig.transport, "work.dlq") == [each for each in ids if each != "m-350"]


async def test_told_to_stop_it_stops_within_its_window(broker):
    async with applied(broker) as rig:
        ids, stop = await bury(rig.transport, numbered(500)), asyncio.Event()

        def after_some(progress) -> None:
            if progress.replayed >= 100:
                stop.set()

        report = await replay(
            rig.transport, "work.dlq", Order("r", rate=400.0), work=WORK, clock=CLOCK, stop=stop, on_progress=after_some
        )

        assert 100 <= report.replayed < 250
        assert await ids_in(rig.transport, "work") == ids[: report.replayed]
        assert await ids_in(rig.transport, "work.dlq") == ids[report.replayed :]
