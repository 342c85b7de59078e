"""The one-line way to a broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.events import OnEvent, ignore
from amqpkit.ports import Transport


@asynccontextmanager
async def connect(url: str, *, name: str = "amqpkit", on_event: OnEvent = ignore) -> AsyncIterator[Transport]:
    """Open a transport to the broker at an AMQP URL and close it afterwards; one serves publishers and workers.

    `name` is what the broker's connection list shows. Raises AccessRefused at once, ConnectionFailed when nobody
    answers.
    """
    transport = AioTransport(url, name=name, on_event=on_event)
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()
