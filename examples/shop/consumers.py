"""What the shop does: one class for each queue.

`amqpkit run examples.shop.consumers` runs them all. Each takes its services as arguments, so that a test can give
it others.
"""

import asyncio
from collections.abc import Awaitable, Callable

from amqpkit import Consumer, Context

from .payloads import BillingCharge, EmailSend, ImageResize, LeadCreated
from .services import Bank, CardExpired, Crm, EmailProvider, die

Sleep = Callable[[float], Awaitable[object]]


class SendEmail(Consumer[EmailSend], queue="email.send"):
    """An exception is all it takes: the message comes back after the next delay."""

    def __init__(self, provider: EmailProvider | None = None) -> None:
        """Use this provider."""
        self.provider = provider or EmailProvider()

    async def handle(self, email: EmailSend, context: Context) -> None:
        """Send it; the message's id stays the same through retries, so the provider can recognise a second try."""
        await self.provider.send(email.to, email.template, key=context.message_id)


class ResizeImage(Consumer[ImageResize], queue="image.resize"):
    """Slow work; the topology lets two pictures at a time through."""

    def __init__(self, sleep: Sleep = asyncio.sleep, crash: Callable[[], None] = die) -> None:
        """Work for as long as `sleep` takes; on a picture that kills its reader, `crash`."""
        self.sleep, self.crash = sleep, crash

    async def handle(self, image: ImageResize, context: Context) -> None:  # noqa: ARG002
        """Resize it."""
        if image.path.endswith(".bomb"):
            self.crash()
        await self.sleep(1.5)


class ChargeCard(Consumer[BillingCharge], queue="billing.charge"):
    """A plain `def`, because the bank's library blocks: it runs in a thread."""

    never_retry = (CardExpired,)

    def __init__(self, bank: Bank | None = None) -> None:
        """Use this bank."""
        self.bank = bank or Bank()

    def handle(self, charge: BillingCharge, context: Context) -> None:
        """Charge it."""
        self.bank.charge(charge.card, charge.cents, key=context.message_id)


class EnrichLead(Consumer[LeadCreated], queue="lead.enrich"):
    """One of two readers of the same event."""

    def __init__(self, crm: Crm | None = None) -> None:
        """Use this customer database."""
        self.crm = crm or Crm()

    async def handle(self, lead: LeadCreated, context: Context) -> str:
        """Find out more about the company, with more patience at each attempt."""
        return await self.crm.look_up(lead.company, patience=5 * context.attempt)


class ReportLead(Consumer[LeadCreated], queue="lead.report"):
    """The other reader: it never notices that the first one failed."""

    def __init__(self) -> None:
        """Begin with nobody counted."""
        self.seen: list[tuple[str, int]] = []

    def handle(self, lead: LeadCreated, context: Context) -> None:
        """Note the lead, and at which attempt."""
        self.seen.append((lead.lead, context.attempt))
