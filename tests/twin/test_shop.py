"""The shop on RabbitMQ and in memory: the same play must end the same, message by message, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpkit.events import Outcome
from amqpkit.model import Message, Properties
from examples.shop.payloads import BillingCharge, EmailSend, EmailSendV1, ImageResize, LeadCreated
from tests.containers.brokers import Broker
from tests.scenarios.shop import SendEmailOfTheLastRelease
from tests.twin.worlds import Play, Seen, in_memory, on_broker


@pytest.fixture
def both(broker: Broker, tmp_path: Path):
    """Play in both worlds."""

    async def played(play: Play, ends: int) -> tuple[Seen, Seen]:
        folders = tmp_path / "real", tmp_path / "memory"
        for folder in folders:
            folder.mkdir()
        real = await on_broker(play, ends, broker, folders[0])
        memory = await in_memory(play, ends, ".".join(broker.version.split(".")[:2]), folders[1])
        return real, memory

    return played


async def a_busy_minute(world) -> None:
    """Everything that the shop's scenarios do, at once."""
    for number in range(3):
        await world.publish(EmailSend(to=f"{number}@example.com", template="welcome", language="de"), f"email-{number}")
    for number in range(4):
        await world.publish(ImageResize(path=f"{number}.jpg", width=800), f"image-{number}")
    await world.publish(BillingCharge(invoice="16", card="4242", cents=2990), "bill-paid")
    await world.publish(BillingCharge(invoice="17", card="unreachable", cents=1990), "bill-exhausted")
    await world.publish(BillingCharge(invoice="18", card="expired", cents=500), "bill-permanent")
    await world.publish(LeadCreated(lead="7", company="Example Ltd"), "lead-7")
    for name, body in (("no-address", b'{"template":  "welcome"}'), ("no-json", b"{"), ("empty", b"")):
        message = Message(body, Properties(message_id=name, type="email.send", delivery_mode=2))
        await world.publish_raw(message, "shop", "email.send.welcome")
    stray = Message(b"{}", Properties(message_id="stray", type="email.send", delivery_mode=2))
    await world.publish_raw(stray, "shop", "billing.charge")
    await world.publish_raw(
        Message(b"{}", Properties(message_id="nobody's", delivery_mode=2)), "shop", "nobody.wants.it"
    )


async def test_the_shop_in_memory_and_on_rabbitmq_end_alike(both):
    real, memory = await both(a_busy_minute, 3 + 4 + 3 + 2 + 3 + 1)

    assert (
        real.ledger
        == memory.ledger
        == {
            "billing.charge.dlq": ["bill-exhausted", "bill-permanent", "stray"],
            "email.send.dlq": ["empty", "no-address", "no-json"],
            "shop.unrouted": ["nobody's"],
        }
    )
    assert real.steps == memory.steps
    assert real.letters == memory.letters
    assert real.most_at_once == memory.most_at_once == 2
    assert real.booked == memory.booked == ["16"]
    assert real.sent == memory.sent


async def a_bad_day_in_billing(world) -> None:
    """An invoice comes three times, under two ids; then a worker dies between the charge and the ack."""
    charge = BillingCharge(invoice="21", card="4242", cents=1990)
    for times, message_id in enumerate(("bill-1", "bill-1", "bill-2"), start=1):
        await world.publish(charge, message_id)
        await world.settled(times)
    await world.publish(BillingCharge(invoice="22", card="fatal", cents=2990), "bill-crash")
    await world.settled(5)


async def test_duplicates_and_a_crash_between_charge_and_ack_are_one_charge_each(both):
    real, memory = await both(a_bad_day_in_billing, 4)

    for seen in (real, memory):
        assert seen.booked == ["21", "22"]
        assert seen.ledger == {}
        seen.steps["bill-crash", "billing.charge"].sort(key=str)  # the dead one may be heard of after the living
        assert [step[1] for step in seen.steps["bill-crash", "billing.charge"]] == [Outcome.DUPLICATE, Outcome.REQUEUED]
    assert real.steps == memory.steps


async def a_deploy(world) -> None:
    """Producers of both releases, first an old worker, then a new one."""
    provider = world.shop.email.provider
    await world.deploy(SendEmailOfTheLastRelease(provider))
    await world.publish(EmailSend(to="new@example.com", template="welcome", language="de"), "new")
    await world.settled(1)
    await world.publish(EmailSendV1(to="old@example.com", template="welcome"), "old")
    await world.settled(2)
    await world.deploy(*world.shop.consumers)


async def test_a_deploy_from_version_1_to_2_loses_and_kills_nothing(both):
    real, memory = await both(a_deploy, 2)

    for seen in (real, memory):
        assert seen.sent == {"new": "welcome (de) to new@example.com", "old": "welcome (en) to old@example.com"}
        assert seen.ledger == {}
    assert real.steps["new", "email.send"][0][1] is Outcome.SNOOZED
    assert {step[1] for step in real.steps["old", "email.send"]} == {Outcome.RETRIED, Outcome.HANDLED}
