"""The demo's worker on a real broker: a process of its own, so that it can really die.

Reads one JSON line from its standard input (the URL, which belongs in no command line, the topology files, and the
database of the shop's books, which is its store too), tells the kit's events as JSON lines on its standard output, and
drains when its input ends: it never outlives the demo.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.cli.demo.shop import crews, find_shop
from amqpkit.declare.load import load_topology
from amqpkit.deliver.worker import Worker
from amqpkit.errors import AmqpkitError
from amqpkit.events import Begun, Consuming, Event, Outcome, Settled
from amqpkit.stores import open_store

_KINDS: Final = {"Begun": Begun, "Consuming": Consuming, "Settled": Settled}


def tell(event: Event) -> None:
    """Print an event that a parent can read, at once: the next moment may be our last."""
    if isinstance(event, Begun | Consuming | Settled):
        print(json.dumps([type(event).__name__, asdict(event)]), flush=True)


def read(line: str | bytes) -> Event:
    """Read what `tell` has printed."""
    kind, fields = json.loads(line)
    if kind == "Settled":
        fields["outcome"] = Outcome(fields["outcome"])
    event: Event = _KINDS[kind](**fields)
    return event


async def work(url: str, files: list[str], database: str) -> None:
    """Run the shop's consumers until the input ends."""
    shop, topology = find_shop(), load_topology(*files)
    store, books = open_store(database), shop.books.open_books(database)
    transport = AioTransport(url, name="amqpkit demo, worker", on_event=tell)
    await store.prepare()
    await transport.open()
    try:
        workers = [
            Worker(topology, crew, transport, store=its_store, on_event=tell, name="demo")
            for crew, its_store in crews(shop.consumers.shop(books), store)
        ]

        def stop() -> None:
            for worker in workers:
                worker.stop()

        await _until_input_ends(stop)
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.run())
    finally:
        await transport.close()
        await store.close()
        books.dispose()


async def _until_input_ends(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    class End(asyncio.Protocol):
        def connection_lost(self, _: Exception | None) -> None:
            stop()

        def eof_received(self) -> None:
            stop()

    await loop.connect_read_pipe(End, sys.stdin)


def main() -> int:
    """Read what to do, do it."""
    for name in ("amqpkit", "aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    orders: dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        asyncio.run(work(orders["url"], orders["files"], orders["database"]))
    except AmqpkitError as error:
        print(f"amqpkit: the demo's worker: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # the parent has it too, and says so
    return 0


if __name__ == "__main__":
    sys.exit(main())
