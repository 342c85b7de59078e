"""A topology in a virtual host, producers on it, and the books: what was told of each message, and what is there."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.deliver.outgoing import Outcome
from amqpkit.deliver.payload import Payload
from amqpkit.events import Fate
from amqpkit.model import Topology
from amqpkit.operate.apply import apply
from amqpkit.ports import Delivery
from tests.containers.brokers import Broker

FILE = """
version: 1
work_queues:
  flood: {max-length: 1000}
  gated: {limits: {depth: 1000}, max-length: 10000}
  plain: {}
"""


class Flood(Payload, type="flood"):
    """To a queue of 1000 that refuses more."""

    n: int = 0
    text: str = ""


class Gated(Payload, type="gated"):
    """To a queue whose publishers are held above 1000."""

    n: int = 0


class Plain(Payload, type="plain"):
    """To a queue without limits."""

    n: int = 0
    text: str = ""


async def applied(broker: Broker, text: str = FILE) -> Topology:
    """Compile a file and make it true in the broker's virtual host."""
    topology = compile_topology(parse([("test.yaml", text)], {}))
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(topology, admin)
    return topology


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Wait until a condition holds; raises AssertionError when it does not in time."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


async def contents(broker: Broker, queue: str) -> list[str]:
    """Take every message out of a queue and give their ids, once nothing has come for a while."""
    transport = AioTransport(broker.url)
    await transport.open()
    found: list[str] = []

    def take(delivery: Delivery) -> None:
        found.append(delivery.properties.message_id or "")
        delivery.ack()

    try:
        subscription = await transport.consume(queue, prefetch=1000, deliver=take)
        seen, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < 0.5:
            if len(found) != seen or await transport.depth(queue):
                seen, quiet_since = len(found), time.monotonic()
            await asyncio.sleep(0.05)
        await subscription.close()
    finally:
        await transport.close()
    return found


def balance(outcomes: Iterable[Outcome], stored: list[str], sent: int) -> Counter[Fate]:
    """Add up the books of one queue that had no other publisher; returns how many ended how.

    Each message has one outcome and one id. What was confirmed is there, once; what is there beyond that was called
    uncertain. Nothing else is there: a nack by the one queue of the default exchange, a timeout, an alarm and an
    overload all mean that nothing was stored.
    """
    outcomes = list(outcomes)
    assert sorted(outcome.index for outcome in outcomes) == list(range(sent))
    assert len({outcome.message_id for outcome in outcomes}) == sent
    confirmed = {outcome.message_id for outcome in outcomes if outcome.fate is Fate.CONFIRMED}
    uncertain = {outcome.message_id for outcome in outcomes if outcome.fate is Fate.UNCERTAIN}
    assert len(stored) == len(set(stored)), "a message is there twice"
    assert confirmed <= set(stored), "what was confirmed is missing"
    assert set(stored) <= confirmed | uncertain, "something is there that nobody named"
    return Counter(outcome.fate for outcome in outcomes)
