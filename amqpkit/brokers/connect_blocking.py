"""The one-line way to a broker for code that blocks."""

from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.brokers.credentials import apart
from amqpkit.brokers.url import BrokerURL
from amqpkit.events import OnEvent, ignore


def connect_blocking(
    url: str | BrokerURL,
    *,
    user: str | None = None,
    password: str | None = None,
    name: str = "amqpkit",
    on_event: OnEvent = ignore,
) -> PikaTransport:
    """Open a blocking transport to the broker at an AMQP URL; one serves all threads, and forked children too.

    Close it, or use it in a `with` statement; what a program leaves open is closed at its exit. `user` and `password`,
    not encoded, are for a URL without them; `broker_url` reads all of it from the environment. `name` is what the
    broker's connection list shows. Raises BrokerError when the URL cannot be read or says otherwise than `user` and
    `password`, AccessRefused at once, ConnectionFailed when nobody answers.
    """
    transport = PikaTransport(apart(url, user, password), name=name, on_event=on_event)
    transport.open()
    return transport
