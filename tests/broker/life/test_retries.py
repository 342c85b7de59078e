"""Failing messages on a real broker: through the right delays, to the one queue that failed, to the right end."""

import itertools

from pika.spec import BasicProperties

from amqpkit.events import BadHeader, Begun
from amqpkit.model import DeadLetter, Discard
from tests.broker.life.notes import Note, TestFailure, fail_as_told
from tests.broker.life.rig import Call, Rig, applied, by_queue, handling, until

DELAYS = ["300ms", "600ms", "900ms"]

FAN_OUT = """
version: 1
exchanges:
  events: {type: topic}
work_queues:
  a:
    accepts: [note]
    bindings: [{source: events, routing_key: note.made}]
    retry: {delays: [100ms, 200ms, 300ms]}
  b:
    accepts: [note]
    bindings: [{source: events, routing_key: note.made}]
    retry: {delays: [100ms, 200ms, 300ms]}
messages:
  note: {exchange: events, routing_key: note.made}
"""


def deaths(call: Call) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in call.headers.get("x-death", ())]


async def test_a_message_that_fails_k_times_returns_through_the_first_k_delays_and_is_handled_once(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            sent = [await rig.publish(failures=k) for k in range(4)]
            await until(lambda: len(calls.handled) == len(sent), "all are handled")
            await until(lambda: len(rig.settled()) == 1 + 2 + 3 + 4, "all are settled")

        assert sorted(map(str, calls.handled)) == sorted(sent)
        for k, message_id in enumerate(sent):
            mine = calls.of(message_id)
            assert [call.attempt for call in mine] == list(range(1, k + 2))
            assert {(call.exchange, call.routing_key) for call in mine} == {("events", "note.made")}
            history = mine[-1].headers.get("amqpkit-history", [])
            assert [(line["attempt"], line["delay"]) for line in history] == list(
                zip(range(1, k + 1), DELAYS, strict=False)
            )
            expected = [[], *([(f"work.retry.{delay}", "expired", 1)] for delay in DELAYS[:k])]
            assert [deaths(call) for call in mine] == expected
        assert await rig.ledger() == {}


async def test_each_return_comes_when_its_delay_is_over_and_not_before(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.publish(failures=3)
            await until(lambda: calls.handled, "it is handled")

        moments = [call.at for call in calls.begun]
        waits = [after - before for before, after in itertools.pairwise(moments)]
        for wait, delay in zip(waits, (0.3, 0.6, 0.9), strict=True):
            assert delay <= wait < delay + 1.0


async def test_every_end_of_a_message_is_found_in_the_ledger(broker):
    def act(note: Note, context) -> object:
        match context.headers.get("wish"):
            case "never":
                raise PermissionError("never retried")
            case "raise":
                raise DeadLetter("no such address")
            case "return":
                return DeadLetter("no such street")
            case "discard":
                raise Discard("old news")
            case "discard quietly":
                return Discard("old news")
        return fail_as_told(note, context)

    async with applied(broker) as rig:
        consumer, calls = handling("work", act, never=(PermissionError,))
        async with rig.working(consumer):
            always = await rig.publish(failures=99)
            good = await rig.publish()
            wishes = {}
            for wish in ("never", "raise", "return", "discard", "discard quietly"):
                wishes[wish] = await rig.publisher.publish(Note(), headers={"wish": wish})
            broken = b'{"failures": "many",\n "deadly": 7}'
            await rig.send("work", (broken, BasicProperties(message_id="broken", content_type="application/json")))
            await until(lambda: calls.attempts(always) == [1, 2, 3, 4], "all attempts are used up")
            await until(lambda: (always, "dead") in rig.settled(), "it is dead")
            await until(lambda: len(rig.settled()) == 4 + 1 + 5 + 1, "all are settled")

        letters = await rig.take()
        assert by_queue(letters) == {
            "work.dlq": dict.fromkeys([always, wishes["never"], wishes["raise"], wishes["return"], "broken"], 1)
        }
        found = {letter.message_id: letter for letter in letters}
        assert {letter.message_id: letter.fate for letter in letters} == {
            always: "exhausted",
            wishes["never"]: "permanent",
            wishes["raise"]: "permanent",
            wishes["return"]: "permanent",
            "broken": "invalid",
        }
        assert found[always].delays == [*DELAYS, None]
        assert [line["message"] for line in found[always].headers["amqpkit-history"]] == [
            f"failure {n}" for n in range(1, 5)
        ]
        assert found["broken"].body == broken
        errors = found["broken"].headers["amqpkit-error"]["errors"]
        assert sorted(error["place"] for error in errors) == ["deadly", "failures"]
        assert found[wishes["raise"]].headers["amqpkit-error"]["message"] == "no such address"
        assert calls.attempts("broken") == []
        assert [calls.attempts(each) for each in wishes.values()] == [[1]] * 5
        ends = dict(rig.settled())
        assert (ends[good], ends[wishes["discard"]], ends[wishes["discard quietly"]]) == (
            "handled",
            "discarded",
            "discarded",
        )


async def test_the_other_queue_of_a_fan_out_never_sees_a_retry(broker):
    """EasyNetQ/EasyNetQ#892, pardahlman/RawRabbit#314."""
    async with applied(broker, FAN_OUT) as rig:
        calm, in_a = handling("a", lambda _note, _context: None)
        failing, in_b = handling("b")
        async with rig.working(calm, failing):
            event = await rig.publish(failures=3)
            await until(lambda: in_b.handled, "b has handled it")
            await until(lambda: len(rig.settled()) == 1 + 4, "all is settled")

        assert (in_a.attempts(event), in_b.attempts(event)) == ([1], [1, 2, 3, 4])
        assert await rig.ledger() == {}


FORGED = {
    "deaths": {
        "x-death": [{"queue": "work", "reason": "rejected", "count": 99, "exchange": "", "routing-keys": ["work"]}]
    },
    "word": {"amqpkit-attempt": "three"},
    "negative": {"amqpkit-attempt": -5},
    "huge": {"amqpkit-attempt": 10**12},
    "crashes": {"x-delivery-count": 99, "x-acquired-count": 9999},
}


async def test_forged_counters_count_as_the_first_attempt_and_those_of_ours_are_reported(broker):
    """rabbitmq/rabbitmq-server#10709."""
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send(
                "work",
                *(
                    (b'{"failures": 1}', BasicProperties(message_id=name, headers=headers, delivery_mode=2))
                    for name, headers in FORGED.items()
                ),
            )
            await until(lambda: len(calls.handled) == len(FORGED), "all are handled")
            await until(lambda: len(rig.settled()) == 2 * len(FORGED), "all are settled")

        assert {name: calls.attempts(name) for name in FORGED} == {name: [1, 2] for name in FORGED}
        assert {(event.message_id, event.header, event.value) for event in rig.told(BadHeader)} == {
            ("word", "amqpkit-attempt", "'three'"),
            ("negative", "amqpkit-attempt", "-5"),
            ("huge", "amqpkit-attempt", "1000000000000"),
        }
        assert await rig.ledger() == {}


async def test_a_client_that_publishes_again_with_copied_headers_comes_to_an_end(broker):
    """rabbitmq/rabbitmq-server#10709: x-death stops counting there, and the retries never end."""
    attempts: list[int] = []
    async with applied(broker) as rig:
        for _ in range(10):
            consumer, calls = handling("work")
            async with rig.working(consumer):
                if not attempts:
                    await rig.publish(failures=99)
                await until(rig.settled, "one attempt is made")
            attempts += [call.attempt for call in calls.begun]
            ended = dict(rig.settled())
            rig.events.clear()
            if "dead" in ended.values():
                break
            await until(lambda: has(rig, "work"), "it is back")
            for letter in await rig.take():
                assert "x-death" in letter.headers
                await rig.send(letter.queue, (letter.body, letter.properties))

        letters = await rig.take()
        assert attempts == [1, 2, 3, 4]
        assert [(letter.queue, letter.fate, letter.delays) for letter in letters] == [
            ("work.dlq", "exhausted", [*DELAYS, None])
        ]


async def has(rig: Rig, queue: str, count: int = 1) -> bool:
    return await rig.ready(queue) >= count


async def test_an_always_failing_message_is_delivered_no_more_often_than_it_has_attempts(broker):
    """rabbitmq/rabbitmq-server discussion 18226: a failing message that is given back is delivered without end."""
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            sent = [await rig.publish(failures=99) for _ in range(20)]
            await until(lambda: has(rig, "work.dlq", len(sent)), "all are dead")
            await until(lambda: len(rig.settled()) >= 4 * len(sent), "all are settled")

        assert len(rig.told(Begun)) == len(calls.begun) == 4 * len(sent)
        assert await rig.ledger() == {"work.dlq": dict.fromkeys(sent, 1)}


async def test_a_short_delay_is_not_held_up_by_a_longer_one_that_began_before(broker):
    """rabbitmq/rabbitmq-server#2074: in one queue with a time to live for each message it would be."""
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            slow = await rig.publish(failures=3)
            await until(lambda: calls.attempts(slow) == [1, 2, 3], "the slow one is in its last delay, 900 ms")
            quick = await rig.publish(failures=1)
            await until(lambda: len(calls.handled) == 2, "both are handled")

        assert calls.handled == [quick, slow]
        for message_id, delay in ((quick, 0.3), (slow, 0.9)):
            before, after = (call.at for call in calls.of(message_id)[-2:])
            assert delay <= after - before < delay + 0.5


IMPATIENT = {
    "pattern": r"^email\.send\.retry\.",
    "apply-to": "queues",
    "priority": 200,
    "definition": {"message-ttl": 150, "overflow": "reject-publish", "delivery-limit": -1},
}


async def test_with_nothing_but_defaults_a_failing_handler_loses_nothing(broker):
    """The delays of ten seconds and more are cut short by a policy, which leaves the objects as they are."""
    async with applied(broker, "version: 1\nwork_queues:\n  email.send: {accepts: [note]}\n") as rig:
        broker.http("PUT", f"policies/{broker.vhost}/impatient", IMPATIENT)

        def always(_note: Note, _context) -> None:
            raise TestFailure("always")

        consumer, calls = handling("email.send", always)
        async with rig.working(consumer):
            sent = [await rig.publish() for _ in range(5)]
            await until(lambda: has(rig, "email.send.dlq", 5), "all are dead")
            await until(lambda: len(rig.settled()) == 20, "all are settled")

        letters = await rig.take()
        assert by_queue(letters) == {"email.send.dlq": dict.fromkeys(sent, 1)}
        assert {(letter.fate, tuple(letter.delays)) for letter in letters} == {
            ("exhausted", ("10s", "1m", "10m", None))
        }
        assert calls.handled == []
        assert {outcome for _, outcome in rig.settled()} == {"retried", "dead"}
