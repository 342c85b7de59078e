"""The one-line way to a broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.credentials import apart
from amqpkit.brokers.url import BrokerURL
from amqpkit.events import OnEvent, ignore
from amqpkit.ports import Transport


@asynccontextmanager
async def connect(
    url: str | BrokerURL,
    *,
    user: str | None = None,
    password: str | None = None,
    name: str = "amqpkit",
    on_event: OnEvent = ignore,
) -> AsyncIterator[Transport]:
    """Open a transport to the broker at an AMQP URL and close it afterwards; one serves publishers and workers.

    `user` and `password`, not encoded, are for a URL without them; `broker_url` reads all of it from the environment.
    `name` is what the broker's connection list shows. Raises BrokerError when the URL cannot be read or says otherwise
    than `user` and `password`, AccessRefused at once, ConnectionFailed when nobody answers.
    """
    transport = AioTransport(apart(url, user, password), name=name, on_event=on_event)
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()
