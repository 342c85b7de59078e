"""A message on its way out, and the future that is owed to its sender."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from amqpkit.errors import PublishError
from amqpkit.model import Message


def promise() -> Future[None]:
    """Make a future that nobody can cancel: who no longer wants to wait just stops waiting."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(slots=True, eq=False)
class Parcel:
    """A message, encoded, with its deadline in seconds of `time.monotonic`; `message_id` is what the broker knows."""

    exchange: str
    routing_key: str
    message: Message
    mandatory: bool
    deadline: float
    message_id: str | None
    address: tuple[bytes, bytes] = (b"", b"")
    properties: bytes = b""
    number: int = 0
    sent: bool = False
    late: bool = False
    future: Future[None] = field(default_factory=promise)

    def fail(self, kind: type[PublishError], reason: str) -> None:
        """Tell its sender, once."""
        if not self.future.done():
            message_id = self.message.properties.message_id or ""
            self.future.set_exception(
                kind(reason, exchange=self.exchange, routing_key=self.routing_key, message_id=message_id)
            )

    def succeed(self) -> None:
        """Tell its sender, once."""
        if not self.future.done():
            self.future.set_result(None)
