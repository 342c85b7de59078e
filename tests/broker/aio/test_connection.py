"""Connections to a real broker that are refused, lost, stuck or blocked."""

import asyncio
import logging
import socket
import time

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import AccessRefused, ConnectionFailed, PublishError, PublishTimeout, PublishUncertain
from amqpkit.events import Connected, ConnectionLost, Event
from tests.broker.aio.rig import Inbox, Rig, message, until, with_user
from tests.containers.brokers import Broker

SECRET = "p@ss/w#rd%1?x+y"


async def opened(url: str, **settings: object) -> BaseException | None:
    """What `open` raises, if anything."""
    transport = AioTransport(url, **settings)  # type: ignore[arg-type]
    (result,) = await asyncio.gather(transport.open(), return_exceptions=True)
    await transport.close()
    return result


async def test_a_wrong_password_is_said_at_once_and_never_shown(broker: Broker, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()

    error = await opened(with_user(broker.url, "mallory", SECRET), connect_timeout=60.0)

    assert isinstance(error, AccessRefused)
    assert time.monotonic() - began < 10
    assert '"mallory"' in str(error)
    for text in (str(error), caplog.text):
        assert SECRET not in text
        assert "p%40ss" not in text


async def test_a_missing_vhost_is_said_at_once(broker: Broker):
    error = await opened(BrokerURL.parse(broker.url).at_vhost("not there").text, connect_timeout=60.0)

    assert isinstance(error, AccessRefused)
    assert '"not there"' in str(error)


async def test_a_port_where_nobody_listens_is_tried_until_the_timeout():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        began = time.monotonic()
        error = await opened(f"amqp://guest:{SECRET[:1]}secret@127.0.0.1:{port}/", connect_timeout=1.0)

    assert isinstance(error, ConnectionFailed)
    assert f"127.0.0.1:{port}" in str(error)
    assert "secret" not in str(error)
    assert time.monotonic() - began >= 1


async def test_a_host_that_never_answers_is_given_up_after_the_timeout():
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _reader, writer: writers.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    error = await opened(f"amqp://guest:guest@127.0.0.1:{port}/", connect_timeout=0.5)

    server.close()
    for writer in writers:
        writer.close()
    assert isinstance(error, ConnectionFailed)
    assert "does not answer" in str(error)


async def test_special_characters_in_password_and_vhost_work_and_both_connections_say_their_name(broker: Broker):
    vhost, encoded = f"{broker.vhost}/50% ü", f"{broker.vhost}%2F50%25%20%C3%BC"
    broker.http("PUT", f"vhosts/{encoded}", {})
    broker.http("PUT", "users/special", {"password": SECRET, "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    broker.http("PUT", f"permissions/{encoded}/special", everything)
    broker.http("PUT", f"queues/{encoded}/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    try:
        url = BrokerURL.parse(with_user(broker.url, "special", SECRET)).at_vhost(vhost).text
        events: list[Event] = []
        transport = AioTransport(url, name="mailer", on_event=events.append)
        await transport.open()
        await transport.publish("", "q", message())
        inbox = Inbox(ack=True)
        await transport.consume("q", prefetch=1, deliver=inbox)
        await until(lambda: inbox.deliveries)

        def named() -> set[str]:
            connections = broker.http("GET", f"vhosts/{encoded}/connections")[1] or ()
            return {each.get("client_properties", {}).get("connection_name") for each in connections}

        deadline = time.monotonic() + 20
        while await asyncio.to_thread(named) != {"mailer publish", "mailer consume"}:
            assert time.monotonic() < deadline
        assert transport.broker.version == broker.version
        assert transport.broker.cluster_name
        assert [type(event) for event in events][:2] == [Connected, Connected]
        await transport.close()
    finally:
        broker.http("DELETE", f"vhosts/{encoded}")
        broker.http("DELETE", "users/special")


async def test_a_password_changed_under_a_running_worker_ends_its_subscription(rig: Rig):
    await rig.queue("q")
    await rig.api("PUT", "users/passing", {"password": "first", "tags": ""})
    try:
        await rig.api("PUT", "permissions//passing", {"configure": ".*", "write": ".*", "read": ".*"})
        transport = AioTransport(with_user(rig.broker.url, "passing", "first"))
        await transport.open()
        subscription = await transport.consume("q", prefetch=1, deliver=Inbox())

        await rig.api("PUT", "users/passing", {"password": "second", "tags": ""})
        await asyncio.to_thread(rig.broker.close_connections, at_least=3)

        with pytest.raises(AccessRefused, match='"passing"'):
            await asyncio.wait_for(asyncio.shield(subscription.ended), 30)
        assert not subscription.ready
        with pytest.raises(PublishTimeout, match='"passing"'):
            await transport.publish("", "q", message(), timeout=20)
        await transport.close()
    finally:
        await rig.api("DELETE", "users/passing")


async def test_a_broker_that_restarts_finds_everything_going_on(own_broker: Broker):
    rig = Rig(own_broker)
    await rig.transport.open()
    await rig.queue("q")
    inbox = Inbox(ack=True)
    subscription = await rig.consume("q", inbox)

    await asyncio.to_thread(own_broker.stop_app)
    await until(lambda: {"consume", "publish"} <= {event.purpose for event in rig.told(ConnectionLost)})
    impatient = rig.transport.publish("", "q", message(b"impatient", message_id="m-1"), timeout=0.5)
    patient = rig.transport.publish("", "q", message(b"patient", message_id="m-2"), timeout=90)
    with pytest.raises(PublishTimeout):
        await impatient
    assert not subscription.ready
    await asyncio.to_thread(own_broker.start_app)
    await patient

    await until(lambda: inbox.bodies == [b"patient"])
    await until(lambda: subscription.ready)
    await rig.transport.close()


async def test_a_stuck_broker_is_noticed_and_deadlines_hold_meanwhile(own_broker: Broker):
    rig = Rig(own_broker, heartbeat=2)
    await rig.transport.open()
    await rig.queue("q")
    inbox = Inbox(ack=True)
    await rig.consume("q", inbox)
    await rig.fill("q", 1)
    await until(lambda: len(inbox.deliveries) == 1)

    await asyncio.to_thread(own_broker.pause)
    results: list[BaseException | None] = []
    try:
        began = time.monotonic()
        short = rig.transport.publish("", "q", message(b"short", message_id="m-1"), timeout=1)
        behind = rig.transport.publish("", "q", message(b"behind", message_id="m-1"), timeout=1)
        long = rig.transport.publish("", "q", message(b"long", message_id="m-2"), timeout=60)
        results += await asyncio.gather(short, behind, return_exceptions=True)
        waited = time.monotonic() - began
        results += await asyncio.gather(long, return_exceptions=True)
    finally:
        await asyncio.to_thread(own_broker.unpause)

    assert 1 <= waited < 5
    # The second of one id was never sent; the third was, and the connection died before its deadline.
    assert [type(result) for result in results] == [PublishUncertain, PublishTimeout, PublishUncertain]
    assert any("silent" in lost.reason for lost in rig.told(ConnectionLost))
    await rig.transport.publish("", "q", message(b"after", message_id="m-3"), timeout=60)
    await until(lambda: b"after" in inbox.bodies)
    assert b"behind" not in inbox.bodies
    await rig.transport.close()


async def test_a_transport_closes_in_time_while_the_broker_is_stuck(own_broker: Broker):
    rig = Rig(own_broker)
    await rig.transport.open()
    await rig.queue("q")
    inbox = Inbox()
    await rig.consume("q", inbox)

    await asyncio.to_thread(own_broker.pause)
    try:
        future = rig.transport.publish("", "q", message())
        began = time.monotonic()
        await rig.transport.close()
        assert time.monotonic() - began < 25
    finally:
        await asyncio.to_thread(own_broker.unpause)

    assert isinstance(future.exception(), PublishUncertain)


async def test_a_memory_alarm_holds_publishers_and_not_consumers(own_broker: Broker):
    rig = Rig(own_broker)
    await rig.transport.open()
    await rig.fill(await rig.queue("q"), 5)
    inbox = Inbox()
    await rig.consume("q", inbox)
    await until(lambda: len(inbox.deliveries) == 5)

    await asyncio.to_thread(own_broker.block_publishers)
    blocked = rig.transport.publish("", "q", message(b"blocked", message_id="b"), timeout=1)
    waiting = rig.transport.publish("", "q", message(b"waiting", message_id="w"), timeout=60)
    result: PublishError | None
    (result,) = await asyncio.gather(blocked, return_exceptions=True)  # type: ignore[assignment]
    for delivery in inbox.deliveries[:5]:
        delivery.ack()
    await asyncio.to_thread(own_broker.unblock_publishers)
    await waiting

    assert isinstance(result, PublishUncertain)
    await until(lambda: sorted(inbox.bodies[5:]) == [b"blocked", b"waiting"])
    await rig.transport.close()
