"""What changes a vhost of a real broker, and what looks at its queues."""

import pytest

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL


@pytest.fixture
async def admin(broker):
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as here:
        yield here


@pytest.fixture
async def sentry(broker):
    here = await AioSentry.open(BrokerURL.parse(broker.url), "amqpkit tests")
    yield here
    await here.close()
