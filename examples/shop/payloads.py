"""What the shop's messages say."""

from pydantic import Field

from amqpkit import Payload

ADDRESS = r"^[^@\s]+@[^@\s]+$"


class EmailSendV1(Payload, type="email.send"):
    """Send one e-mail made from a template, in English: what the shop said until it spoke other languages."""

    to: str = Field(pattern=ADDRESS)
    template: str

    def upgrade(self) -> "EmailSend":
        """Say the same as the next version does; a message that waits in a queue through a deploy is read like this."""
        return EmailSend(to=self.to, template=self.template, language="en")


class EmailSend(Payload, type="email.send", version=2, previous=EmailSendV1):
    """Send one e-mail made from a template.

    A version of its own, because a worker of the last release would not look at `language` and write in English.
    """

    to: str = Field(pattern=ADDRESS)
    template: str
    language: str = Field(pattern=r"^[a-z]{2}$")


class ImageResize(Payload, type="image.resize"):
    """Make one picture small enough for the catalogue."""

    path: str
    width: int = Field(gt=0)


class BillingCharge(Payload, type="billing.charge", key="{invoice}"):
    """Charge one invoice to a card; two messages about one invoice are one to a worker with a store."""

    invoice: str
    card: str
    cents: int = Field(gt=0)


class LeadCreated(Payload, type="lead.created"):
    """Somebody has left an address: an event, for whoever wants to know."""

    lead: str
    company: str


class CatalogueImport(Payload, type="catalogue.import", track=True):
    """Take the products of an uploaded file into the catalogue: somebody watches how far it is.

    The file is in the shop's database: a message says where its load is, it does not carry it.
    """

    upload: str
    file: str = Field(max_length=100)
