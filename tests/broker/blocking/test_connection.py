"""Connections of a blocking transport that are refused, lost, stuck or blocked."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter

import pytest

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import (
    AccessRefused,
    BrokerBlocked,
    ConnectionFailed,
    MessageTooLarge,
    PublishTimeout,
    PublishUncertain,
)
from amqpkit.events import Connected, ConnectionLost
from tests.broker.aio.rig import with_user
from tests.broker.blocking.rig import Rig, message, proxied, taken, until
from tests.containers.brokers import Broker

SECRET = "p@ss/w#rd%1?x+y"


def refusal(url: str, **settings: object) -> Exception:
    """What `open` raises."""
    transport = PikaTransport(url, **settings)  # type: ignore[arg-type]
    with pytest.raises((AccessRefused, ConnectionFailed)) as caught:
        transport.open()
    transport.close()
    return caught.value


def test_a_wrong_password_is_said_at_once_and_never_shown(broker: Broker, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    url = with_user(broker.url, "mallory", SECRET)

    error = refusal(url, connect_timeout=60.0)

    assert isinstance(error, AccessRefused)
    assert time.monotonic() - began < 10
    assert '"mallory"' in str(error)
    for text in (str(error), caplog.text, repr(PikaTransport(url)), repr(vars(PikaTransport(url)))):
        assert SECRET not in text
        assert "p%40ss" not in text


def test_a_missing_vhost_is_said_at_once(broker: Broker):
    error = refusal(BrokerURL.parse(broker.url).at_vhost("not there").text, connect_timeout=60.0)

    assert isinstance(error, AccessRefused)
    assert '"not there"' in str(error)


def test_a_port_where_nobody_listens_is_tried_until_the_timeout():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        began = time.monotonic()
        error = refusal(f"amqp://guest:secret@127.0.0.1:{port}/", connect_timeout=1.0)

    assert isinstance(error, ConnectionFailed)
    assert f"127.0.0.1:{port}" in str(error)
    assert "secret" not in str(error)
    assert 0.1 < time.monotonic() - began < 5  # jitter may leave no room for a try after a quarter of it


def test_a_host_that_never_answers_is_given_up_after_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = refusal(f"amqp://guest:guest@127.0.0.1:{server.getsockname()[1]}/", connect_timeout=0.5)

    assert isinstance(error, ConnectionFailed)
    assert "does not answer" in str(error)


def test_a_transport_that_was_refused_can_be_opened_later(broker: Broker):
    with proxied(broker) as (proxy, url):
        proxy.refuse()
        rig = Rig(broker, url, connect_timeout=0.3)
        with pytest.raises(ConnectionFailed):
            rig.transport.open()
        proxy.resume()

        rig.queue("q")
        with rig.transport:
            assert rig.send("q") is None


def test_a_connection_that_is_cut_comes_back_and_no_confirmed_message_is_lost(broker: Broker):
    rig, results = Rig(broker), {}
    rig.queue("q")
    with proxied(broker) as (proxy, url), PikaTransport(url, on_event=rig.events.append) as transport:
        for n in range(2000):
            results[f"m-{n}"] = transport.publish("", "q", message(message_id=f"m-{n}"))
            if n % 500 == 250:
                proxy.cut()
        errors = {name: future.exception() for name, future in results.items()}
        after = transport.publish("", "q", message(message_id="after")).exception()

    assert after is None
    assert {type(error) for error in errors.values()} <= {type(None), PublishUncertain}
    confirmed = {name for name, error in errors.items() if error is None}
    ids = taken(broker.url, "q", len(confirmed) + 1)
    assert len(ids) == len(set(ids))
    assert confirmed <= set(ids)
    assert rig.told(ConnectionLost)
    assert len(rig.told(Connected)) > 1


# --- deadlines ----------------------------------------------------------------------------------


def test_what_no_connection_took_in_time_was_not_sent(broker: Broker):
    rig = Rig(broker)
    rig.queue("q")
    with proxied(broker) as (proxy, url), PikaTransport(url, on_event=rig.events.append) as transport:
        proxy.refuse()
        proxy.cut()
        until(lambda: rig.told(ConnectionLost))
        began = time.monotonic()
        errors = [
            each.exception() for each in [transport.publish("", "q", message(), timeout=t) for t in (0.6, 0.2, 0.4)]
        ]
        took = time.monotonic() - began
        proxy.resume()
        assert transport.publish("", "q", message(message_id="kept")).exception() is None

    assert [type(error) for error in errors] == [PublishTimeout] * 3
    assert 0.5 < took < 2
    assert taken(broker.url, "q", 1) == ["kept"]


def test_a_depth_that_nobody_answers_is_given_up_in_time(broker: Broker):
    with proxied(broker) as (proxy, url), PikaTransport(url) as transport:
        proxy.stall()
        began = time.monotonic()
        with pytest.raises(ConnectionFailed, match="does not answer"):
            transport.depth("q", timeout=0.3)
        assert time.monotonic() - began < 2
        proxy.cut()


def test_a_closed_one_can_be_opened_again(rig: Rig):
    rig.queue("q")
    for n in range(2):
        with rig.transport as transport:
            assert transport.publish("", "q", message(message_id=f"m-{n}")).exception() is None
        assert isinstance(transport.publish("", "q", message()).exception(), PublishTimeout)
    assert rig.taken("q", 2) == ["m-0", "m-1"]


# --- an alarm (case 303), a lower limit (case 309): one container, which takes its time to start ---


def test_an_alarm_holds_back_in_order_and_a_lower_limit_is_the_culprits_alone(own_broker: Broker):
    a_lower_limit_is_told_to_the_culprit_alone(own_broker)
    an_alarm_holds_messages_back_until_their_deadline_and_then_they_go_on_in_order(own_broker)


def an_alarm_holds_messages_back_until_their_deadline_and_then_they_go_on_in_order(own_broker: Broker) -> None:
    rig = Rig(own_broker)
    rig.transport.open()
    rig.queue("q")
    assert rig.send("q", message_id="before") is None
    own_broker.block_publishers()
    # The broker says so when we next publish; what it has taken by then it processes after the alarm.
    unknown = rig.send("q", message_id="unknown", timeout=1.0)
    until(lambda: rig.transport.blocked)
    began = time.monotonic()

    errors = [rig.send("q", message_id=f"held-{n}", timeout=0.5) for n in range(2)]

    assert time.monotonic() - began < 2
    assert isinstance(unknown, PublishUncertain)
    assert [type(error) for error in errors] == [BrokerBlocked] * 2
    assert "low on memory" in str(errors[0])
    # a connection of its own, which the broker goes on reading
    assert rig.transport.depth("q", timeout=5.0) == 1
    waiting = [rig.transport.publish("", "q", message(message_id=f"late-{n}")) for n in range(20)]
    own_broker.unblock_publishers()
    assert [each.exception() for each in waiting] == [None] * 20
    assert not rig.transport.blocked
    began = time.monotonic()
    own_broker.block_publishers()
    rig.transport.publish("", "q", message(message_id="last"), timeout=1.0)
    until(lambda: rig.transport.blocked)
    rig.transport.close()
    assert time.monotonic() - began < 10
    own_broker.unblock_publishers()

    ids = taken(own_broker.url, "q", 22)
    assert ids[:2] == ["before", "unknown"]
    assert [each for each in ids if each.startswith("late")] == [f"late-{n}" for n in range(20)]
    assert not [each for each in ids if each.startswith("held")]


def a_lower_limit_is_told_to_the_culprit_alone(own_broker: Broker) -> None:
    rig = Rig(own_broker)
    rig.queue("limited")
    own_broker.exec("rabbitmqctl", "eval", "application:set_env(rabbit, max_message_size, 1000).")
    own_broker.exec("rabbitmqctl", "eval", "persistent_term:put(max_message_size, 1000).")

    with Rig(own_broker).transport as transport:
        sizes = [10] * 20 + [1001] + [10] * 20
        futures = [
            transport.publish("", "limited", message(bytes(n), message_id=f"m-{i}")) for i, n in enumerate(sizes)
        ]
        errors = [each.exception() for each in futures]
        after = transport.publish("", "limited", message(message_id="after")).exception()

    assert isinstance(errors[20], MessageTooLarge)
    assert {type(error) for n, error in enumerate(errors) if n != 20} <= {type(None), PublishUncertain}
    assert after is None
    ids = Counter(rig.taken("limited", 1))
    assert set(ids.values()) == {1}
    assert {f"m-{n}" for n, error in enumerate(errors) if error is None} | {"after"} <= set(ids)
