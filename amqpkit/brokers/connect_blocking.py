"""The one-line way to a broker for code that blocks."""

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.events import OnEvent, ignore


def connect_blocking(url: str, *, name: str = "amqpkit", on_event: OnEvent = ignore) -> PikaTransport:
    """Open a blocking transport to the broker at an AMQP URL; one serves all threads, and forked children too.

    Close it, or use it in a `with` statement; what a program leaves open is closed at its exit. `name` is what the
    broker's connection list shows. Raises AccessRefused at once, ConnectionFailed when nobody answers.
    """
    transport = PikaTransport(url, name=name, on_event=on_event)
    transport.open()
    return transport
