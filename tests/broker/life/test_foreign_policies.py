"""Somebody's policy for all queues of the virtual host, over queues that must not lose a letter."""

from collections import Counter
from typing import Any

import pika
import pytest

from tests.broker.life.ledger import open_channel
from tests.broker.life.rig import Rig, applied, handling, until

DEFINITIONS: dict[str, dict[str, Any]] = {
    "delivery limit": {"delivery-limit": 20},
    "length": {"max-length": 3, "overflow": "drop-head"},
}


def fill_a_strangers_queue(url: str, number: int) -> None:
    """Declare a queue without arguments of its own against that policy, and fill it."""
    channel = open_channel(url)
    channel.queue_declare("stranger", durable=True, arguments={"x-queue-type": "quorum"})
    for _ in range(number):
        channel.basic_publish("", "stranger", b"{}", mandatory=True)
    channel.connection.close()


def crash_while_reading(url: str, queue: str, times: int) -> None:
    """Read a whole queue and go down with it, so often."""
    for _ in range(times):
        channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
        while channel.basic_get(queue)[0] is not None:
            pass
        try:
            channel.connection.close()
        except pika.exceptions.AMQPError:
            continue


@pytest.mark.parametrize("name", DEFINITIONS)
async def test_no_letter_is_lost_to_a_policy_for_all_queues_nor_to_thirty_crashing_readers(broker, name):
    policy = {"pattern": ".*", "priority": 50, "apply-to": "queues", "definition": DEFINITIONS[name]}
    async with applied(broker) as rig:
        status, answer = broker.http("PUT", f"policies/{broker.vhost}/everything", policy)
        assert status == 201, answer
        consumer, _ = handling("work")
        async with rig.working(consumer):
            sent = [await rig.publish(failures=99) for _ in range(8)]
            await until(lambda: all_there(rig, len(sent)), "all are dead")
            await until(lambda: len(rig.settled()) == 4 * len(sent), "all are settled")

        await rig.in_thread(fill_a_strangers_queue, len(sent))
        await rig.in_thread(crash_while_reading, "work.dlq", 30)
        if "delivery-limit" in DEFINITIONS[name]:
            await rig.in_thread(crash_while_reading, "stranger", 21)
        await until(lambda: all_there(rig, len(sent)), "the letters are back")
        assert await rig.ready("stranger") < len(sent), "the policy is harmless, and this test proves nothing"
        assert await rig.ledger() == {"work.dlq": Counter(sent)}


async def all_there(rig: Rig, number: int) -> bool:
    return await rig.ready("work.dlq") == number
