"""What the demo sends, and how each message must end: the demo is its own test."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Final

from amqpkit.deliver.payload import Payload
from amqpkit.model import Message, Properties

HANDLED: Final = "handled"


@dataclass(frozen=True, slots=True)
class Expected:
    """How a message ends in one queue: `handled` or a dead letter's fate, after so many calls of the handler.

    `duplicates` are deliveries that were acked without a call, because the message had been handled before.
    """

    queue: str
    end: str
    calls: int
    duplicates: int = 0


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
    """One message, by a name that the reader can follow; `again` has it published a second time after its end.

    `invoice` is what it charges, if it charges something: once in the shop's books if it is handled.
    """

    name: str
    content: Payload | Stranger
    expected: tuple[Expected, ...]
    again: bool = False
    invoice: str = ""
    note: str = ""

    @property
    def charges(self) -> int:
        """How often its invoice must be in the books."""
        return sum(expected.end == HANDLED for expected in self.expected)

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
            "A rolling deploy: a message of version 1, a worker of version 2",
            "Somebody still runs the last release, or the message has waited in a queue since. It is validated as what "
            "it is and upgraded by its class: the handler knows the newest version only.",
            (_old_email(payloads),),
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
        Act(
            "Billing again: the same invoice is sent twice, and charged once",
            "The worker has a store. The handler books its charge in context.transaction(): the row and the end of the "
            "message are one commit in the shop's own database.",
            (_receipt(payloads),),
        ),
        Act(
            "The worst moment: the worker dies after the charge, before the ack",
            "RabbitMQ cannot know that it is done, and delivers it again. The next worker can.",
            (_cursed(payloads),),
        ),
    )


def _email(payloads: ModuleType) -> Sent:
    content = payloads.EmailSend(to="ann@example.com", template="welcome", language="de")
    return Sent("welcome", content, (Expected("email.send", HANDLED, 3),))


def _old_email(payloads: ModuleType) -> Sent:
    # to an address that the provider has failed for already
    content = payloads.EmailSendV1(to="ann@example.com", template="news")
    return Sent("news", content, (Expected("email.send", HANDLED, 1),), note="version 1")


def _photo(payloads: ModuleType, name: str) -> Sent:
    content = payloads.ImageResize(path=f"{name}.jpg", width=800)
    return Sent(name, content, (Expected("image.resize", HANDLED, 1),))


def _invoice(payloads: ModuleType) -> Sent:
    content = payloads.BillingCharge(invoice="2026-17", card="unreachable", cents=1990)
    return Sent("invoice", content, (Expected("billing.charge", "exhausted", 4),), invoice="2026-17")


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


def _receipt(payloads: ModuleType) -> Sent:
    content = payloads.BillingCharge(invoice="2026-18", card="4242", cents=2990)
    return Sent("twice", content, (Expected("billing.charge", HANDLED, 1, 1),), again=True, invoice="2026-18")


def _cursed(payloads: ModuleType) -> Sent:
    content = payloads.BillingCharge(invoice="2026-19", card="fatal", cents=3990)
    return Sent("crash", content, (Expected("billing.charge", HANDLED, 1, 1),), invoice="2026-19")
