"""A blocking transport in a virtual host of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.blocking.rig import Rig
from tests.containers.brokers import Broker


@pytest.fixture
def rig(broker: Broker) -> Iterator[Rig]:
    """An open transport on the shared broker."""
    rig = Rig(broker)
    rig.transport.open()
    yield rig
    rig.transport.close()
