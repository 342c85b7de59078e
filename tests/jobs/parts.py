"""What the tests of jobs share: an import as a job, and its topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import Field

from amqpkit import Consumer, Context, Payload
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Topology

FILE = """
version: 1
work_queues:
  imports:
    accepts: [csv.import]
    consume: {prefetch: 4, concurrency: 2}
    retry: {delays: [10s, 1m]}
"""


class ImportCsv(Payload, type="csv.import", track=True, secrets_allowed="these tests look whether it is hidden"):
    """The payload of these tests."""

    file: str = "customers.csv"
    rows: int = 2000
    api_key: str = "k-123"
    notes: dict[str, Any] = Field(default_factory=dict)


class QuotaExceeded(Exception):
    """This month's imports are used up."""


class BadRow(ValueError):
    """A row that cannot be."""


class Imports(Consumer[ImportCsv], queue="imports"):
    """Does what its function says."""

    errors: ClassVar[Any] = {
        QuotaExceeded: ("quota", "This month's imports are used up."),
        BadRow: ("bad-input", "The file has a mistake: {error}."),
        TimeoutError: "busy",
    }

    def __init__(self, does: Callable[[ImportCsv, Context], Any] = lambda _payload, _context: None) -> None:
        self.does = does

    async def handle(self, payload: ImportCsv, context: Context) -> object:
        result = self.does(payload, context)
        return await result if hasattr(result, "__await__") else result


class ImportsInThread(Consumer[ImportCsv], queue="imports"):
    """The same in a thread."""

    def __init__(self, does: Callable[[ImportCsv, Context], Any]) -> None:
        self.does = does

    def handle(self, payload: ImportCsv, context: Context) -> object:
        return self.does(payload, context)


def topology(text: str = FILE) -> Topology:
    return compile_topology(parse([("test.yaml", text)], {}))
