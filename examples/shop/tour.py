"""The nine decisions of a queue in production, driven and checked one after the other.

    python -m examples.shop.tour                                       in memory and in virtual time
    python -m examples.shop.tour --url amqp://guest:guest@localhost/   on a RabbitMQ; what it makes there it deletes

Exit codes: 0 all is as promised, 1 a decision is not kept (which one is said), or the broker cannot be used.
"""

import argparse
import asyncio
import inspect
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from amqpkit import Topology, load_topology
from amqpkit.errors import AmqpkitError

from .decisions import DECISIONS, Broken
from .stages import InMemory, Stage, on_broker

TOPOLOGY = Path(__file__).parent / "tour.yaml"


async def tour(stage: Stage) -> int:
    """Drive every decision, tell what was seen, and give the exit code; a later one is driven though one is broken."""
    broken = []
    for number, decision in enumerate(DECISIONS, start=1):
        name = decision.__name__.replace("_", " ")
        print(f"\n{number} {name}: {inspect.getdoc(decision)}")
        try:
            async for seen in decision(stage):
                print(f"  - {seen}")
        except (Broken, AmqpkitError, TimeoutError, ValueError) as error:
            print(f"  BROKEN: {type(error).__name__}: {error}")
            broken.append(name)
    print(f"\nBROKEN: {', '.join(broken)}" if broken else f"\nAll {len(DECISIONS)} are as promised.")
    return 1 if broken else 0


async def play(topology: Topology, url: str | None = None, api: str | None = None) -> int:
    """Play it in memory, or on the broker of a URL; raises BrokerError."""
    if url is None:
        print("In memory, in virtual time.")
        async with InMemory(topology) as stage:
            return await tour(stage)
    async with on_broker(topology, url, api) as stage:
        print(f"On RabbitMQ {stage.transport.broker.version}.")
        return await tour(stage)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and play."""
    parser = argparse.ArgumentParser(prog="python -m examples.shop.tour", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="a broker, as amqp://user:password@host:5672/vhost; without it: in memory")
    parser.add_argument("--api", help="its management API (default: the same host, port 15672)")
    given = parser.parse_args(arguments)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # that the broker ends a consumer is part of the tour
    try:
        return asyncio.run(play(load_topology(TOPOLOGY), given.url, given.api))
    except AmqpkitError as error:
        print(f"the tour cannot be played: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
