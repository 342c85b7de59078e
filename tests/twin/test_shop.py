"""The shop on RabbitMQ and in memory: the same play must end the same, message by message, step by step."""

from __future__ import annotations

from amqpkit.model import Message, Properties
from examples.shop.payloads import BillingCharge, EmailSend, ImageResize, LeadCreated
from tests.twin.worlds import in_memory, on_broker


async def a_busy_minute(world) -> None:
    """Everything that the shop's scenarios do, at once."""
    for number in range(3):
        await world.publish(EmailSend(to=f"{number}@example.com", template="welcome"), f"email-{number}")
    for number in range(4):
        await world.publish(ImageResize(path=f"{number}.jpg", width=800), f"image-{number}")
    await world.publish(BillingCharge(invoice="17", card="4242", cents=1990), "bill-exhausted")
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


ENDS = 3 + 4 + 2 + 2 + 3 + 1


async def test_the_shop_in_memory_and_on_rabbitmq_end_alike(broker):
    real = await on_broker(a_busy_minute, ENDS, broker)
    memory = await in_memory(a_busy_minute, ENDS, ".".join(broker.version.split(".")[:2]))

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
