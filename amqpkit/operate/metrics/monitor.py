"""A worker that can be watched: its metrics, what is in its queues, and whether it is healthy, over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from amqpkit.deliver.worker import Worker
from amqpkit.errors import BrokerError
from amqpkit.operate.health import trouble_of
from amqpkit.operate.metrics.collector import BrokerCollector, NewsCollector
from amqpkit.operate.metrics.listener import Metrics
from amqpkit.operate.metrics.server import Asked, Face, serving
from amqpkit.operate.observe import Observer, Reading
from amqpkit.ports import Statistics

BROKER_TIMEOUT: Final = 4.0
"""Seconds for the broker to answer; less than what a stuck loop is given, so that the two can be told apart."""
T = TypeVar("T")


@asynccontextmanager
async def watched(  # noqa: PLR0913 - the parts of what is shown, and where
    worker: Worker, metrics: Metrics, observer: Observer, statistics: Statistics, *, host: str, port: int
) -> AsyncIterator[int]:
    """Serve `/metrics` and `/healthz` of a worker while the context lasts, and give the port.

    A scrape reads the queues that the worker consumes, at most every five seconds. Raises OSError when the port cannot
    be had.
    """
    loop, collector = asyncio.get_running_loop(), BrokerCollector()
    metrics.registry.register(collector)
    metrics.registry.register(NewsCollector(worker.job_news))
    queues = [consumer.queue for consumer in worker.consumers]

    async def read() -> None:
        known: Sequence[Reading] = ()
        try:
            async with asyncio.timeout(BROKER_TIMEOUT):
                known = await observer.depths(queues)  # first: a management API that hangs must not take them along
                collector.show(await observer.read(queues))
        except (BrokerError, TimeoutError):
            collector.fail(known)

    async def trouble() -> str | None:
        try:
            return await _in_time(trouble_of(worker.subscriptions, statistics, ready=worker.ready))
        except TimeoutError:
            return f"the broker has not answered within {BROKER_TIMEOUT:g} s"

    asked = Asked(read, loop)
    face = Face(metrics.registry, lambda: _or_else(asked, collector), _or_text(Asked(trouble, loop)))
    with serving(face, host=host, port=port) as bound:
        yield bound


async def _in_time(answer: Awaitable[T]) -> T:
    async with asyncio.timeout(BROKER_TIMEOUT):
        return await answer


def _or_else(asked: Asked, collector: BrokerCollector) -> None:
    try:
        asked()
    except TimeoutError:
        collector.fail()


def _or_text(asked: Asked) -> Callable[[], str | None]:
    def trouble() -> Any:
        try:
            return asked()
        except TimeoutError as error:
            return str(error)

    return trouble
