"""Message properties as pamqp has them: bytes that were encoded before, and values that it has decoded. Pure."""

from pamqp.commands import Basic

from amqpkit.brokers.tables import opened, stamp_of
from amqpkit.model import Properties


class Encoded(Basic.Properties):
    """Properties that were encoded before; pamqp asks them for their bytes like any others."""

    def __init__(self, encoded: bytes) -> None:
        """Keep the bytes, flags included."""
        super().__init__()
        self._encoded = encoded

    def marshal(self) -> bytes:
        """Give the bytes."""
        return self._encoded


def decode(raw: Basic.Properties) -> Properties:
    """Read properties that pamqp has decoded, but for the headers, which are read now; absent ones are None."""
    return Properties(
        content_type=raw.content_type,
        content_encoding=raw.content_encoding,
        headers=opened(raw.headers),
        delivery_mode=raw.delivery_mode,
        priority=raw.priority,
        correlation_id=raw.correlation_id,
        reply_to=raw.reply_to,
        expiration=raw.expiration,
        message_id=raw.message_id,
        timestamp=raw.timestamp or stamp_of(raw.headers),
        type=raw.message_type,
        user_id=raw.user_id,
        app_id=raw.app_id,
    )
