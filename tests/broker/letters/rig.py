"""What the tests of dead letters share: letters in a queue, commands in processes, and who is where afterwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.model import Message, Properties
from amqpkit.ports import Delivery
from tests.broker.letters.victim import Settings
from tests.broker.life.rig import until

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()
BODY = json.dumps({"failures": 0}).encode()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended (negative: by a signal), and what it told if it could."""

    status: int
    told: dict[str, Any]


class Nursery:
    """The process that forks the others."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.letters.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def close(self) -> None:
        """End it."""
        self._parent.communicate()

    async def run(self, settings: Settings) -> Ended:
        """Run a process to its end, whichever that is."""
        return await asyncio.to_thread(self._run, settings)

    def _run(self, settings: Settings) -> Ended:
        out = Path(settings.out)
        out.unlink(missing_ok=True)
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(asdict(settings)) + "\n")
        status = int(self._parent.stdout.readline())
        return Ended(status, json.loads(out.read_text()) if out.exists() else {})


async def bury(transport: AioTransport, ids: list[str], queue: str = "work.dlq", **properties: Any) -> list[str]:
    """Put letters into a queue, many at a time and in order."""
    for at in range(0, len(ids), 1000):
        await asyncio.gather(
            *(
                transport.publish(
                    "", queue, Message(BODY, Properties(message_id=each, type="note", delivery_mode=2, **properties))
                )
                for each in ids[at : at + 1000]
            )
        )
    return ids


def numbered(count: int) -> list[str]:
    """Ids for so many letters."""
    return [f"m-{number}" for number in range(count)]


async def take_all(transport: AioTransport, queue: str) -> list[Delivery]:
    """Take everything out of a queue that nobody else uses, in order."""
    count = await transport.depth(queue)
    taken: list[Delivery] = []

    def take(delivery: Delivery) -> None:
        taken.append(delivery)
        delivery.ack()

    subscription = await transport.consume(queue, prefetch=1000, deliver=take)
    await until(lambda: len(taken) >= count, f"all of {queue} is taken", within=60)
    await subscription.close()
    return taken


async def ids_in(transport: AioTransport, queue: str) -> list[str | None]:
    """Take everything out of a queue, and name it."""
    return [delivery.properties.message_id for delivery in await take_all(transport, queue)]


async def all_back(transport: AioTransport, queue: str, count: int) -> None:
    """Wait until what a dead process held is back."""

    async def there() -> bool:
        return await transport.depth(queue) >= count

    await until(there, f"{count} letters are back in {queue}")


def doubled(ids: list[str | None]) -> set[str]:
    """What is there more than once."""
    return {each for each, count in Counter(ids).items() if each is not None and count > 1}
