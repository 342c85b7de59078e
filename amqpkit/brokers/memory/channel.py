"""Who talks to the broker: connections, their channels, and the consumers on those. Plain state without a client."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import TYPE_CHECKING

from amqpkit.brokers.memory.stored import Stored

if TYPE_CHECKING:
    from amqpkit.brokers.memory.queue import QueueState


class Fate(Enum):
    """What the broker says of a publish."""

    CONFIRMED = auto()
    RETURNED = auto()
    NACKED = auto()
    MISSING = auto()
    """404, the exchange is not there; closes the channel."""
    REFUSED = auto()
    """403 or 406; closes the channel."""
    UNKNOWN = auto()
    """The channel went before a confirm came: the message may be stored."""


_TAGS = count(1)

Told = Callable[[Fate, str], None]
"""Hears of a publish's fate, with the broker's words."""


@dataclass(eq=False, slots=True)
class Outstanding:
    """One delivery that is not settled; `since` is the instant of delivery in milliseconds."""

    tag: int
    stored: Stored
    queue: "QueueState"
    consumer: "Consumer"
    since: int
    overdue: bool = False


@dataclass(eq=False, slots=True)
class Consumer:
    """One `basic.consume`; `cancelled` hears of a `basic.cancel` by the broker, with the reason."""

    channel: "Channel"
    queue: "QueueState"
    prefetch: int
    deliver: Callable[[Outstanding], None]
    cancelled: Callable[[str], None]
    unsettled: int = 0
    overdue: int = 0
    tag: str = field(default_factory=lambda: f"memory-{next(_TAGS)}")

    @property
    def has_credit(self) -> bool:
        """Whether the broker may send more; one with a late delivery gets nothing until it answers (4.3)."""
        # No prefetch means 2000 on a quorum queue, no bound on a classic one (broker-measured).
        limit = self.prefetch or (2000 if self.queue.quorum else None)
        return not self.overdue and (limit is None or self.unsettled < limit)


@dataclass(eq=False, slots=True)
class Channel:
    """One channel; `closed` hears of its end by the broker's doing, with the reason."""

    connection: "Connection"
    opened: int
    closed: Callable[[str], None]
    alive: bool = True
    unsettled: dict[int, Outstanding] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)
    unconfirmed: list[Told] = field(default_factory=list)
    tags: int = 0


@dataclass(eq=False, slots=True)
class Connection:
    """One connection; `lost` hears of its end by the broker's doing, `blocked` and `unblocked` of the memory alarm."""

    lost: Callable[[str], None]
    unblocked: Callable[[], None]
    alive: bool = True
    blocked: bool = False
    channels: list[Channel] = field(default_factory=list)
