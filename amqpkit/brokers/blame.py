"""Which message made the broker close the channel, as far as its words tell. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from amqpkit.errors import MessageTooLarge, PublishError, Unroutable, Unsendable
from amqpkit.model import Message

NO_EXCHANGE: Final = re.compile(r"no exchange '(?P<name>.*)' in vhost")
FORBIDDEN: Final = re.compile(r"exchange '(?P<name>.*)' in vhost")
TOO_LARGE: Final = re.compile(r"message size (?P<size>\d+) is larger")


@dataclass(frozen=True, slots=True)
class Loss:
    """How a channel or connection ended: the broker's code (0 when it gave none) and its words."""

    code: int
    reason: str


class Sent(Protocol):
    """What is known of a message here."""

    @property
    def exchange(self) -> str: ...  # noqa: D102 - the protocol's docstring covers it
    @property
    def message(self) -> Message: ...  # noqa: D102


T = TypeVar("T", bound=Sent)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """The message that did it, if one can be told, and what it is told; `exchange` when all for it would fail alike."""

    culprit: T | None = None
    kind: type[PublishError] = Unsendable
    reason: str = ""
    exchange: str | None = None


def no_exchange(name: str) -> str:
    """Say that an exchange is missing and what to do, in the words of QueueMissing."""
    return f'exchange "{name}" does not exist on the broker; run `amqpkit apply` first'


def blame(cause: Loss, sent: Sequence[T]) -> Verdict[T]:
    """Judge a loss by the messages that were under way, oldest first.

    Of several suspects it is the last for which it is certain that it was not stored: it did it, or came after.
    """
    if cause.code not in {403, 404, 406}:
        return Verdict()
    if cause.code in {403, 404}:
        named = (NO_EXCHANGE if cause.code == 404 else FORBIDDEN).search(cause.reason)  # noqa: PLR2004 - AMQP's own
        if named is None:
            return Verdict()
        suspects = [each for each in sent if each.exchange == named["name"]]
        culprit = suspects[-1] if suspects else None
        if cause.code == 404:  # noqa: PLR2004
            return Verdict(culprit, Unroutable, no_exchange(named["name"]), named["name"])
        return Verdict(culprit, Unsendable, cause.reason, named["name"])
    large = TOO_LARGE.search(cause.reason)
    if large is not None:
        suspects = [each for each in sent if len(each.message.body) == int(large["size"])]
        return Verdict(suspects[-1] if suspects else None, MessageTooLarge, cause.reason)
    suspects = [each for each in sent if _is_named(each.message, cause.reason)]
    if not suspects and len(sent) == 1:
        suspects = list(sent)
    return Verdict(suspects[-1] if suspects else None, Unsendable, cause.reason)


def _is_named(message: Message, reason: str) -> bool:
    properties = message.properties
    if "user_id" in reason:
        return properties.user_id is not None and f"'{properties.user_id}'" in reason
    if "expiration" in reason:
        return properties.expiration is not None and properties.expiration in reason
    return False
