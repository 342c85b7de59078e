"""A message on its way to the in-memory broker, and what its sender is told of it."""

from typing import Final

from amqpkit.brokers.blame import no_exchange
from amqpkit.brokers.memory.channel import Fate
from amqpkit.errors import Nacked, PublishError, PublishUncertain, Unroutable, Unsendable
from amqpkit.model import Message

_ERRORS: Final[dict[Fate, type[PublishError]]] = {
    Fate.RETURNED: Unroutable,
    Fate.MISSING: Unroutable,
    Fate.NACKED: Nacked,
    Fate.REFUSED: Unsendable,
    Fate.UNKNOWN: PublishUncertain,
}


class Parcel:
    """What both transports know of a publish; how its sender waits is each one's own."""

    def __init__(self, exchange: str, routing_key: str, message: Message, *, mandatory: bool) -> None:
        """Not sent yet."""
        self.exchange, self.routing_key, self.message, self.mandatory = exchange, routing_key, message, mandatory
        self.sent = False

    def failure(self, kind: type[PublishError], reason: str) -> PublishError:
        """Name this message in an error."""
        identity = self.message.properties.message_id or ""
        return kind(reason, exchange=self.exchange, routing_key=self.routing_key, message_id=identity)

    def error_of(self, fate: Fate, reason: str) -> PublishError | None:
        """Say what the broker's answer means to the sender; None: the message is stored."""
        kind = _ERRORS.get(fate)
        if fate is Fate.MISSING:
            reason = no_exchange(self.exchange)
        return None if kind is None else self.failure(kind, reason)
