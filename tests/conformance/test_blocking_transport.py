"""Every BlockingTransport does the same: pika on real brokers, and the broker in memory."""

import time

import pytest

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.blocking import MemoryBlockingTransport
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.errors import (
    ConnectionFailed,
    MessageTooLarge,
    Nacked,
    PublishTimeout,
    QueueMissing,
    Unroutable,
    Unsendable,
)
from amqpkit.events import Connected
from amqpkit.model import Binding, Exchange, Message, Properties, Queue


def message(body=b"hello", **properties):
    return Message(body, Properties(**properties))


class BlockingTransports:
    """The same promises for each; a subclass says which."""

    @pytest.fixture
    async def queue(self, admin):
        await admin.create(Queue("q", arguments={"x-queue-type": "quorum"}))
        return "q"

    @pytest.fixture
    def events(self):
        return []

    def outcome(self, transport, key="q", exchange="", **said):
        return transport.publish(exchange, key, message(**said)).exception()

    async def test_it_tells_who_answered(self, transport, events):
        assert transport.broker.version.startswith("4.")
        assert transport.blocked is False
        assert [type(event) for event in events] == [Connected]

    async def test_before_it_is_open_it_takes_nothing(self, unopened):
        with pytest.raises(ConnectionFailed, match="not open"):
            unopened.publish("", "q", message())

    async def test_a_confirmed_message_is_there(self, transport, queue):
        assert self.outcome(transport) is None

        deadline = time.monotonic() + 10
        while transport.depth("q", timeout=5.0) != 1:
            assert time.monotonic() < deadline

    @pytest.mark.parametrize(
        ("exchange", "key"), [("", "nobody"), ("events", "unbound"), ("nowhere", "q")], ids=["queue", "key", "exchange"]
    )
    async def test_what_reaches_no_queue_is_unroutable(self, transport, admin, queue, exchange, key):
        await admin.create(Exchange("events", type="topic"))

        error = self.outcome(transport, key, exchange, message_id="m-1")

        assert type(error) is Unroutable
        assert (error.exchange, error.routing_key, error.message_id) == (exchange, key, "m-1")
        missing = 'exchange "nowhere" does not exist on the broker; run `amqpkit apply` first'
        assert (error.reason == missing) is (exchange == "nowhere")
        assert self.outcome(transport) is None

    async def test_an_exchange_that_is_made_later_is_found(self, transport, admin, queue):
        assert type(self.outcome(transport, "k", "late")) is Unroutable

        await admin.create(Exchange("late", type="topic"))
        await admin.create(Binding("late", "q", "#"))

        assert self.outcome(transport, "k", "late") is None

    async def test_publishes_with_one_id_get_each_its_own_fate(self, transport, queue):
        keys = ["q", "nobody", "nobody", "q"] * 5

        futures = [transport.publish("", key, message(message_id="same")) for key in keys]

        kinds = [type(each.exception()) for each in futures]
        assert kinds == [type(None) if key == "q" else Unroutable for key in keys]

    async def test_a_full_queue_refuses(self, transport, admin):
        arguments = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}
        await admin.create(Queue("q", arguments=arguments))

        kinds = [type(self.outcome(transport, message_id=f"m-{n}")) for n in range(4)]

        assert kinds == [type(None), type(None), Nacked, Nacked]

    @pytest.mark.parametrize(
        ("wrong", "kind"),
        [
            (message(bytes(16_777_217)), MessageTooLarge),
            (message(headers={"h": "x" * 131_072}), MessageTooLarge),
            (message(headers={"h": float("nan")}), Unsendable),
            (message(headers={"h": object()}), Unsendable),
            (message(expiration="soon"), Unsendable),
            (message(type="x" * 256), Unsendable),
        ],
        ids=["body", "headers", "nan", "object", "expiration", "type"],
    )
    async def test_what_no_broker_takes_is_said_by_the_future(self, transport, queue, wrong, kind):
        assert type(transport.publish("", "q", wrong).exception()) is kind
        assert self.outcome(transport) is None

    async def test_nobody_cancels_a_message(self, transport, queue):
        future = transport.publish("", "q", message())

        assert not future.cancel()
        assert future.exception() is None

    async def test_a_missing_queue_is_said(self, transport):
        with pytest.raises(QueueMissing, match='"nowhere"'):
            transport.depth("nowhere")

    async def test_after_close_nothing_is_sent(self, transport, queue):
        transport.close()
        transport.close()

        assert isinstance(self.outcome(transport), PublishTimeout)


class TestPika(BlockingTransports):
    @pytest.fixture
    async def admin(self, broker):
        async with ManagementAdmin(broker.api, vhost=broker.vhost) as here:
            yield here

    @pytest.fixture
    def unopened(self, broker, events):
        return PikaTransport(broker.url, on_event=events.append)

    @pytest.fixture
    def transport(self, unopened):
        with unopened:
            yield unopened


class TestMemory(BlockingTransports):
    @pytest.fixture(params=["4.3", "4.0"])
    def memory(self, request):
        return MemoryBroker(VirtualClock(), version=request.param)

    @pytest.fixture
    def admin(self, memory):
        return MemoryAdmin(memory)

    @pytest.fixture
    def unopened(self, memory, events):
        return MemoryBlockingTransport(memory, on_event=events.append)

    @pytest.fixture
    def transport(self, unopened):
        with unopened:
            yield unopened
