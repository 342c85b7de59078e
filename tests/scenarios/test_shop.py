"""The shop in memory and in virtual time: where every message is, and how it got there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from amqpkit.errors import PublishError
from amqpkit.model import Message, Properties
from amqpkit.testing.simulator import Simulator
from examples.shop.payloads import BillingCharge, EmailSend, ImageResize, LeadCreated
from tests.scenarios.shop import Shop, topology


@pytest.fixture(params=["4.3", "4.0"])
def version(request):
    return request.param


@asynccontextmanager
async def opened(version: str, **crash) -> AsyncIterator[tuple[Simulator, Shop]]:
    """The shop on a simulator; the shop's sleep is the simulator's."""
    shop: Shop

    async def sleep(seconds):
        await simulator.clock.sleep(seconds)

    shop = Shop(sleep=sleep, **crash)
    simulator = Simulator(topology(), shop.consumers, version=version)
    async with simulator:
        yield simulator, shop


def letter(simulator, queue):
    (stored,) = simulator.broker.messages(queue)
    return stored


async def test_an_email_goes_out_once_after_two_failures_of_the_provider(version):
    async with opened(version) as (simulator, shop):
        await simulator.publish(EmailSend(to="ann@example.com", template="welcome", language="de"), message_id="e-1")
        assert simulator.ledger() == {"email.send.retry.2s": ["e-1"]}

        await simulator.advance("2s")
        assert simulator.ledger() == {"email.send.retry.10s": ["e-1"]}

        await simulator.advance("10s")
        assert simulator.ledger() == {}
        assert shop.email.provider.sent == {"e-1": "welcome (de) to ann@example.com"}
        assert simulator.journey("e-1") == [
            "email.send",
            "email.send.retry.2s",
            "email.send",
            "email.send.retry.10s",
            "email.send",
            "acked",
        ]


async def test_two_pictures_are_resized_at_a_time(version):
    async with opened(version) as (simulator, shop):
        for number in range(5):
            await simulator.publish(ImageResize(path=f"{number}.jpg", width=800), message_id=f"i-{number}")
        assert shop.at_once == 2

        await simulator.advance("4.5s")
        assert simulator.ledger() == {}
        assert shop.most_at_once == 2


async def test_a_charge_that_always_fails_ends_with_its_owner_and_its_history(version):
    async with opened(version) as (simulator, _):
        await simulator.publish(BillingCharge(invoice="17", card="unreachable", cents=1990), message_id="b-1")
        await simulator.advance("17s")

        assert simulator.ledger() == {"billing.charge.dlq": ["b-1"]}
        headers = letter(simulator, "billing.charge.dlq").properties.headers
        assert headers["amqpkit-fate"] == "exhausted"
        assert headers["amqpkit-error"]["type"] == "BankDown"
        assert [line["delay"] for line in headers["amqpkit-history"]] == ["2s", "5s", "10s", None]
        assert (headers["amqpkit-exchange"], headers["amqpkit-routing-key"]) == ("shop", "billing.charge")


async def test_an_expired_card_is_not_tried_again(version):
    async with opened(version) as (simulator, _):
        await simulator.publish(BillingCharge(invoice="18", card="expired", cents=500), message_id="b-2")

        assert simulator.ledger() == {"billing.charge.dlq": ["b-2"]}
        assert letter(simulator, "billing.charge.dlq").properties.headers["amqpkit-fate"] == "permanent"
        assert simulator.journey("b-2") == ["billing.charge", "billing.charge.dlq"]


async def test_the_second_reader_of_an_event_never_sees_the_first_ones_retry(version):
    async with opened(version) as (simulator, shop):
        await simulator.publish(LeadCreated(lead="l-1", company="Example Ltd"), message_id="l-1")
        assert simulator.ledger() == {"lead.enrich.retry.3s": ["l-1"]}

        await simulator.advance("3s")
        assert simulator.ledger() == {}
        assert shop.report.seen == [("l-1", 1)]


async def test_a_message_without_an_address_is_dead_at_once_and_untouched(version):
    async with opened(version) as (simulator, shop):
        body = b'{"template":  "welcome"}'
        await simulator.publish_raw(
            Message(body, Properties(message_id="e-2", type="email.send")),
            exchange="shop",
            routing_key="email.send.welcome",
        )

        assert simulator.ledger() == {"email.send.dlq": ["e-2"]}
        stored = letter(simulator, "email.send.dlq")
        assert stored.body == body
        assert stored.properties.headers["amqpkit-fate"] == "invalid"
        assert stored.properties.headers["amqpkit-error"]["errors"] == [
            {"place": "to", "kind": "missing", "message": "Field required"}
        ]
        assert not shop.email.provider.tries


async def test_a_picture_that_kills_its_workers_is_dead_after_the_delivery_limit(version):
    deaths = []

    def crash():
        deaths.append("i-9")
        simulator.broker.drop_connections()
        msg = "nothing that a dead worker says is heard"
        raise RuntimeError(msg)

    async with opened(version, crash=crash) as (simulator, _):
        await simulator.publish(ImageResize(path="picture.bomb", width=800), message_id="i-9")
        await simulator.advance("1m")

        assert deaths == ["i-9"] * 3
        assert simulator.ledger() == {"image.resize.dlq": ["i-9"]}
        assert letter(simulator, "image.resize.dlq").properties.headers["amqpkit-fate"] == "crashed"


async def test_what_no_queue_wants_waits_in_the_unrouted_queue(version):
    async with opened(version) as (simulator, _):
        await simulator.publish_raw(Message(b"{}", Properties(message_id="x-1")), exchange="shop", routing_key="nobody")

        assert simulator.ledger() == {"shop.unrouted": ["x-1"]}


async def test_a_publish_that_nothing_would_store_is_an_error(version):
    async with opened(version) as (simulator, _):
        with pytest.raises(PublishError):
            await simulator.publish_raw(Message(b"{}", Properties(message_id="x-2")), routing_key="no.such.queue")

        assert simulator.ledger() == {}
