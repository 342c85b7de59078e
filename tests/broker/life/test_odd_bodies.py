"""What strangers send: each body has its stated end, keeps its bytes, and does not stop the next one."""

from collections import Counter

from pika.spec import BasicProperties

from tests.broker.life.ledger import send
from tests.broker.life.rig import applied, handling, until

JSON = BasicProperties(content_type="application/json", delivery_mode=2)

DEAD = {
    "empty": (b"", JSON),
    "blank": (b" \n", JSON),
    "null": (b"null", JSON),
    "not a number": (b'{"failures": NaN}', JSON),
    "two documents": (b'{"failures":0}{"failures":0}', JSON),
    "deep": (b"[" * 100_000, JSON),
    "a legacy charset, undeclared": ('{"name": "имя"}'.encode("cp1251"), JSON),
    "a false charset": (b'{"failures": 0}', BasicProperties(content_type="application/json; charset=no-such")),
    "binary": (b"\x81\xa8failures\x00", JSON),
    "pickled": (b"\x80\x02}q\x00.", JSON),
    "compressed": (b'{"failures": 0} ', BasicProperties(content_type="application/json", content_encoding="gzip")),
    "of a foreign type": (b'{"failures":  0}', BasicProperties(type="invoice")),
}
HANDLED = {
    "no properties": (b"{}", None),
    "no properties, once more": (b"{}", None),
    "octet stream": (b"{}", BasicProperties(message_id="octets", content_type="application/octet-stream")),
    "byte order mark": (b"\xef\xbb\xbf{}", BasicProperties(message_id="mark", content_type="application/json")),
    "a legacy charset, declared": (
        '{"name": "имя"}'.encode("cp1251"),
        BasicProperties(message_id="legacy", content_type="application/json; charset=windows-1251"),
    ),
    "surrounded by blanks": (b"  {}\n", BasicProperties(message_id="blanks")),
    "a key twice, of which the last counts": (b'{"failures":9,"failures":0}', BasicProperties(message_id="twice")),
    "of a newer producer": (b'{"failures":0,"colour":"red"}', BasicProperties(message_id="newer")),
}


async def test_each_odd_body_has_its_end_and_the_consumer_goes_on(broker):
    async with applied(broker) as rig:
        consumer, calls = handling("work")
        async with rig.working(consumer) as worker:
            await rig.in_thread(send, "work", [*DEAD.values(), *HANDLED.values()])
            good = await rig.publish()
            await until(lambda: len(rig.settled()) == len(DEAD) + len(HANDLED) + 1, "all are settled")
            assert worker.ready

        expected = [properties.message_id if properties else None for _, properties in HANDLED.values()]
        assert Counter(calls.handled) == Counter([*expected, good])
        assert len(calls.begun) == len(calls.handled)
        letters = await rig.take()
        assert Counter((letter.queue, letter.body) for letter in letters) == Counter(
            ("work.dlq", body) for body, _ in DEAD.values()
        )
        assert {letter.fate for letter in letters} == {"invalid"}
        assert all(letter.headers["amqpkit-error"]["message"] for letter in letters)
