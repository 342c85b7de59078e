"""What a blocking publisher is told, by a real broker: the same as an async one."""

import threading
import time
import weakref
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.blocking import inquiry
from amqpkit.brokers.blocking.outbox import Outbox
from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import (
    ConnectionFailed,
    MessageTooLarge,
    Nacked,
    PublishTimeout,
    QueueMissing,
    Unroutable,
    Unsendable,
)
from amqpkit.model import Message, Properties
from tests.broker.aio.rig import Inbox
from tests.broker.aio.rig import until as eventually
from tests.broker.blocking.rig import Rig, message, proxied, until
from tests.containers.brokers import Broker

FULL = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={
        "none": None,
        "yes": True,
        "big": 2**63 - 1,
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


async def test_every_property_and_header_arrives_as_it_does_from_the_async_transport(rig: Rig):
    rig.queue("q")
    properties = replace(FULL, user_id=BrokerURL.parse(rig.broker.url).location.user)
    transport = AioTransport(rig.broker.url)
    await transport.open()
    await transport.publish("", "q", Message(b"{}", properties))

    assert rig.transport.publish("", "q", Message(b"{}", properties)).exception() is None

    inbox = Inbox(ack=True)
    await transport.consume("q", prefetch=10, deliver=inbox)
    await eventually(lambda: len(inbox.deliveries) == 2)
    await transport.close()
    assert [delivery.properties for delivery in inbox.deliveries] == [properties] * 2


def test_a_message_that_reaches_no_queue_is_unroutable_and_says_where_it_was_going(rig: Rig):  # case 301
    rig.exchange("events")

    error = rig.send("nobody.listens", exchange="events", message_id="m-7", headers={"odd": 0.5})

    assert isinstance(error, Unroutable)
    assert (error.exchange, error.routing_key, error.message_id) == ("events", "nobody.listens", "m-7")
    assert isinstance(rig.send("nobody"), Unroutable)
    assert rig.transport.publish("", "nobody", message(), mandatory=False).exception() is None


def test_messages_of_one_id_at_once_each_get_their_own_fate(rig: Rig):
    rig.queue("q")
    routes = ["q", "nobody", "q", "nobody", "nobody", "q"] * 10

    futures = [rig.transport.publish("", route, message(message_id="same")) for route in routes]

    assert [isinstance(each.exception(), Unroutable) for each in futures] == [route == "nobody" for route in routes]
    assert len(rig.taken("q", 30)) == 30


def test_a_wrong_exchange_fails_its_own_messages_and_no_others(rig: Rig):  # case 302
    rig.queue("q")
    targets = [("nope", "q") if n % 10 == 0 else ("", "q") for n in range(100)]

    futures = [rig.transport.publish(*target, message(message_id=f"m-{n}")) for n, target in enumerate(targets)]

    errors = [each.exception() for each in futures]
    assert [type(error) for error in errors] == [Unroutable if target[0] else type(None) for target in targets]
    assert sorted(rig.taken("q", 90)) == sorted(f"m-{n}" for n in range(100) if n % 10)


def test_an_exchange_deleted_after_it_was_used_fails_its_message_and_the_next_works(rig: Rig):
    rig.exchange("events")
    rig.bind("events", rig.queue("q"), "#")
    assert rig.send("k", exchange="events") is None
    rig.api("DELETE", "exchanges//events")

    assert isinstance(rig.send("k", exchange="events"), Unroutable)
    assert isinstance(rig.send("k", exchange="events"), Unroutable)
    assert rig.send("q") is None
    rig.exchange("events")
    rig.bind("events", "q", "#")
    assert rig.send("k", exchange="events") is None


def test_an_internal_exchange_takes_no_messages_and_harms_no_others(rig: Rig):
    rig.queue("q")
    rig.exchange("inner", internal=True)

    futures = [rig.transport.publish("inner", "k", message(message_id=f"i-{n}")) for n in range(20)]

    assert {type(each.exception()) for each in futures} == {Unsendable}
    assert rig.send("q") is None


@pytest.mark.parametrize(("kind", "stored"), [("classic", 1), ("quorum", 2)])
def test_a_full_queue_refuses_at_once(rig: Rig, kind: str, stored: int):  # case 304
    rig.queue("q", kind, x_max_length=1, x_overflow="reject-publish")

    errors = [rig.send("q", message_id=f"m-{n}") for n in range(5)]

    assert [type(error) for error in errors] == [type(None)] * stored + [Nacked] * (5 - stored)
    assert "m-4" in str(errors[-1])
    assert len(rig.taken("q", stored)) == stored


def test_a_body_at_the_limit_passes_and_one_byte_more_does_not(rig: Rig):  # case 309
    rig.queue("q")

    assert rig.send("q", bytes(16_777_216)) is None
    assert isinstance(rig.send("q", bytes(16_777_217)), MessageTooLarge)
    assert rig.send("q") is None


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"user_id": "somebody else"}, id="user"),
        pytest.param({"headers": {"CC": "not a list"}}, id="cc"),
        pytest.param({"headers": {"h": float("nan")}}, id="nan"),
        pytest.param({"expiration": "soon"}, id="expiration"),
        pytest.param({"headers": {"h": "x" * 131_072}}, id="frame"),
    ],
)
def test_what_no_broker_takes_is_unsendable_and_the_next_message_works(rig: Rig, properties: dict[str, object]):
    rig.queue("q")

    assert isinstance(rig.send("q", **properties), Unsendable)
    assert rig.send("q") is None


def test_depth_counts_what_is_ready_and_names_a_queue_that_is_missing(rig: Rig):
    rig.queue("q", "classic")
    assert [rig.send("q") for _ in range(3)] == [None] * 3

    until(lambda: rig.transport.depth("q") == 3)
    with pytest.raises(QueueMissing, match='"nowhere"'):
        rig.transport.depth("nowhere")
    assert rig.transport.depth("q") == 3


def test_the_connection_that_asks_rests_and_comes_back_whenever_it_is_asked(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inquiry, "KEPT", 0.02)
    rig.queue("q")

    for n in range(60):
        assert rig.transport.depth("q", timeout=10.0) == 0
        time.sleep(0.001 * (n % 30))


def test_any_thread_may_publish_and_each_is_told_its_own_fate(rig: Rig):
    rig.queue("q")
    results: dict[str, object] = {}

    def work(thread: int) -> None:
        for n in range(500):
            name, key = f"{thread}-{n}", "nobody" if n % 50 == 7 else "q"
            results[name] = rig.transport.publish("", key, message(message_id=name))
            if n % 100 == 0:
                results[name].exception()  # type: ignore[attr-defined]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    errors = {name: future.exception() for name, future in results.items()}  # type: ignore[attr-defined]

    unroutable = {name for name, error in errors.items() if error is not None}
    assert unroutable == {f"{thread}-{n}" for thread in range(16) for n in range(7, 500, 50)}
    assert {type(errors[name]) for name in unroutable} == {Unroutable}
    until(lambda: rig.transport.depth("q") == 16 * 490)


def test_the_window_bounds_what_is_not_confirmed(broker: Broker):
    rig = Rig(broker)
    rig.queue("q")
    with proxied(broker) as (proxy, url), PikaTransport(url, window=3) as transport:
        assert transport.publish("", "q", message()).exception() is None
        pump = transport._pump
        assert pump is not None
        proxy.stall("server")

        futures = [transport.publish("", "q", message()) for _ in range(50)]

        until(lambda: len(pump._outbox.alive) == 50)
        assert (len(pump._outbox._window), len(pump._outbox._waiting)) == (3, 47)
        proxy.resume()
        assert [each.exception() for each in futures] == [None] * 50


def test_confirms_count_as_a_sign_of_life(rig: Rig):
    """A broker that confirms without a pause sends no heartbeats: pika must not take it for dead."""
    rig.queue("q")
    wire = rig.transport._pump._session.standing  # type: ignore[union-attr]
    assert rig.send("q") is None
    before = wire.bytes_received  # type: ignore[union-attr]

    assert rig.send("q") is None

    assert wire.bytes_received - before == len(b"\x01") + 2 + 4 + 13 + 1  # type: ignore[union-attr]


# --- the end ------------------------------------------------------------------------------------


def test_closing_sends_what_is_queued_and_closing_twice_is_fine(rig: Rig):
    rig.queue("q")
    futures = [rig.transport.publish("", "q", message(message_id=f"m-{n}")) for n in range(1000)]

    rig.transport.close()
    rig.transport.close()

    assert [each.exception() for each in futures] == [None] * 1000
    late = rig.send("q")
    assert isinstance(late, PublishTimeout)
    assert "closed" in str(late)
    with pytest.raises(ConnectionFailed, match="closed"):
        rig.transport.depth("q")


def test_before_it_is_open_nothing_is_taken(broker: Broker):
    transport = PikaTransport(broker.url)

    with pytest.raises(ConnectionFailed, match="not open"):
        transport.publish("", "q", message())
    with pytest.raises(ConnectionFailed, match="not open"):
        transport.depth("q")
    transport.close()


def test_a_transport_that_nobody_closed_warns_and_ends_its_thread(broker: Broker):
    rig = Rig(broker)
    rig.queue("q")
    rig.transport.open()
    thread = rig.transport._pump.thread  # type: ignore[union-attr]
    future = rig.transport.publish("", "q", message())
    gone = weakref.ref(rig.transport)

    with pytest.warns(ResourceWarning, match="never closed"):
        rig.forget()

    assert gone() is None
    thread.join(10)
    assert not thread.is_alive()
    assert future.exception() is None


def test_a_listener_that_raises_is_logged_and_harms_nothing(broker: Broker, caplog: pytest.LogCaptureFixture):
    def listener(event: object) -> None:
        raise ZeroDivisionError

    with PikaTransport(broker.url, on_event=listener) as transport:
        assert isinstance(transport.publish("", "nobody", message()).exception(), Unroutable)

    assert "a listener failed on Connected" in caplog.text


def test_a_fault_of_ours_reaches_whoever_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    crashes: list[object] = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    monkeypatch.setattr(Outbox, "put", lambda *_: 1 // 0)

    error = rig.send("q")

    assert isinstance(error, PublishTimeout)
    assert "ZeroDivisionError" in str(error)
    assert isinstance(rig.send("q"), PublishTimeout)
    until(lambda: crashes)
