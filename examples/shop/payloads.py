"""What the shop's messages say."""

from pydantic import Field

from amqpkit import Payload


class EmailSend(Payload, type="email.send"):
    """Send one e-mail made from a template."""

    to: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    template: str


class ImageResize(Payload, type="image.resize"):
    """Make one picture small enough for the catalogue."""

    path: str
    width: int = Field(gt=0)


class BillingCharge(Payload, type="billing.charge"):
    """Charge one invoice to a card."""

    invoice: str
    card: str
    cents: int = Field(gt=0)


class LeadCreated(Payload, type="lead.created"):
    """Somebody has left an address: an event, for whoever wants to know."""

    lead: str
    company: str
