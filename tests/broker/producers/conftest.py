"""Each test of a producer runs on every kind there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.broker.producers.kinds import KINDS, Producer
from tests.broker.producers.rig import applied
from tests.containers.brokers import Broker

Make = Callable[..., Awaitable[Producer]]


@pytest.fixture(params=sorted(KINDS))
async def make(request: pytest.FixtureRequest, broker: Broker) -> AsyncIterator[Make]:
    """Make producers of one kind on the shared broker, with the topology applied; they are closed afterwards."""
    topology, made = await applied(broker), list[Producer]()

    async def one(url: str | None = None, **settings: Any) -> Producer:
        made.append(await KINDS[request.param](topology, url or broker.url, **settings))
        return made[-1]

    yield one
    for producer in made:
        await producer.close()
