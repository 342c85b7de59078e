"""A publisher under pressure, on the in-memory broker in virtual time: what it waits for, and what it tells."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, TypeVar

import pytest

from amqpkit import BrokerBlocked, Nacked, Overloaded, Payload, PublishTimeout, PublishUncertain
from amqpkit.deliver.outgoing import Outcome
from amqpkit.deliver.publisher import Publisher
from amqpkit.errors import PublishError, Unsendable
from amqpkit.events import DuplicateWindow, Fate, Published
from amqpkit.model import Policy
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import topology

FILE = """
version: 1
exchanges:
  all: {type: fanout}
work_queues:
  mail:
    limits: {depth: 100}
    max-length: 1000
  note: {}
  wide:
    accepts: [wide]
    bindings: [{source: all}]
  narrow:
    accepts: [wide]
    limits: {depth: 10}
    bindings: [{source: all}]
messages:
  wide: {exchange: all, routing_key: ""}
"""
T = TypeVar("T")


class Mail(Payload, type="mail"):
    n: int = 0


class Note(Payload, type="note"):
    n: int = 0


class Wide(Payload, type="wide"):
    pass


async def settled(sim: Simulator, work: Awaitable[T]) -> T:
    """Let virtual time pass until it is done."""
    task = asyncio.ensure_future(work)
    await sim.clock.until(task)
    return await task


def publisher(sim: Simulator, **settings: Any) -> Publisher:
    return Publisher(sim.topology, sim.transport, clock=sim.clock, on_event=sim.events.append, **settings)


def cap(sim: Simulator, queue: str, length: int) -> None:
    sim.broker.declare(Policy("cap", f"^{queue}$", {"max-length": length, "overflow": "reject-publish"}, priority=200))


def fates(outcomes: list[Outcome]) -> dict[str, int]:
    found = [outcome.fate.value for outcome in outcomes]
    return {fate: found.count(fate) for fate in dict.fromkeys(found)}


def seconds(sim: Simulator) -> float:
    return sim.clock.now().timestamp()


async def test_a_lone_publisher_fills_a_queue_to_its_limit_and_fails_above_it() -> None:
    async with Simulator(topology(FILE)) as sim:
        pub = publisher(sim, overload="fail")
        outcomes = await settled(sim, pub.publish_many(Mail(n=n) for n in range(500)))
        assert fates(outcomes) == {"confirmed": 100, "overloaded": 400}
        assert [o.index for o in outcomes] == list(range(500))
        stored = [o.message_id for o in outcomes if o.error is None]
        assert sorted(sim.ledger()["mail"]) == sorted(stored)
        assert len({o.message_id for o in outcomes}) == 500
        error = outcomes[-1].error
        assert isinstance(error, Overloaded)
        assert (error.queue, error.depth) == ("mail", 100)
        assert 'to the default exchange with key "mail" was held back: queue "mail" has 100 messages' in str(error)
        assert pub.pressure == 1.0
        await sim.publish(Note())  # another queue is not held


async def test_ten_thousand_into_a_queue_of_a_thousand_add_up() -> None:
    async with Simulator(topology(FILE)) as sim:
        cap(sim, "note", 1000)
        outcomes = await settled(sim, publisher(sim, overload="fail").publish_many(Note(n=n) for n in range(10_000)))
        assert fates(outcomes) == {"confirmed": 1001, "nacked": 8999}  # a quorum queue takes one more than its limit
        assert sim.ledger() == {"note": [o.message_id for o in outcomes if o.error is None]}


async def test_who_waits_goes_on_once_the_queue_has_drained_to_80_percent() -> None:
    async with Simulator(topology(FILE)) as sim:
        pub, begun = publisher(sim), seconds(sim)
        await settled(sim, pub.publish_many(Mail(n=n) for n in range(100)))
        waiting = asyncio.ensure_future(pub.publish(Mail()))
        await sim.advance(3)
        assert not waiting.done()
        sim.broker.purge("mail")
        await settled(sim, waiting)
        assert seconds(sim) - begun < 4
        assert len(sim.ledger()["mail"]) == 1


async def test_who_waits_in_vain_is_overloaded_at_the_deadline_and_nothing_was_sent() -> None:
    async with Simulator(topology(FILE)) as sim:
        pub = publisher(sim, timeout=5.0)
        await settled(sim, pub.publish_many(Mail(n=n) for n in range(100)))
        begun = seconds(sim)
        with pytest.raises(Overloaded):
            await settled(sim, pub.publish(Mail()))
        assert 4.4 <= seconds(sim) - begun <= 5
        assert len(sim.ledger()["mail"]) == 100


async def test_one_call_may_be_less_patient_than_its_publisher() -> None:
    async with Simulator(topology(FILE)) as sim:
        pub = publisher(sim)
        await settled(sim, pub.publish_many(Mail(n=n) for n in range(100)))
        begun = seconds(sim)
        with pytest.raises(Overloaded):
            await settled(sim, pub.publish(Mail(), overload="fail"))
        assert seconds(sim) == begun


async def test_a_nacked_message_is_sent_again_and_stored_once_there_is_room() -> None:
    async with Simulator(topology(FILE)) as sim:
        cap(sim, "note", 1)
        pub = publisher(sim)
        for _ in range(2):  # a quorum queue takes one more than its limit
            await settled(sim, pub.publish(Note()))
        waiting = asyncio.ensure_future(pub.publish(Note(), message_id="again"))
        await sim.advance(2)
        assert not waiting.done()
        assert pub.pressure > 0.5
        sim.broker.purge("note")
        assert await settled(sim, waiting) == "again"
        assert sim.ledger() == {"note": ["again"]}
        (told,) = [e for e in sim.events if isinstance(e, Published) and e.message_id == "again"]
        assert told.fate is Fate.CONFIRMED
        assert told.tries > 1
        assert not [e for e in sim.events if isinstance(e, DuplicateWindow)], "one queue alone cannot have two"


async def test_a_queue_that_stays_full_nacks_within_the_deadline_or_at_once() -> None:
    async with Simulator(topology(FILE)) as sim:
        cap(sim, "note", 1)
        pub = publisher(sim, timeout=5.0)
        for _ in range(2):
            await settled(sim, pub.publish(Note()))
        begun = seconds(sim)
        with pytest.raises(Nacked):
            await settled(sim, pub.publish(Note(), overload="fail"))
        assert seconds(sim) == begun
        with pytest.raises(Nacked):
            await settled(sim, pub.publish(Note()))
        assert seconds(sim) - begun <= 5
        assert len(sim.ledger()["note"]) == 2


async def test_a_nacked_fan_out_that_is_sent_again_says_that_there_may_be_two_copies() -> None:
    async with Simulator(topology(FILE)) as sim:
        cap(sim, "narrow", 1)
        pub = publisher(sim, timeout=3.0)
        for _ in range(2):
            await settled(sim, pub.publish(Wide()))
        with pytest.raises(Nacked):
            await settled(sim, pub.publish(Wide(), message_id="twice"))
        windows = [e for e in sim.events if isinstance(e, DuplicateWindow)]
        assert windows
        assert all(e.message_id == "twice" and 'exchange "all"' in e.window for e in windows)
        assert sim.ledger()["wide"].count("twice") == len(windows) + 1


async def test_the_fullest_queue_of_a_fan_out_holds_it() -> None:
    async with Simulator(topology(FILE)) as sim:
        outcomes = await settled(sim, publisher(sim, overload="fail").publish_many(Wide() for _ in range(30)))
        assert fates(outcomes) == {"confirmed": 10, "overloaded": 20}
        assert {queue: len(ids) for queue, ids in sim.ledger().items()} == {"wide": 10, "narrow": 10}


async def test_in_an_alarm_what_was_sent_is_uncertain_and_what_was_not_is_blocked() -> None:
    async with Simulator(topology(FILE)) as sim:
        pub = publisher(sim, window=3, timeout=5.0)
        sim.broker.hold_confirms()
        sent = asyncio.ensure_future(pub.publish(Note(), message_id="sent"))
        await sim.settle()
        sim.broker.block()
        held = [asyncio.ensure_future(pub.publish(Note(), message_id=f"held-{n}")) for n in range(4)]
        await sim.settle()
        assert pub.pressure == 1.0
        with pytest.raises(PublishUncertain):
            await settled(sim, sent)
        for each in held:  # two within the window and two that found no place in it
            with pytest.raises(BrokerBlocked):
                await settled(sim, each)
        assert sim.ledger() == {"note": ["sent"]}
        sim.broker.unblock()
        sim.broker.release_confirms()
        await sim.publish(Note(), message_id="after")
        assert sim.ledger() == {"note": ["sent", "after"]}
        assert pub.pressure == 0.0


async def test_a_depth_can_be_asked_and_a_gate_opens_while_an_alarm_lasts() -> None:
    async with Simulator(topology(FILE)) as sim:
        sim.broker.block()
        with pytest.raises(BrokerBlocked):
            await settled(sim, publisher(sim, timeout=1.0).publish(Mail()))


async def test_a_publisher_keeps_its_pace_and_says_when_a_turn_comes_too_late() -> None:
    async with Simulator(topology(FILE)) as sim:
        begun, pub = seconds(sim), publisher(sim, rate=10.0, timeout=1.0)
        ends = await settled(sim, asyncio.gather(*(pub.publish(Note(n=n)) for n in range(50)), return_exceptions=True))
        late = [end for end in ends if isinstance(end, BaseException)]
        assert len(ends) - len(late) >= 10
        assert {type(error) for error in late} == {PublishTimeout}
        assert "at 10 messages a second" in str(late[0])
        assert len(sim.ledger()["note"]) <= round(10 * (seconds(sim) - begun)) + 1


async def test_many_at_a_rate_are_taken_at_that_rate_however_long_all_of_them_take() -> None:
    async with Simulator(topology(FILE)) as sim:
        begun = seconds(sim)
        outcomes = await settled(sim, publisher(sim, rate=10.0, timeout=1.0).publish_many(Note(n=n) for n in range(50)))
        assert fates(outcomes) == {"confirmed": 50}
        assert 4.8 <= seconds(sim) - begun <= 6


# --- many ------------------------------------------------------------------------------------------


async def test_no_more_is_taken_from_an_endless_source_than_the_window_holds() -> None:
    taken = 0

    def endless() -> Iterator[Note]:
        nonlocal taken
        while True:
            taken += 1
            yield Note(n=taken)

    async with Simulator(topology(FILE)) as sim:
        sim.broker.hold_confirms()
        seen: list[Outcome] = []
        task = asyncio.ensure_future(publisher(sim, window=7).publish_many(endless(), progress=seen.append))
        await sim.settle()
        assert taken == 7
        assert len(sim.ledger()["note"]) == 7
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(o.index for o in seen) == list(range(7)), "what was under way is accounted for"
        assert {type(o.error) for o in seen} == {PublishUncertain}
        assert sorted(o.message_id for o in seen) == sorted(sim.ledger()["note"])


async def test_whoever_is_given_up_before_it_was_sent_is_not_called_uncertain() -> None:
    async with Simulator(topology(FILE)) as sim:
        sim.broker.hold_confirms()
        pub = publisher(sim, window=1)
        tasks = [asyncio.ensure_future(pub.publish(Note(), message_id=name)) for name in ("sent", "unsent")]
        await sim.settle()
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        told = {e.message_id: e.fate for e in sim.events if isinstance(e, Published)}
        assert told == {"sent": Fate.UNCERTAIN, "unsent": Fate.TIMED_OUT}
        assert sim.ledger() == {"note": ["sent"]}
        sim.broker.release_confirms()
        await sim.publish(Note())  # every place of the window was given back


async def test_one_bad_payload_is_an_outcome_and_the_others_go_on() -> None:
    async with Simulator(topology(FILE)) as sim:
        items = [{"n": 1}, {"n": "x"}, '{"n": 2}', "{", Note(n=3), object()]
        outcomes = await settled(sim, publisher(sim).publish_many(items, of=Note))
        assert [type(o.error) for o in outcomes] == [
            type(None),
            Unsendable,
            type(None),
            Unsendable,
            type(None),
            Unsendable,
        ]
        assert "not a valid Note: n: Input should be a valid integer" in str(outcomes[1].error)
        assert [stored.body for stored in sim.broker.messages("note")] == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
        (lone,) = await settled(sim, publisher(sim).publish_many([{"n": 1}]))
        assert "dict is no Payload; give Payloads" in str(lone.error)


async def test_an_async_source_is_asked_one_question_at_a_time() -> None:
    async def source() -> AsyncIterator[Note]:
        for n in range(20):
            await asyncio.sleep(0)
            yield Note(n=n)

    async with Simulator(topology(FILE)) as sim:
        outcomes = await settled(sim, publisher(sim, window=5).publish_many(source()))
        assert fates(outcomes) == {"confirmed": 20}
        assert len(sim.ledger()["note"]) == 20


@pytest.mark.parametrize("where", ["source", "progress"])
async def test_a_source_or_a_listener_that_breaks_is_raised_after_the_rest_has_ended(where: str) -> None:
    def source() -> Iterator[Note]:
        yield from (Note(n=n) for n in range(5))
        if where == "source":
            raise RuntimeError(where)

    seen: list[Outcome] = []

    def progress(outcome: Outcome) -> None:
        seen.append(outcome)
        if where == "progress" and outcome.index == 0:
            raise RuntimeError(where)

    async with Simulator(topology(FILE)) as sim:
        with pytest.raises(RuntimeError, match=where):
            await settled(sim, publisher(sim).publish_many(source(), progress=progress))
        assert sorted(o.message_id for o in seen) == sorted(sim.ledger()["note"])


async def test_a_listener_that_raises_decides_no_fate() -> None:
    def listen(_event: object) -> None:
        raise RuntimeError

    async with Simulator(topology(FILE)) as sim:
        pub = Publisher(sim.topology, sim.transport, clock=sim.clock, on_event=listen)
        await settled(sim, pub.publish(Note()))
        assert len(sim.ledger()["note"]) == 1


@pytest.mark.parametrize("setting", [{"window": 0}, {"rate": 0.0}, {"timeout": -1.0}])
async def test_limits_that_let_nothing_pass_are_refused(setting: dict[str, Any]) -> None:
    async with Simulator(topology(FILE)) as sim:
        with pytest.raises(ValueError, match="must be more than 0"):
            publisher(sim, **setting)


WRONG = [
    ({"overload": "wiat"}, 'overload is \'wiat\'; write "wait" or "fail"'),
    ({"timeout": math.nan}, "timeout is nan; it must be a number of seconds"),
]


@pytest.mark.parametrize(("said", "says"), WRONG, ids=["overload", "timeout"])
async def test_a_word_or_number_that_means_nothing_is_refused_by_every_verb(said: dict[str, Any], says: str) -> None:
    async with Simulator(topology(FILE)) as sim:
        pub, taken = sim.publisher, iter([Note()])
        for go in (lambda: pub.publish(Note(), **said), lambda: pub.publish_many(taken, **said)):
            with pytest.raises(ValueError, match=says):
                await go()
        assert len(list(taken)) == 1
        assert sim.ledger() == {}
        with pytest.raises(ValueError, match=said.get("overload", "timeout is nan")):
            publisher(sim, **said)


async def test_every_publish_is_told_once_with_its_fate_and_time() -> None:
    async with Simulator(topology(FILE)) as sim:
        await sim.publish(Note(), message_id="m-1")
        with pytest.raises(PublishError):
            await sim.publisher.publish(Note(), message_id="m-2", headers={"odd": object()})
        told = [e for e in sim.events if isinstance(e, Published)]
        assert [(e.type, e.exchange, e.routing_key, e.message_id, e.fate, e.tries) for e in told] == [
            ("note", "", "note", "m-1", Fate.CONFIRMED, 1),
            ("note", "", "note", "m-2", Fate.UNSENDABLE, 1),
        ]
