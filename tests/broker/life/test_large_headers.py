"""Errors with much text and messages with large headers: both must fit into one frame, or the connection is gone."""

from collections import Counter
from typing import Any

from pika.spec import BasicProperties

from amqpkit.events import ConnectionLost, ConsumerLost
from tests.broker.life.notes import TestFailure
from tests.broker.life.rig import Rig, applied, by_queue, handling, until

DELAYS = ["300ms", "600ms", "900ms"]


async def connections(rig: Rig) -> set[tuple[str, Any]]:
    """Name and age of the worker's connections."""
    _, answer = rig.broker.http("GET", f"vhosts/{rig.broker.vhost}/connections")
    return {
        (each["name"], each.get("connected_at"))
        for each in answer
        if each.get("client_properties", {}).get("connection_name", "").startswith("life")
    }


async def is_dead(rig: Rig, number: int = 1) -> bool:
    return await rig.ready("work.dlq") == number


async def test_an_error_text_larger_than_a_frame_costs_neither_the_message_nor_the_connection(broker):
    """spring-projects/spring-amqp#1130: the copy closed the connection, and the message came back for ever."""

    def act(note, context) -> None:
        raise TestFailure(f"attempt {context.attempt}: " + "é" * 300_000)

    async with applied(broker) as rig:
        consumer, calls = handling("work", act)
        async with rig.working(consumer):
            two = await until_two(rig)
            plain = await rig.publish()
            await rig.send(
                "work",
                (
                    b'{"failures": 99}',
                    BasicProperties(message_id="laden", headers={"trace": "t" * 120_000}, delivery_mode=2),
                ),
            )
            await until(lambda: is_dead(rig, 2), "both are dead")
            await until(lambda: len(rig.settled()) == 8, "all is settled")
            assert await connections(rig) == two

        letters = await rig.take()
        assert by_queue(letters) == {"work.dlq": Counter([plain, "laden"])}
        found = {letter.message_id: letter for letter in letters}
        assert {letter.fate for letter in letters} == {"exhausted"}
        assert found[plain].delays == [*DELAYS, None]
        assert found[plain].headers["amqpkit-error"]["message"].startswith("attempt 4: éé")
        assert found["laden"].headers["trace"] == "t" * 120_000
        assert found["laden"].headers["amqpkit-attempt"] == 4
        assert (calls.attempts(plain), calls.attempts("laden")) == ([1, 2, 3, 4], [1, 2, 3, 4])
        assert rig.told(ConnectionLost) == rig.told(ConsumerLost) == []


async def until_two(rig: Rig) -> set[tuple[str, Any]]:
    """Wait until the management API lists the worker's two connections."""
    found: set[tuple[str, Any]] = set()

    async def listed() -> bool:
        nonlocal found
        found = await connections(rig)
        return len(found) == 2 and all(since for _, since in found)

    await until(listed, "both connections are listed")
    return found


async def test_a_message_whose_headers_leave_no_room_for_ours_is_refused_to_the_dead_letter_queue_untouched(broker):
    body, headers = b'{"failures": 99}', {"trace": "t" * 130_950}
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            two = await until_two(rig)
            await rig.send("work", (body, BasicProperties(message_id="full", headers=headers, delivery_mode=2)))
            await until(lambda: is_dead(rig), "it is dead")
            good = await rig.publish()
            await until(lambda: good in calls.handled, "the consumer goes on")
            assert await connections(rig) == two

        assert calls.attempts("full") == [1]
        assert rig.settled() == [("full", "refused"), (good, "handled")]
        (letter,) = await rig.take()
        assert (letter.queue, letter.message_id, letter.body) == ("work.dlq", "full", body)
        assert letter.headers["trace"] == headers["trace"]
        assert [name for name in letter.headers if name.startswith("amqpkit-")] == []
