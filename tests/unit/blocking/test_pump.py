"""A pump whose thread never began to run, as a forked child has it."""

import threading
import time

import pytest

from amqpkit.brokers.blocking.parcel import Parcel
from amqpkit.brokers.blocking.pump import Pump
from amqpkit.brokers.blocking.wire import Address
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import ConnectionFailed, PublishTimeout, PublishUncertain
from amqpkit.events import ignore
from amqpkit.model import Message


@pytest.fixture
def pump():
    pump = Pump(Address(BrokerURL.parse("amqp://127.0.0.1:1"), "test", 10, 1.0), 500, ignore)
    yield pump
    pump.disown()


def parcel():
    return Parcel("", "q", Message(b""), mandatory=True, deadline=time.monotonic() + 9, message_id="m")


def test_a_child_waits_for_no_lock_that_a_thread_of_its_parent_held(pump):
    under_way = parcel()
    pump.put(under_way)
    held, done = threading.Event(), threading.Event()

    def hold():
        with under_way.future._condition:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = threading.Thread(target=pump.disown, daemon=True)
    child.start()
    child.join(2)
    assert not child.is_alive(), "it waits"
    done.set()
    thread.join(10)

    with pytest.raises(PublishUncertain, match="forked"):
        under_way.future.result(1)


def test_after_its_end_everything_is_answered_at_once(pump):
    pump.disown()
    late = parcel()

    pump.put(late)

    assert isinstance(late.future.exception(1), PublishTimeout)
    with pytest.raises(ConnectionFailed):
        pump.ask("q").result(1)


def test_an_interrupt_while_it_is_woken_leaves_it_awake(pump, monkeypatch):
    calls = []

    def wake(callback):
        calls.append(callback)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(pump._loop, "add_callback_threadsafe", wake)
    with pytest.raises(KeyboardInterrupt):
        pump.put(parcel())
    pump.put(parcel())

    assert len(calls) == 3, "once for the first, again after the interrupt, and for the second"
