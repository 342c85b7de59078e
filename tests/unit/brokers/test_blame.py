"""Whose fault a closed channel is: the broker's words as they were measured on 4.3.6 and 4.0.5."""

from dataclasses import dataclass, field

import pytest

from amqpkit.brokers.blame import Loss, blame
from amqpkit.errors import MessageTooLarge, Unroutable, Unsendable
from amqpkit.model import Message, Properties


@dataclass(eq=False)
class Sent:
    name: str
    exchange: str = ""
    message: Message = field(default_factory=lambda: Message(b""))


PLAIN = Sent("plain")
OLD, NEW = Sent("old", "it's"), Sent("new", "it's")
BIG = Sent("big", message=Message(b"x" * 9))
POSER = Sent("poser", message=Message(b"", Properties(user_id="bob")))
HASTY = Sent("hasty", message=Message(b"", Properties(expiration="12x")))
EVERYBODY = [PLAIN, OLD, BIG, NEW, POSER, HASTY, Sent("last")]

SIZE = "PRECONDITION_FAILED - message size 9 is larger than configured max size 8"
USER = "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'"


@pytest.mark.parametrize(
    ("cause", "culprit", "kind", "exchange"),
    [
        (Loss(404, "NOT_FOUND - no exchange 'it's' in vhost '/'"), NEW, Unroutable, "it's"),
        (Loss(404, "NOT_FOUND - no exchange 'other' in vhost '/'"), None, Unroutable, "other"),
        (Loss(404, "NOT_FOUND - no queue 'q' in vhost '/'"), None, Unsendable, None),
        (
            Loss(403, "ACCESS_REFUSED - cannot publish to internal exchange 'it's' in vhost '/'"),
            NEW,
            Unsendable,
            "it's",
        ),
        (Loss(406, SIZE), BIG, MessageTooLarge, None),
        (Loss(406, USER), POSER, Unsendable, None),
        (Loss(406, "PRECONDITION_FAILED - invalid expiration '12x': leftover_string"), HASTY, Unsendable, None),
        (Loss(406, "PRECONDITION_FAILED - something new"), None, Unsendable, None),
        (Loss(0, "connection reset"), None, Unsendable, None),
        (Loss(320, "CONNECTION_FORCED - operator"), None, Unsendable, None),
    ],
)
def test_the_broker_names_the_culprit(cause: Loss, culprit: Sent | None, kind: type, exchange: str | None):
    verdict = blame(cause, EVERYBODY)

    assert (verdict.culprit, verdict.kind, verdict.exchange) == (culprit, kind, exchange)


def test_the_sender_of_a_message_to_an_exchange_that_is_gone_is_told_the_remedy():
    verdict = blame(Loss(404, "NOT_FOUND - no exchange 'it's' in vhost '/'"), EVERYBODY)

    assert verdict.reason == 'exchange "it\'s" does not exist on the broker; run `amqpkit apply` first'


def test_a_lone_message_is_the_culprit_whatever_the_broker_says():
    assert blame(Loss(406, "PRECONDITION_FAILED - something new"), [PLAIN]).culprit is PLAIN


def test_a_lone_message_is_not_blamed_for_a_lost_connection():
    assert blame(Loss(0, "connection reset"), [PLAIN]).culprit is None
