"""A copy that cannot be placed: the original stays where it is until it can."""

import asyncio
from collections import Counter

from amqpkit.events import CopyHeld
from tests.broker.life.rig import ONE_QUEUE, Rig, applied, handling, until

FAN_OUT = """
version: 1
exchanges:
  events: {type: topic}
work_queues:
  a:
    accepts: [note]
    bindings: [{source: events, routing_key: note.made}]
    retry: {delays: [100ms]}
  b:
    accepts: [note]
    bindings: [{source: events, routing_key: note.made}]
    retry: {delays: [200ms]}
messages:
  note: {exchange: events, routing_key: note.made}
"""


async def unbind(rig: Rig, queue: str, key: str, delay: str) -> None:
    path = f"bindings/{rig.broker.vhost}/e/{queue}.retry/q/{queue}.retry.{delay}/{key}"
    status, answer = await asyncio.to_thread(rig.broker.http, "DELETE", path)
    assert status == 204, answer


async def test_a_copy_that_no_delay_queue_would_get_keeps_its_original_and_harms_no_other_queue(broker):
    async with applied(broker, FAN_OUT) as rig:
        await unbind(rig, "b", "200ms", "200ms")
        in_a, seen_by_a = handling("a")
        in_b, seen_by_b = handling("b")
        async with rig.working(in_a, in_b) as worker:
            event = await rig.publish(failures=1)
            await until(lambda: seen_by_a.handled, "a has handled it")
            await until(lambda: len(rig.told(CopyHeld)) >= 3, "its copy for b is tried again and again")

            async def is_kept() -> bool:
                statistics = await rig.statistics("b")
                return bool(statistics.get("messages_unacknowledged") == 1 and statistics.get("messages") == 1)

            await until(is_kept, "b holds the original, unacked")
            assert not worker.ready
            assert await rig.ready("b.retry.200ms") == 0
            assert seen_by_b.attempts(event) == [1]

            await rig.apply()
            await until(lambda: seen_by_b.handled, "b has handled it")
            await until(lambda: worker.ready, "the worker is ready again")
            await until(lambda: len(rig.settled()) == 4, "all is settled")

        assert (seen_by_a.attempts(event), seen_by_b.attempts(event)) == ([1, 2], [1, 2])
        assert {(held.queue, held.message_id) for held in rig.told(CopyHeld)} == {("b", event)}
        assert await rig.ledger() == {}


async def test_a_worker_that_stops_while_it_holds_a_copy_gives_the_original_back(broker):
    async with applied(broker) as rig:
        await unbind(rig, "work", "300ms", "300ms")
        consumer, calls = handling("work")
        async with rig.working(consumer, grace=0.5):
            message_id = await rig.publish(failures=1)
            await until(lambda: rig.told(CopyHeld), "its copy is held")

        assert rig.settled() == [(message_id, "requeued")]
        assert calls.attempts(message_id) == [1]
        assert await rig.ledger() == {"work": Counter([message_id])}


async def test_while_the_delay_binding_is_missing_for_four_seconds_no_handler_is_called_twice_for_a_message(broker):
    """Twenty messages, prefetch ten: ten calls while it is missing, then twenty that fail and twenty that do not."""
    text = ONE_QUEUE.replace("accepts:", "consume: {prefetch: 10}\n    accepts:")
    async with applied(broker, text) as rig:
        await unbind(rig, "work", "300ms", "300ms")
        consumer, calls = handling("work")
        async with rig.working(consumer):
            sent = [await rig.publish(failures=1) for _ in range(20)]
            # the outage itself, not a wait for something
            await asyncio.sleep(4)
            assert len(calls.begun) == 10
            assert len(calls.handled) == 0
            await rig.apply()
            await until(lambda: len(calls.handled) == 20, "all are handled")
            await until(lambda: len(rig.settled()) == 40, "all are settled")

        assert {each: calls.attempts(each) for each in sent} == {each: [1, 2] for each in sent}
        assert await rig.ledger() == {}
