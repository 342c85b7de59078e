"""Letters as they are read: ours, the broker's, Celery's, Spring's, and what nobody meant to be one."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit.deliver import headers as h
from amqpkit.model import Int32, Properties
from amqpkit.operate.dead_letters.letter import read_letter
from tests.unit.operate.dead_letters.letters import DEATHS, OURS, Found, letter
from tests.walk.world import WORK

SPRING: dict[str, Any] = {
    "x-exception-stacktrace": (
        "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw\n"
        "\tat org.springframework.A.b(A.java:1)\n"
        "Caused by: java.lang.IllegalStateException: no stock for 7\n\tat shop.Stock.take(Stock.java:9)\n"
    ),
    "x-exception-message": "no stock for 7",
    "x-original-exchange": "shop",
    "x-original-routingKey": "order.placed",
    "__TypeId__": "com.shop.OrderPlaced",
}
CELERY: dict[str, Any] = {
    "lang": "py",
    "task": "shop.tasks.send_invoice",
    "id": "6f1d0c1e-0000-4000-8000-000000000001",
    "retries": 2,
    "origin": "gen1@host",
}


def read(headers: dict[str, Any], *, work: Any = None, **properties: Any):
    return read_letter(Found(properties=Properties(headers=headers, **properties)), work=work)


def test_a_letter_of_ours_tells_all_there_is() -> None:
    found = read(OURS, work=WORK, message_id="m-1", type="order.place")

    assert (found.id, found.key, found.type, found.version) == ("m-1", "invoice-7", "order.place", 2)
    assert (found.queue, found.own_queue, found.exchange, found.routing_key) == (
        "orders.dlq",
        "orders",
        "shop",
        "order.place.eu",
    )
    assert (found.fate, found.error) == ("exhausted", ("NoAnswer", "no answer in 8 s", "Traceback …"))
    assert (found.attempts, found.replays, found.replay_run, found.source) == (3, 0, None, "amqpkit")
    assert found.published_at == datetime(2026, 3, 1, 11, 58, tzinfo=UTC)
    assert found.died_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert [(line.attempt, line.delay) for line in found.history] == [(1, "1m"), (2, None)]
    assert found.size == len(b'{"id": "o-1"}')


def test_without_the_file_the_dead_letter_exchange_names_the_queue() -> None:
    assert read(OURS).own_queue == "orders"
    elsewhere = Found(properties=Properties(headers=OURS), exchange="", routing_key="copies")
    assert read_letter(elsewhere, work=None).own_queue is None


def test_a_letter_that_the_broker_buried_is_told_by_its_reason() -> None:
    deaths = [{**DEATHS[1], "reason": "delivery_limit", "queue": "orders", "count": 1}]
    found = read({"x-death": deaths, h.ATTEMPT: 2}, work=WORK)

    assert (found.fate, found.source, found.own_queue, found.attempts) == ("delivery_limit", "dlx", "orders", 2)
    assert found.error == ("delivery_limit", "by queue orders", "")


def test_a_letter_of_plain_dead_lettering_goes_back_to_the_queue_that_rejected_it_first() -> None:
    found = read({"x-death": DEATHS})

    assert (found.own_queue, found.exchange, found.routing_key) == ("work", "events", "order.paid")
    assert (found.fate, found.attempts, found.source) == ("expired", 4, "dlx")
    assert found.died_at == datetime(2026, 3, 1, 11, 30, tzinfo=UTC)
    assert [(line.type, line.message) for line in found.history] == [
        ("rejected", "by queue work (4 times since)"),
        ("expired", "by queue work.wait (3 times since)"),
    ]


def test_without_a_rejection_it_goes_back_to_where_it_died_first() -> None:
    deaths = [{**DEATHS[1], "reason": "maxlen", "queue": "b"}, {**DEATHS[0], "queue": "a"}]

    assert read({"x-death": deaths}).own_queue == "a"


def test_spring_tells_its_exception_and_its_origin() -> None:
    found = read(SPRING)

    assert (found.source, found.fate, found.type) == ("spring", "failed", "com.shop.OrderPlaced")
    assert found.error[:2] == ("java.lang.IllegalStateException", "no stock for 7")
    assert "Stock.java:9" in found.error[2]
    assert (found.exchange, found.routing_key, found.own_queue) == ("shop", "order.placed", None)
    through_default = read({**SPRING, "x-original-exchange": "", "x-original-routingKey": "stock"})
    assert through_default.own_queue == "stock"
    assert read({**SPRING, "x-death": DEATHS}).own_queue == "work"
    assert read({"x-exception-message": "no"}).error == ("", "no", "")


def test_celery_tells_its_task_and_the_broker_its_queue() -> None:
    found = read({**CELERY, "x-death": DEATHS[1:]})

    assert (found.source, found.fate, found.type, found.attempts) == ("celery", "rejected", CELERY["task"], 3)
    assert found.own_queue == "work"
    assert (read(CELERY).source, read(CELERY).fate, read(CELERY).own_queue) == ("celery", "unknown", None)


def test_a_letter_that_tells_nothing_is_read_all_the_same() -> None:
    found = read({})

    assert (found.source, found.fate, found.own_queue, found.version) == ("unknown", "unknown", None, None)
    assert (found.error, found.history, found.published_at, found.died_at) == (("", "", ""), (), None, None)


def test_a_letter_without_an_id_is_named_by_its_content_however_often_it_is_looked_at() -> None:
    plain = Found(properties=Properties(headers={"a": 1}))
    again = Found(properties=Properties(headers={"a": 1, "x-delivery-count": 3}), redelivered=True)

    names = {read_letter(each, work=None).id for each in (plain, again)}

    assert len(names) == 1
    assert names.pop().startswith("sha256:")
    for other in (Found(body=b"x"), Found(properties=Properties(type="b"))):
        assert read_letter(other, work=None).id != read_letter(plain, work=None).id


def test_replays_are_told_with_their_run() -> None:
    found = read({**OURS, h.REPLAYS: Int32(2), h.REPLAY_RUN: "r-7"})

    assert (found.replays, found.replay_run) == (2, "r-7")


def test_a_letter_is_dated_by_its_death_else_by_its_publish() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)

    assert letter(died_at=late, published_at=early).at == late
    assert letter(died_at=None, published_at=early).at == early
    assert letter(died_at=None, published_at=None).at is None


ODD = st.recursive(
    st.sampled_from([None, True, -1, 2**62, Int32(5), 0.5, "", "x", "\x1b[2J", b"\xff", Decimal("1.2")])
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["queue", "reason", "count", "time", "routing-keys", "at", "attempt"]), inner)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from([*OURS, *SPRING, *CELERY, "x-death", h.REPLAYS, h.REPLAY_RUN, h.KEY, "other"])


@settings(max_examples=50)
@given(st.dictionaries(NAMES, ODD, max_size=8), st.booleans(), st.none() | st.just("order.place"))
def test_whatever_the_headers_hold_a_letter_is_read(headers: dict[str, Any], known: bool, type_: str | None) -> None:
    found = read(headers, work=WORK if known else None, type=type_)

    for name in ("id", "queue", "exchange", "routing_key", "type", "fate", "source"):
        assert isinstance(getattr(found, name), str)
    assert all(isinstance(part, str) for part in found.error)
    assert isinstance(found.attempts, int)
    assert replace(found) == found
    hash(found)
