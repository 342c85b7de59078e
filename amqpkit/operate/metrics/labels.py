"""Which label values there may be: those of the topology and of the consumers, and one word for all others.

Pure. A stranger may send a million types; a Prometheus that kept a series for each would fall over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.deliver.consumer import Consumer
from amqpkit.model import Topology

OTHER: Final = "other"
NONE: Final = "none"
"""What stands for a message that names no type."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The queues and payload types that get series of their own."""

    queues: frozenset[str]
    types: frozenset[str]

    @classmethod
    def of(cls, topology: Topology, consumers: Iterable[Consumer[Any]] = ()) -> "Labels":
        """Take the queues of the file, and the types that are accepted, routed or handled."""
        consumers = tuple(consumers)
        types = {name for work in topology.work_queues.values() for name in work.accepts} | set(topology.routes)
        types |= {payload.payload_type for consumer in consumers for payload in consumer.payloads}
        queues = {queue.name for queue in topology.queues} | {consumer.queue for consumer in consumers}
        return cls(frozenset(queues), frozenset(types))

    def queue(self, name: str) -> str:
        """Give the label for a queue."""
        return name if name in self.queues else OTHER

    def type(self, name: str | None) -> str:
        """Give the label for a payload type."""
        if name is None:
            return NONE
        return name if name in self.types else OTHER


class Few:
    """Lets the first so many different values through, and calls the rest other: for words that only we choose."""

    def __init__(self, most: int = 16) -> None:
        """Start with none."""
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """Give the label."""
        if value not in self._known and len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value
