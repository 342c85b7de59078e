"""What stands on the broker while a queue is migrated, and how a run tells the next one what it was about. Pure.

The broker is the only memory: a run that was killed is gone on with by looking at what stands there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from amqpkit.declare import naming
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology

MARK: Final = "x-amqpkit-holds"
"""Names, among a holding queue's arguments, the queue that it stands in for; RabbitMQ keeps what it does not know."""
_SUFFIX: Final = ".migrating"
_BACK: Final = ".migrating.back"
_TRIAL: Final = ".migrating.trial"
_LONGEST: Final = 255
_PRIORITY: Final = 998
"""Above everybody's policies, whose TTLs and limits must not reach the holding queue; below the fence's 999."""
_CARRIED: Final = ("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy")
_NOTE: Final = re.compile(r"\(\?#amqpkit migrate: runs=(\d+) doubled=(\d+)(?: opened=(\d+))?\)$")


@dataclass(frozen=True, slots=True)
class Note:
    """What later runs must know: how many there were, and how many messages may be there twice so far.

    `opened` is what the holding queue held when messages began to reach both queues: what it holds more when they no
    longer do is what may be there twice. None: they reach one of them.
    """

    runs: int = 0
    doubled: int = 0
    opened: int | None = None

    def closed(self, held: int) -> Self:
        """Count what the holding queue holds more than before as there twice."""
        return replace(self, doubled=self.doubled + max(0, held - (self.opened or 0)), opened=None)

    @property
    def comment(self) -> str:
        """Write it as a comment in a regular expression, which policies have and RabbitMQ keeps."""
        opened = "" if self.opened is None else f" opened={self.opened}"
        return f"(?#amqpkit migrate: runs={self.runs} doubled={self.doubled}{opened})"

    @classmethod
    def read(cls, pattern: str) -> Self | None:
        """Read it back from a policy's pattern."""
        found = _NOTE.search(pattern)
        if found is None:
            return None
        runs, doubled, opened = found.groups()
        return cls(int(runs), int(doubled), None if opened is None else int(opened))


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The names and objects of one queue's migration.

    Messages move through fanout exchanges: published straight to a queue, they would lose their routing key, and with
    it the way that their queue dead-letters them; and their CC would send copies elsewhere.
    """

    name: str

    @property
    def fits(self) -> bool:
        """Whether RabbitMQ takes names that are so long."""
        return len(f"{self.name}{_TRIAL}".encode()) <= _LONGEST

    def holding(self, old: Queue | None = None, dead_letters: Mapping[str, Any] | None = None) -> Queue:
        """Give the queue that stands in: without limits, with the old one's dead-letter exchange.

        That is for messages that expire meanwhile. `dead_letters` are the old queue's settings that a policy makes.
        """
        given: dict[str, Any] = {**(dead_letters or {}), **(old.arguments if old else {})}
        carried = {key: given[key] for key in _CARRIED if key in given}
        own: dict[str, Any] = {
            "x-queue-type": "quorum",
            "x-delivery-limit": -1,
            "x-overflow": "reject-publish",
            MARK: self.name,
        }
        return Queue(f"{self.name}{_SUFFIX}", arguments=own | carried)

    @property
    def into(self) -> Exchange:
        """The exchange through which messages move into the holding queue."""
        return Exchange(f"{self.name}{_SUFFIX}", "fanout")

    @property
    def back(self) -> Exchange:
        """The exchange through which they move into the new queue."""
        return Exchange(f"{self.name}{_BACK}", "fanout")

    @property
    def way_in(self) -> Binding:
        """The one way from `into`."""
        return Binding(self.into.name, self.holding().name)

    @property
    def way_back(self) -> Binding:
        """The one way from `back`."""
        return Binding(self.back.name, self.name)

    @property
    def guard_name(self) -> str:
        """The name of the policy that keeps others off the holding queue."""
        return f"amqpkit.{self.name}{_SUFFIX}"

    @staticmethod
    def note_of(guard: Policy) -> Note | None:
        """Read what earlier runs have noted."""
        return Note.read(guard.pattern)

    def guard(self, note: Note) -> Policy:
        """Give the policy that keeps others off the holding queue; its pattern carries the note."""
        definition = {"overflow": "reject-publish", "delivery-limit": -1}
        name = self.holding().name
        return Policy(self.guard_name, f"{naming.pattern(name)}{note.comment}", definition, priority=_PRIORITY)

    def trial(self, wanted: Queue) -> Queue:
        """Give the wanted queue under a name that nobody uses, to see whether the broker would make it."""
        return replace(wanted, name=f"{self.name}{_TRIAL}")

    def foreign(self, there: Topology) -> str:
        """Name what somebody else has under our names, or nothing."""
        holding = self.holding()
        for queue in there.queues:
            if queue.name == holding.name and queue.arguments.get(MARK) != self.name:
                return f"queue {queue.name}"
        for exchange in there.exchanges:
            if exchange.name in {self.into.name, self.back.name} and exchange.type != "fanout":
                return f"exchange {exchange.name}"
        return ""


def unfinished(there: Topology) -> Mapping[str, str]:
    """Give the queues whose migration is not done, each with its holding queue."""
    return {str(queue.arguments[MARK]): queue.name for queue in there.queues if MARK in queue.arguments}
