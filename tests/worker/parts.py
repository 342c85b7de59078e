"""What the worker's tests share: one payload, one topology, consumers made of functions."""

import asyncio
from collections.abc import Callable
from typing import Any

from amqpkit import Consumer, Context, Payload
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.events import Event, Settled
from amqpkit.model import Topology


class Task(Payload, type="task"):
    """The payload of these tests."""

    name: str = "t"


FILE = """
version: 1
work_queues:
  task:
    consume: {prefetch: 10, concurrency: 2, timeout: 30s}
    retry: {delays: [10s, 1m]}
"""


def topology(text: str = FILE) -> Topology:
    return compile_topology(parse([("test.yaml", text)], {}))


class Does(Consumer[Task], queue="task"):
    """Does what its function says, and remembers."""

    def __init__(self, does: Callable[[Task, Context], Any] = lambda _task, _context: None) -> None:
        self.does = does
        self.seen: list[Context] = []
        self.cancelled = 0

    async def handle(self, payload: Task, context: Context) -> object:
        self.seen.append(context)
        try:
            result = self.does(payload, context)
            return await result if asyncio.iscoroutine(result) else result
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class DoesInThread(Consumer[Task], queue="task"):
    """The same as a plain function."""

    def __init__(self, does: Callable[[Task, Context], Any]) -> None:
        self.does = does

    def handle(self, payload: Task, context: Context) -> object:
        return self.does(payload, context)


def outcomes(events: list[Event]) -> list[tuple[str, str | None, str]]:
    return [(e.outcome.value, e.delay or e.fate, e.reason) for e in events if isinstance(e, Settled)]
