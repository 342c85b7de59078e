import asyncio
from dataclasses import replace as altered

import pytest

from amqpkit.errors import QueueMissing
from amqpkit.model import Message, Properties, Replay, WorkQueue
from amqpkit.operate.dead_letters import window as room
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.holding import STOPPED
from amqpkit.operate.dead_letters.replay import replay
from amqpkit.operate.dead_letters.verdicts import Order, Reason

WORK = WorkQueue(
    name="work",
    accepts=("work",),
    retry_exchange="work.retry",
    dead_exchange="work.dlx",
    dead_queue="work.dlq",
    delays=(),
    snoozes=(),
)


async def replayed(lab, work=WORK, queue="work.dlq", **order):
    return await lab.live(
        replay(lab.transport, queue, Order(run="r-1", **order), work=work, clock=lab.clock), within=10_000
    )


def headers(lab, queue="work"):
    return [stored.properties.headers for stored in lab.broker.messages(queue)]


async def test_every_letter_goes_to_its_own_queue_in_order_and_none_is_left(lab):
    ids = await lab.bury(500)

    report = await replayed(lab)

    assert (report.total, report.seen, report.replayed, report.complete) == (500, 500, 500, True)
    assert lab.broker.ledger() == {"work": ids}
    assert {(each["amqpkit-replays"], each["amqpkit-replay-run"]) for each in headers(lab)} == {(1, "r-1")}


async def test_each_is_confirmed_before_it_is_acked(lab):
    ids = await lab.bury(400)
    lab.broker.hold_confirms()

    run = asyncio.ensure_future(replay(lab.transport, "work.dlq", Order(run="r"), work=WORK, clock=lab.clock))
    await lab.clock.advance(1)

    assert len(lab.ids("work.dlq")) == 400
    assert len(lab.ids("work")) == room.WINDOW
    lab.broker.release_confirms()
    assert (await lab.live(run)).replayed == 400
    assert lab.broker.ledger() == {"work": ids}


async def test_a_dry_run_changes_nothing(lab):
    ids = await lab.bury(30)

    report = await replayed(lab, dry_run=True, limit=20)

    assert (report.replayed, lab.broker.ledger()) == (20, {"work.dlq": ids})


async def test_what_is_not_meant_stays_in_its_place(lab):
    ids = await lab.bury(300)

    report = await replayed(lab, filter=Filter(id="m-200"))

    assert (report.replayed, report.stayed, report.complete) == (1, {Reason.FILTERED: 299}, True)
    assert lab.broker.ledger() == {"work": ["m-200"], "work.dlq": [each for each in ids if each != "m-200"]}


async def test_a_limit_is_kept(lab):
    ids = await lab.bury(300)

    report = await replayed(lab, limit=70)

    assert (report.replayed, report.trouble) == (70, "")
    assert lab.broker.ledger() == {"work": ids[:70], "work.dlq": ids[70:]}


async def test_a_limit_counts_what_went_and_not_what_failed(lab):
    lab.queue("small", x_max_length=3, x_overflow="reject-publish")
    await lab.bury(30)
    lab.broker.confirm_delay = 0.2

    async def room_is_made():
        while not lab.ids("small"):
            await lab.clock.sleep(0.01)
        lab.broker.purge("small")

    report, _ = await lab.live(
        asyncio.gather(
            replay(lab.transport, "work.dlq", Order(run="r", to="small", limit=6), clock=lab.clock), room_is_made()
        )
    )

    assert (report.replayed, report.failed > 0) == (6, True)


async def test_a_letter_that_was_replayed_too_often_stays_unless_forced(lab):
    work = altered(WORK, replay=Replay(max_replays=2))
    await lab.bury(1, headers={"amqpkit-replays": 2})
    await lab.bury(1, headers={"amqpkit-replays": 1})

    first = await replayed(lab, work)
    forced = await replayed(lab, work, force=True)

    assert (first.replayed, first.stayed) == (1, {Reason.TOO_OFTEN: 1})
    assert (forced.replayed, forced.stayed) == (1, {})
    assert [each["amqpkit-replays"] for each in headers(lab)] == [2, 3]


async def test_letters_that_die_again_are_not_replayed_again_in_the_same_run(lab):
    await lab.bury(100)
    await lab.transport.consume("work", prefetch=1, deliver=lambda delivery: _die(lab, delivery))

    report = await replayed(lab)

    assert (report.replayed, report.seen) == (100, 100)
    await lab.clock.advance(1)
    assert len(lab.ids("work.dlq")) == 100
    assert {each["amqpkit-replays"] for each in headers(lab, "work.dlq")} == {1}


def _die(lab, delivery):
    lab.transport.publish("", "work.dlq", Message(delivery.body, delivery.properties))
    delivery.ack()


async def test_a_letter_of_this_very_run_is_passed_over(lab):
    await lab.bury(3, headers={"amqpkit-replay-run": "r-1"})
    await lab.bury(2, headers={"amqpkit-replay-run": "r-0"})

    report = await replayed(lab)

    assert (report.replayed, report.stayed) == (2, {Reason.THIS_RUN: 3})


@pytest.mark.parametrize(("rate", "seconds"), [(10.0, 9.9), (50.0, 1.98), (0.5, 198.0)])
async def test_a_rate_is_kept(lab, rate, seconds):
    await lab.bury(100)

    report = await replayed(lab, rate=rate)

    assert report.replayed == 100
    assert seconds <= report.seconds <= seconds + 0.7


async def test_the_rate_is_the_files_unless_said_otherwise(lab):
    work = altered(WORK, replay=Replay(rate=10.0))
    await lab.bury(50)

    slow = await replayed(lab, work, limit=20)
    quick = await replayed(lab, work, rate=1000.0)

    assert (slow.seconds >= 1.9, quick.seconds < 1.0) == (True, True)


async def test_a_letter_that_tells_nothing_of_its_queue_needs_a_target(lab):
    lab.queue("orphans")
    ids = await lab.bury(3, queue="orphans")

    alone = await replayed(lab, work=None, queue="orphans")
    assert (alone.replayed, alone.stayed) == (0, {Reason.NO_TARGET: 3})
    assert lab.ids("orphans") == ids

    told = await replayed(lab, work=None, queue="orphans", to="work")
    assert (told.replayed, lab.broker.ledger()) == (3, {"work": ids})


async def test_a_letter_that_failed_here_is_not_sent_round_in_a_circle(lab):
    ids = await lab.bury(3)

    report = await replayed(lab, to="work.dlq")

    assert (report.replayed, report.stayed, lab.ids()) == (0, {Reason.ITSELF: 3}, ids)


async def test_a_target_that_does_not_exist_keeps_every_letter(lab):
    ids = await lab.bury(3)

    report = await replayed(lab, to="nowhere")

    assert (report.replayed, report.failed, report.complete) == (0, 3, False)
    assert 'queue "nowhere" does not exist' in report.failures[0].error
    assert lab.broker.ledger() == {"work.dlq": ids}


async def test_a_full_target_ends_the_run_and_keeps_what_it_did_not_take(lab):
    lab.queue("small", x_max_length=10, x_overflow="reject-publish")
    ids = await lab.bury(400)

    report = await replayed(lab, to="small")

    assert "failures in a row" in report.trouble
    assert not report.complete
    assert sorted([*lab.ids("small"), *lab.ids("work.dlq")]) == sorted(ids)
    assert len(lab.ids("small")) == report.replayed
    assert lab.ids("work.dlq") == [each for each in ids if each not in set(lab.ids("small"))]


async def test_a_work_queue_is_not_filled_above_its_limit(lab):
    work = altered(WORK, depth_limit=40)
    await lab.bury(100)
    most = 0

    def drain() -> None:
        nonlocal most
        most = max(most, lab.broker.depth("work"))
        lab.broker.purge("work")

    run = asyncio.ensure_future(replay(lab.transport, "work.dlq", Order(run="r"), work=work, clock=lab.clock))
    await lab.clock.advance(2)
    assert lab.broker.depth("work") == 40
    while not run.done():
        drain()
        await lab.clock.advance(0.6)
    drain()

    assert (run.result().replayed, most) == (100, 40)


async def test_told_to_stop_it_waits_for_confirms_and_gives_the_rest_back_in_order(lab):
    ids, stop = await lab.bury(300), asyncio.Event()
    lab.broker.confirm_delay = 0.3
    done = []

    def after_some(progress) -> None:
        done.append(progress.replayed)
        if progress.replayed >= 100:
            stop.set()

    report = await lab.live(
        replay(lab.transport, "work.dlq", Order(run="r"), work=WORK, clock=lab.clock, stop=stop, on_progress=after_some)
    )

    assert (report.trouble, report.uncertain) == (STOPPED, ())
    assert report.replayed == len(lab.ids("work"))
    assert lab.broker.ledger() == {"work": ids[: report.replayed], "work.dlq": ids[report.replayed :]}


async def test_confirms_that_do_not_come_in_time_leave_letters_of_which_nobody_knows(lab):
    ids, stop = await lab.bury(16), asyncio.Event()
    lab.broker.hold_confirms()

    run = asyncio.ensure_future(
        replay(lab.transport, "work.dlq", Order(run="r"), work=WORK, clock=lab.clock, stop=stop)
    )
    await lab.clock.advance(1)
    stop.set()
    report = await lab.live(run, within=20)

    assert report.uncertain == tuple(ids)
    assert (lab.ids("work"), lab.ids("work.dlq"), report.complete) == (ids, ids, False)


async def test_cancelled_it_loses_nothing(lab):
    ids = await lab.bury(600)
    lab.broker.confirm_delay = 0.2
    run = asyncio.ensure_future(replay(lab.transport, "work.dlq", Order(run="r"), work=WORK, clock=lab.clock))
    await lab.clock.advance(0.3)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lab.live(run)

    done = len(lab.ids("work"))
    assert 0 < done < 600
    assert lab.broker.ledger() == {"work": ids[:done], "work.dlq": ids[done:]}


async def test_a_lost_connection_ends_the_run_and_the_next_one_goes_on(lab):
    ids = await lab.bury(300)
    lab.broker.confirm_delay = 0.1

    def cut(progress) -> None:
        if progress.replayed == 150 and not cuts:
            cuts.append(1)
            lab.broker.drop_connections()

    cuts = []
    first = await lab.live(
        replay(lab.transport, "work.dlq", Order(run="r1"), work=WORK, clock=lab.clock, on_progress=cut)
    )
    second = await lab.live(replay(lab.transport, "work.dlq", Order(run="r2"), work=WORK, clock=lab.clock))

    assert not first.complete
    assert first.trouble
    there = lab.ids("work")
    assert (set(there), lab.ids("work.dlq"), second.complete) == (set(ids), [], True)
    twice = {each for each in there if there.count(each) > 1}
    assert twice <= set(first.uncertain)
    assert twice <= set(second.again)
    assert len(twice) <= room.WINDOW


async def test_a_missing_queue_is_said(lab):
    with pytest.raises(QueueMissing):
        await replayed(lab, queue="nobody")


async def test_two_at_once_replay_each_letter_once(lab):
    ids = await lab.bury(600)

    reports = await lab.live(
        asyncio.gather(
            *(replay(lab.transport, "work.dlq", Order(run=run), work=WORK, clock=lab.clock) for run in ("one", "two"))
        )
    )

    assert sorted(lab.ids("work")) == sorted(ids)
    assert sum(report.replayed for report in reports) == 600
    assert lab.ids("work.dlq") == []


async def test_a_letter_whose_headers_leave_no_room_stays_and_is_named(lab):
    await lab.transport.publish(
        "", "work.dlq", Message(b"", Properties(message_id="fat", headers={"a": "x" * 130_990}))
    )
    await lab.bury(2)

    report = await replayed(lab)

    assert (report.replayed, [failure.id for failure in report.failures]) == (2, ["fat"])
    assert lab.ids("work.dlq") == ["fat"]
