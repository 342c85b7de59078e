"""Messages of other systems and other tongues on our queue: each has its stated end, with its bytes."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from pika.spec import BasicProperties

from amqpkit.errors import Unsendable
from tests.broker.life.notes import Note
from tests.broker.life.rig import applied, handling, until

CELERY = {
    "lang": "py",
    "task": "shop.tasks.send_invoice",
    "id": "6f1d0c1e-0000-4000-8000-000000000001",
    "root_id": "6f1d0c1e-0000-4000-8000-000000000001",
    "parent_id": None,
    "retries": 0,
    "timelimit": [None, None],
    "origin": "gen1@host",
    "ignore_result": False,
}
TASK = b'[[7], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
BOMB = zlib.compress(bytes(64 * 2**20), 9)


async def test_a_celery_message_is_dead_with_its_name_and_all_that_it_was(broker):
    celery = BasicProperties(content_type="application/json", content_encoding="utf-8", app_id="shop", headers=CELERY)
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send("work", (TASK, celery))
            good = await rig.publish()
            await until(lambda: len(rig.settled()) == 2, "both are settled")
        assert calls.handled == [good]
        (letter,) = await rig.take()
        assert (letter.queue, letter.body, letter.fate) == ("work.dlq", TASK, "invalid")
        assert CELERY.items() <= letter.headers.items()
        assert letter.properties.content_encoding == "utf-8"
        told = letter.headers["amqpkit-error"]["message"]
        assert 'a Celery message (protocol 2) of task "shop.tasks.send_invoice" from gen1@host' in told
        assert 'app id "shop"' in told


async def test_packed_bodies_are_unpacked_and_bombs_are_not(broker):
    packed = {
        "gzip": gzip.compress(b'{"failures": 0}'),
        "deflate": zlib.compress(b'{"failures": 0}'),
    }
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send(
                "work",
                *((body, BasicProperties(message_id=name, content_encoding=name)) for name, body in packed.items()),
                (BOMB, BasicProperties(message_id="bomb", content_encoding="deflate")),
            )
            await until(lambda: len(rig.settled()) == 3, "all are settled")
        assert sorted(calls.handled) == ["deflate", "gzip"]
        (letter,) = await rig.take()
        assert (letter.message_id, letter.body, letter.fate) == ("bomb", BOMB, "invalid")
        assert "unpacks to more than 16777216 bytes" in letter.headers["amqpkit-error"]["message"]


async def test_two_messages_without_id_and_with_equal_bodies_are_both_handled(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            await rig.send("work", (b"{}", None), (b"{}", None))
            msgpack = base64.b64decode("gaFuAQ==")
            await rig.send("work", (msgpack, BasicProperties(content_type="application/json")))
            await until(lambda: len(rig.settled()) == 3, "all are settled")
        assert calls.handled == [None, None]
        assert [letter.body for letter in await rig.take()] == [msgpack]


GOOD = {
    "float": 1.5,
    "tenth": 0.1,
    "most": 2**63 - 1,
    "least": -(2**63),
    "decimal": Decimal("-1.25"),
    "bytes": b"\xff\x00",
    "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "nothing": None,
    "yes": True,
    "list": [1, "a", None, [2.5]],
    "dict": {"a": {"b": [True]}},
}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (2**63, "does not fit into 64 bits"),
        (UUID(int=5), "is a UUID"),
        ((1, 2), "is a tuple"),
        ({1}, "is a set"),
        (Decimal("12345678901234567890.12"), "does not fit AMQP's 32-bit decimal"),
        (datetime(2026, 1, 2), "needs a time zone"),  # noqa: DTZ001 - that is the point
        (float("nan"), "is nan"),
    ],
    ids=str,
)
async def test_a_header_value_that_amqp_cannot_say_is_refused_by_name_before_it_is_sent(broker, value, says):
    async with applied(broker) as rig:
        with pytest.raises(Unsendable, match=f"header odd.*{says}"):
            await rig.publisher.publish(Note(), headers={"fine": 1, "odd": value})
        await rig.publish()
        assert await rig.ready("work") == 1


async def test_header_values_of_every_type_come_back_equal(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        await rig.publisher.publish(Note(), headers=GOOD)
        async with rig.working(consumer):
            await until(lambda: len(rig.settled()) == 1, "it is settled")
        (call,) = calls.begun
        assert {name: call.headers[name] for name in GOOD} == GOOD


async def test_whole_numbers_beyond_what_a_float_can_say_are_dead_with_their_digits(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer):
            for number in (2**53 + 1, 2**63 - 1, 2**63, 10**30):  # `seconds` is a float
                await rig.send("work", (b'{"seconds": %d, "failures": 0}' % number, None))
            await until(lambda: len(rig.settled()) == 4, "all are settled")
        assert len(calls.handled) == 2  # 2**63 is a float, and 10**30 the way in which one is written
        letters = [json.loads(letter.body)["seconds"] for letter in await rig.take()]
        assert letters == [2**53 + 1, 2**63 - 1]
