"""A transport in a virtual host of the test's own, and its broker seen through the management API and a raw client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.broker.aio.rig import Rig
from tests.containers.brokers import Broker


@pytest.fixture
async def rig(broker: Broker) -> AsyncIterator[Rig]:
    """An open transport on the shared broker."""
    rig = Rig(broker)
    await rig.transport.open()
    yield rig
    await rig.transport.close()
