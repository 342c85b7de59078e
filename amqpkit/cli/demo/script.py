"""What the demo sends, and how each message must end: the demo is its own test."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Final

from amqpkit.deliver.payload import Payload
from amqpkit.model import Message, Properties

HANDLED: Final = "handled"


@dataclass(frozen=True, slots=True)
class Expected:
    """How a message ends in one queue: `handled` or a dead letter's fate, after so many calls of the handler."""

    queue: str
    end: str
    calls: int


@dataclass(frozen=True, slots=True)
class Stranger:
    """A message that no publisher of ours has made."""

    exchange: str
    routing_key: str
    type: str
    body: bytes

    def message(self, message_id: str) -> Message:
        """Make it."""
        properties = Properties(content_type="application/json", message_id=message_id, type=self.type)
        return Message(self.body, properties)


@dataclass(frozen=True, slots=True)
class Sent:
    """One message, by a name that the reader can follow."""

    name: str
    content: Payload | Stranger
    expected: tuple[Expected, ...]

    @property
    def body(self) -> bytes:
        """The bytes that must still be the same on a dead letter."""
        return self.content.body if isinstance(self.content, Stranger) else self.content.model_dump_json().encode()


@dataclass(frozen=True, slots=True)
class Act:
    """One thing to show."""

    title: str
    text: str
    messages: tuple[Sent, ...] = field(repr=False)


def acts(payloads: ModuleType) -> tuple[Act, ...]:
    """Write the play for the shop's payloads."""
    return (
        Act(
            "Sending e-mail: the provider is down twice, then it works",
            "The handler raises, and that is all it does. The message waits in a delay queue of the broker, "
            "no worker waits with it, and each failure leads to a longer delay.",
            (_email(payloads),),
        ),
        Act(
            "Image processing: slow work, two at a time",
            "The file says prefetch 2: the broker hands out two pictures, the third waits until one is done.",
            tuple(_photo(payloads, f"photo-{number}") for number in (1, 2, 3)),
        ),
        Act(
            "Billing: the bank never answers",
            "After the last attempt the message becomes a dead letter, with its reason and its history, "
            "in a queue that has an owner. Nothing is retried for ever, nothing is thrown away.",
            (_invoice(payloads),),
        ),
        Act(
            "One event, two readers: enrichment fails once, the report never notices",
            "Each reader has its own queue. A retry returns to the queue that failed and not through "
            "the exchange, so the other reader does not see the event twice.",
            (_lead(payloads),),
        ),
        Act(
            "An invalid message: no address to send to",
            "It fails validation before any handler sees it. No retry can help, so there is none. "
            "Its bytes are kept as they came.",
            (_nonsense(),),
        ),
        Act(
            "A poison message: it kills every worker that touches it",
            "The broker takes it back and counts. At the delivery limit of the file, which is 3, "
            "no further worker is risked.",
            (_bomb(payloads),),
        ),
    )


def _email(payloads: ModuleType) -> Sent:
    content = payloads.EmailSend(to="ann@example.com", template="welcome")
    return Sent("welcome", content, (Expected("email.send", HANDLED, 3),))


def _photo(payloads: ModuleType, name: str) -> Sent:
    content = payloads.ImageResize(path=f"{name}.jpg", width=800)
    return Sent(name, content, (Expected("image.resize", HANDLED, 1),))


def _invoice(payloads: ModuleType) -> Sent:
    content = payloads.BillingCharge(invoice="2026-17", card="4242", cents=1990)
    return Sent("invoice", content, (Expected("billing.charge", "exhausted", 4),))


def _lead(payloads: ModuleType) -> Sent:
    content = payloads.LeadCreated(lead="lead-7", company="Example Ltd")
    return Sent("lead", content, (Expected("lead.enrich", HANDLED, 2), Expected("lead.report", HANDLED, 1)))


def _nonsense() -> Sent:
    body = b'{"template": "welcome"}'
    content = Stranger("shop", "email.send.welcome", "email.send", body)
    return Sent("nonsense", content, (Expected("email.send", "invalid", 0),))


def _bomb(payloads: ModuleType) -> Sent:
    content = payloads.ImageResize(path="picture.bomb", width=800)
    return Sent("bomb", content, (Expected("image.resize", "crashed", 3),))
