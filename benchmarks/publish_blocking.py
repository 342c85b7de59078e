"""What a confirmed publish costs the client: the blocking publisher beside aio-pika and pika, in one run.

    python benchmarks/publish_blocking.py amqp://guest:guest@127.0.0.1:5672/ [messages] [rounds]

Each contender serialises a pydantic model of some 500 bytes for each message and publishes it, persistent and
mandatory, to a quorum queue of its own, which is purged before and deleted after. The figure is CPU time of this
process (user and system, all threads) per message, the median of the rounds, which are interleaved; the broker's own
work is not in it. `transport` is the blocking transport with messages that are made already.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID, uuid4

import aio_pika
import pika
from pydantic import BaseModel

from amqpkit import BlockingPublisher, Payload, connect_blocking
from amqpkit.model import Message, Properties, Route, Topology

WINDOW = 500
EACH = 10
"""One message in so many is enough for those that wait for every confirm."""


class Line(BaseModel):
    """A part of an order."""

    sku: str
    price: Decimal
    quantity: int


class Placed(Payload, type="bench.placed"):
    """An order of a usual size."""

    id: UUID
    customer: str
    total: Decimal
    vat: Decimal
    shipping: Decimal
    note: str
    lines: list[Line]


def order(n: int) -> Placed:
    """Make the n-th order."""
    lines = [Line(sku=f"sku-{n}-{at}", price=Decimal("19.99"), quantity=at) for at in range(4)]
    money = {"total": Decimal("79.96"), "vat": Decimal("12.77"), "shipping": Decimal("4.90")}
    return Placed(id=uuid4(), customer=f"customer-{n}", note="n" * 120, lines=lines, **money)


async def aio(url: str, queue: str, count: int) -> None:
    """aio-pika, as its documentation has it, in a window."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        room = asyncio.Semaphore(WINDOW)

        async def send(n: int) -> None:
            async with room:
                body = order(n).model_dump_json().encode()
                message = aio_pika.Message(
                    body, message_id=str(uuid4()), delivery_mode=aio_pika.DeliveryMode.PERSISTENT, type="bench.placed"
                )
                await channel.default_exchange.publish(message, queue)

        for at in range(0, count, WINDOW):
            await asyncio.gather(*(send(n) for n in range(at, at + WINDOW)))


def blocking(url: str, queue: str, count: int) -> None:
    """Pika's BlockingConnection, which waits for every confirm."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for n in range(count):
        properties = pika.BasicProperties(message_id=str(uuid4()), delivery_mode=2, type="bench.placed")
        channel.basic_publish("", queue, order(n).model_dump_json().encode(), properties, mandatory=True)
    connection.close()


def many(url: str, queue: str, count: int) -> None:
    """`BlockingPublisher.publish_many`."""
    with connect_blocking(url) as transport:
        publisher = BlockingPublisher(Topology(routes={"bench.placed": Route("", queue)}), transport, window=WINDOW)
        outcomes = publisher.publish_many(order(n) for n in range(count))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        raise SystemExit(f"{len(failed)} were not confirmed: {failed[0].error}")


def each(url: str, queue: str, count: int) -> None:
    """`BlockingPublisher.publish`, each awaited."""
    with connect_blocking(url) as transport:
        publisher = BlockingPublisher(Topology(routes={"bench.placed": Route("", queue)}), transport)
        for n in range(count):
            publisher.publish(order(n))


def transport_only(url: str, queue: str, count: int) -> None:
    """The blocking transport alone."""
    body = order(0).model_dump_json().encode()
    with connect_blocking(url) as transport:
        for at in range(0, count, WINDOW):
            futures = [
                transport.publish("", queue, Message(body, Properties(message_id=f"m-{n}", delivery_mode=2)))
                for n in range(at, at + WINDOW)
            ]
            for future in futures:
                future.result()


def serialise(_url: str, _queue: str, count: int) -> None:
    """Make and serialise the models, and nothing else: what all but `transport` have in common."""
    for n in range(count):
        order(n).model_dump_json().encode()


CONTENDERS: dict[str, tuple[Callable[[str, str, int], None], int]] = {
    "aio-pika, window 500": (lambda url, queue, count: asyncio.run(aio(url, queue, count)), 1),
    "amqpkit publish_many": (many, 1),
    "amqpkit transport": (transport_only, 1),
    "pika BlockingConnection, each": (blocking, EACH),
    "amqpkit publish, each": (each, EACH),
    "models alone": (serialise, 1),
}


def measured(run: Callable[[str, str, int], None], url: str, queue: str, count: int) -> float:
    """CPU microseconds per message."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_purge(queue)
    began = time.process_time()
    run(url, queue, count)
    spent = time.process_time() - began
    channel.queue_delete(queue)
    connection.close()
    return spent / count * 1e6


def main() -> None:
    """Run all in turn, and print the medians."""
    url = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5000  # noqa: PLR2004 - arguments
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3  # noqa: PLR2004
    figures: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, (run, share) in CONTENDERS.items():
            figures[name].append(measured(run, url, "amqpkit.benchmark", count // share // WINDOW * WINDOW))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    base = medians["aio-pika, window 500"]
    for name, value in medians.items():
        print(f"{name:<32} {value:7.1f} us  {value / base:5.2f} x aio-pika")


if __name__ == "__main__":
    main()
