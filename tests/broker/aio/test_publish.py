"""What a publisher is told, by a real broker."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import (
    MessageTooLarge,
    Nacked,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unroutable,
    Unsendable,
)
from amqpkit.model import Message, Properties
from tests.broker.aio.rig import Inbox, Rig, message, until

FULL = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={
        "none": None,
        "yes": True,
        "big": 2**63 - 1,
        "small": -(2**63),
        "text": "Grüße",
        "double": 0.1,
        "bytes": b"\xff\x00",
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "list": [1, "two", [3.5]],
        "nested": {"a": {"b": None}},
        "k" * 255: "a long key",
    },
    delivery_mode=2,
    priority=3,
    correlation_id="c-1",
    reply_to="answers",
    expiration="600000",
    message_id="m-1",
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    type="greeting",
    app_id="test",
)


async def outcome(future: asyncio.Future[None]) -> PublishError | None:
    """What a publish ends with."""
    (result,) = await asyncio.gather(future, return_exceptions=True)
    assert result is None or isinstance(result, PublishError), result
    return result


async def outcomes(futures: list[asyncio.Future[None]]) -> list[PublishError | None]:
    return [await outcome(future) for future in futures]


async def received(rig: Rig, queue: str) -> Properties:
    inbox = Inbox(ack=True)
    await rig.consume(queue, inbox)
    await until(lambda: inbox.deliveries)
    return inbox.deliveries[0].properties


async def test_every_property_and_header_arrives_as_it_was_given(rig: Rig):
    await rig.queue("q")

    properties = replace(FULL, user_id=BrokerURL.parse(rig.broker.url).location.user)

    await rig.transport.publish("", "q", Message(b"{}", properties))

    assert await received(rig, "q") == properties


async def test_absent_properties_stay_absent(rig: Rig):
    await rig.queue("q")

    await rig.transport.publish("", "q", Message(b""), mandatory=False)

    assert await received(rig, "q") == Properties()


async def test_a_mandatory_message_without_id_gets_one_since_a_return_is_known_by_nothing_else(rig: Rig):
    await rig.queue("q")

    await rig.transport.publish("", "q", Message(b""))

    assert (await received(rig, "q")).message_id


# --- case 301: unroutable counts as sent --------------------------------------------------------


async def test_a_message_that_reaches_no_queue_is_unroutable_and_says_where_it_was_going(rig: Rig):
    await rig.exchange("events")

    error = await outcome(rig.transport.publish("events", "nobody.listens", message(message_id="m-7")))

    assert isinstance(error, Unroutable)
    assert (error.exchange, error.routing_key, error.message_id) == ("events", "nobody.listens", "m-7")


async def test_a_message_without_id_is_unroutable_too(rig: Rig):
    assert isinstance(await outcome(rig.transport.publish("", "nobody", message())), Unroutable)


async def test_whoever_does_not_mind_says_so(rig: Rig):
    assert await outcome(rig.transport.publish("", "nobody", message(), mandatory=False)) is None


@pytest.mark.parametrize(("bound", "expected"), [(True, type(None)), (False, Unroutable)])
async def test_an_alternate_exchange_counts_when_a_queue_took_the_message(rig: Rig, bound: bool, expected: type):
    await rig.exchange("lost", "fanout")
    await rig.exchange("events", arguments={"alternate-exchange": "lost"})
    if bound:
        await rig.bind("lost", await rig.queue("lost-and-found"), "")

    error = await outcome(rig.transport.publish("events", "nobody.listens", message(message_id="m")))

    assert isinstance(error, expected)


async def test_messages_of_one_id_at_once_each_get_their_own_fate(rig: Rig):
    await rig.queue("q")
    routes = ["q", "nobody", "q", "nobody", "nobody", "q"] * 10

    results = await outcomes([rig.transport.publish("", route, message(message_id="same")) for route in routes])

    assert [isinstance(result, Unroutable) for result in results] == [route == "nobody" for route in routes]
    await rig.stays("q", 30)


# --- case 302: a missing exchange closes the channel --------------------------------------------


async def test_a_wrong_exchange_fails_its_own_messages_and_no_others(rig: Rig):
    await rig.queue("q")
    targets = [("nope", "q") if n % 10 == 0 else ("", "q") for n in range(100)]

    results = await outcomes(
        [rig.transport.publish(*target, message(b"%d" % n, message_id=f"m-{n}")) for n, target in enumerate(targets)]
    )

    assert [type(result) for result in results] == [Unroutable if target[0] else type(None) for target in targets]
    assert all('"nope"' in str(result) for result in results if result)
    inbox = Inbox(ack=True)
    await rig.consume("q", inbox, prefetch=200)
    await until(lambda: len(inbox.deliveries) >= 90)
    assert sorted(inbox.bodies) == sorted(b"%d" % n for n in range(100) if n % 10)


async def test_an_exchange_that_is_made_later_is_found(rig: Rig):
    assert isinstance(await outcome(rig.transport.publish("late", "k", message())), Unroutable)
    await rig.exchange("late")
    await rig.bind("late", await rig.queue("q"), "#")

    assert await outcome(rig.transport.publish("late", "k", message())) is None


async def test_an_exchange_deleted_after_it_was_used_fails_its_message_and_the_next_works(rig: Rig):
    await rig.exchange("events")
    await rig.bind("events", await rig.queue("q"), "#")
    await rig.transport.publish("events", "k", message())
    await rig.api("DELETE", "exchanges//events")

    gone = await outcome(rig.transport.publish("events", "k", message()))
    still_gone = await outcome(rig.transport.publish("events", "k", message()))

    assert isinstance(gone, Unroutable)
    assert isinstance(still_gone, Unroutable)
    assert await outcome(rig.transport.publish("", "q", message())) is None


async def test_an_internal_exchange_takes_no_messages_and_harms_no_others(rig: Rig):
    await rig.queue("q")
    await rig.exchange("inner", internal=True)
    await rig.transport.publish("", "q", message())

    results = await outcomes([rig.transport.publish("inner", "k", message(message_id=f"i-{n}")) for n in range(20)])

    assert {type(result) for result in results} == {Unsendable}
    assert "internal" in str(results[0])
    assert await outcome(rig.transport.publish("", "q", message())) is None


@pytest.mark.parametrize("name", ["Grüße", "50% off!", "a/b c", "x" * 200])
async def test_names_of_any_characters_work(rig: Rig, name: str):
    await rig.exchange(name)
    await rig.bind(name, await rig.queue(name), name[:100])

    await rig.transport.publish(name, name[:100], message())

    inbox = Inbox(ack=True)
    await rig.consume(name, inbox)
    await until(lambda: inbox.deliveries)
    assert (inbox.deliveries[0].exchange, inbox.deliveries[0].routing_key) == (name, name[:100])


# --- case 304: a full queue nacks ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "stored"), [("classic", 1), ("quorum", 2)])
async def test_a_full_queue_refuses_at_once(rig: Rig, kind: str, stored: int):
    await rig.queue("q", kind, x_max_length=1, x_overflow="reject-publish")

    results = [await outcome(rig.transport.publish("", "q", message(message_id=f"m-{n}"))) for n in range(5)]

    assert [type(result) for result in results] == [type(None)] * stored + [Nacked] * (5 - stored)
    assert "m-4" in str(results[-1])
    await rig.stays("q", stored)


# --- what cannot be sent ------------------------------------------------------------------------


async def test_a_body_at_the_limit_passes_and_one_byte_more_does_not(rig: Rig):
    await rig.queue("q")

    fits = await outcome(rig.transport.publish("", "q", message(bytes(16_777_216))))
    over = await outcome(rig.transport.publish("", "q", message(bytes(16_777_217))))

    assert fits is None
    assert isinstance(over, MessageTooLarge)
    assert await outcome(rig.transport.publish("", "q", message())) is None


@pytest.mark.parametrize(("over", "expected"), [(0, type(None)), (1, MessageTooLarge)])
async def test_headers_may_fill_one_frame(rig: Rig, over: int, expected: type):
    await rig.queue("q")
    # Class, weight, size and flags; the id; the table's length, its key, its value's type and length.
    fixed = 14 + 2 + 4 + 2 + 5
    headers = {"h": "x" * (131_064 - fixed + over)}

    error = await outcome(rig.transport.publish("", "q", message(message_id="m", headers=headers)))

    assert isinstance(error, expected)
    assert await outcome(rig.transport.publish("", "q", message())) is None


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"user_id": "somebody else"}, id="user"),
        pytest.param({"headers": {"CC": "not a list"}}, id="cc"),
        pytest.param({"headers": {"h": float("nan")}}, id="nan"),
        pytest.param({"headers": {"h": 2**63}}, id="int"),
        pytest.param({"headers": {"h": {1, 2}}}, id="set"),
        pytest.param({"expiration": "soon"}, id="expiration"),
        pytest.param({"timestamp": datetime(2026, 1, 1)}, id="zone"),  # noqa: DTZ001 - the very point
        pytest.param({"type": "x" * 256}, id="short"),
    ],
)
async def test_what_no_broker_takes_is_unsendable_and_the_next_message_works(rig: Rig, properties: dict[str, object]):
    await rig.queue("q")

    assert isinstance(await outcome(rig.transport.publish("", "q", message(**properties))), Unsendable)

    assert await outcome(rig.transport.publish("", "q", message())) is None


async def test_the_culprit_among_many_is_told_and_the_others_are_not_called_lost(rig: Rig):
    await rig.queue("q")
    ids = [f"m-{n}" for n in range(50)]

    results = await outcomes(
        [
            rig.transport.publish(
                "", "q", message(message_id=each, user_id="somebody else" if each == "m-25" else None)
            )
            for each in ids
        ]
    )

    assert isinstance(results[25], Unsendable)
    assert {type(result) for n, result in enumerate(results) if n != 25} <= {type(None), PublishUncertain}


# --- connections --------------------------------------------------------------------------------


async def test_publishes_go_on_after_the_connection_was_closed_and_none_is_lost(rig: Rig):
    await rig.queue("q")
    results: dict[str, PublishError | None] = {}

    async def send(name: str) -> None:
        results[name] = await outcome(rig.transport.publish("", "q", message(name.encode(), message_id=name)))

    async with asyncio.TaskGroup() as group:
        closing = group.create_task(asyncio.to_thread(rig.broker.close_connections))
        n = 0
        while not closing.done():
            n += 1
            group.create_task(send(f"m-{n}"))
            await asyncio.sleep(0.002)

    # the first ones may still go to the connection that is being closed
    async with asyncio.timeout(30):
        after = 1
        while (told := await outcome(rig.transport.publish("", "q", message(b"after-%d" % after)))) is not None:
            assert type(told) is PublishUncertain
            after += 1
    assert {type(result) for result in results.values()} <= {type(None), PublishUncertain}
    inbox = Inbox(ack=True)
    await rig.consume("q", inbox, prefetch=500)
    await until(lambda: b"after-%d" % after in inbox.bodies)
    confirmed = {name.encode() for name, result in results.items() if result is None}
    assert confirmed <= set(inbox.bodies)
    assert len(inbox.bodies) == len(set(inbox.bodies))


async def test_the_wait_can_be_abandoned_but_not_the_message(rig: Rig):
    await rig.queue("q")

    future = rig.transport.publish("", "q", message())
    future.cancel()

    await rig.stays("q", 1)


async def test_closing_sends_what_is_queued(rig: Rig):
    await rig.queue("q")
    futures = [rig.transport.publish("", "q", message(message_id=f"m-{n}")) for n in range(1000)]

    await rig.transport.close()

    assert await outcomes(futures) == [None] * 1000
    assert isinstance(await outcome(rig.transport.publish("", "q", message())), PublishTimeout)
