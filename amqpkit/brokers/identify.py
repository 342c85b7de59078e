"""Ask a broker over AMQP who it is, so that nothing is declared through somebody else's management API."""

from amqpkit.brokers.aio.session import Address, connect, hang_up
from amqpkit.brokers.url import BrokerURL
from amqpkit.ports import BrokerInfo


async def identify(url: BrokerURL, *, timeout: float = 10.0) -> BrokerInfo:  # noqa: ASYNC109 - the client has its own
    """Connect for a moment and read who answers; raises AccessRefused, ConnectionFailed within `timeout` seconds."""
    link = await connect(Address(url, "amqpkit identify", heartbeat=10, timeout=timeout))
    try:
        return link.info
    finally:
        await hang_up(link)
