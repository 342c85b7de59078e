"""What the shop does: one class for each queue.

`amqpkit run examples.shop.consumers:shop --store sqlite:///shop.db` runs them all. Each takes its services as
arguments, so that a test can give it others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import Engine

from amqpkit import Consumer, Context

from .books import book, open_books
from .payloads import BillingCharge, EmailSend, ImageResize, LeadCreated
from .services import Bank, CardExpired, Crm, EmailProvider, die

DATABASE = "sqlite:///shop.db"
Sleep = Callable[[float], Awaitable[object]]


class SendEmail(Consumer[EmailSend], queue="email.send"):
    """An exception is all it takes: the message comes back after the next delay."""

    def __init__(self, provider: EmailProvider | None = None) -> None:
        """Use this provider."""
        self.provider = provider or EmailProvider()

    async def handle(self, email: EmailSend, context: Context) -> None:
        """Send it; the message's id stays the same through retries, so the provider can recognise a second try."""
        await self.provider.send(email.to, email.template, email.language, key=context.message_id)


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

    def __init__(self, books: Engine, bank: Bank | None = None, crash: Callable[[], None] = die) -> None:
        """Charge at this bank, note it in these books; on a card that kills its reader, `crash`."""
        self.books, self.bank, self.crash = books, bank or Bank(), crash

    def handle(self, charge: BillingCharge, context: Context) -> None:
        """Charge it at the bank, which knows the invoice should we ask twice, and book it exactly once."""
        self.bank.charge(charge.card, charge.cents, key=charge.invoice)
        with context.transaction(self.books) as page:  # the row, and that this message is done: both or neither
            book(page, charge.invoice, charge.cents)
        if charge.card == "fatal":
            self.crash()  # the worst moment: everything is done, and the broker does not know


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


def shop(
    books: Engine | None = None, *, sleep: Sleep = asyncio.sleep, crash: Callable[[], None] = die
) -> tuple[Consumer[Any], ...]:
    """Make them all; `books` must be in the database that is the worker's store."""
    return (
        SendEmail(),
        ResizeImage(sleep=sleep, crash=crash),
        ChargeCard(open_books(DATABASE) if books is None else books, crash=crash),
        EnrichLead(),
        ReportLead(),
    )
