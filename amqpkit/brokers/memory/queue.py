"""What one queue holds: what waits, what consumers have, what its dead-letter exchange has not taken yet.

Pure: time is an argument in milliseconds; knows no exchange, no channel's client, no clock.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

from amqpkit.brokers.memory.channel import Consumer, Outstanding
from amqpkit.brokers.memory.line import ClassicLine, Line, QuorumLine
from amqpkit.brokers.memory.policy import Settings
from amqpkit.brokers.memory.profile import Profile
from amqpkit.brokers.memory.stored import Stored
from amqpkit.model import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

_REOPEN_AT = 0.8
"""A quorum queue that refused takes messages again at this part of its limit (broker-measured)."""


class Way(Enum):
    """How a message comes back from a consumer."""

    NACK = auto()
    REJECT = auto()
    CLOSED = auto()
    TIMEOUT = auto()


@dataclass(slots=True)
class Held:
    """A dead letter that at-least-once keeps in its source; `settled` targets have taken it, `due` is the next try."""

    stored: Stored
    settled: set[str] = field(default_factory=set)
    due: int = 0


def given_back(stored: Stored, way: Way, *, quorum: bool, profile: Profile) -> Stored:
    """Count a give-back: on 4.3 all but nacks and timeouts count, in classic queues too (probed).

    On 4.0 every way counts in a quorum queue, and a lost channel adds to what is carried besides (probed).
    """
    modern = profile.since_4_3
    counts = way in (Way.REJECT, Way.CLOSED) if modern else quorum
    return replace(
        stored,
        redelivered=True,
        acquired_count=stored.acquired_count + 1,
        delivery_count=stored.delivery_count + counts,
        carried_count=stored.carried_count + (way is Way.CLOSED and quorum and not modern),
    )


def discarded(stored: Stored, way: Way, *, quorum: bool, profile: Profile) -> Stored:
    """Count a refusal without requeue.

    On 4.3 `basic.reject` counts, in either type of queue; on 4.0 any refusal by a quorum queue adds to what is
    carried, which is then all that survives (probed).
    """
    if profile.since_4_3:
        return replace(stored, delivery_count=stored.delivery_count + 1) if way is Way.REJECT else stored
    return replace(stored, carried_count=stored.carried_count + quorum)


def arrived(stored: Stored, serial: int, *, quorum: bool, profile: Profile) -> Stored:
    """Begin to count in a new queue: 4.3 carries and enforces the old count, 4.0 shows what is carried."""
    carried = stored.total_count if profile.since_4_3 else stored.carried_count
    return replace(
        stored,
        serial=serial,
        carried_count=carried,
        delivery_count=0,
        acquired_count=0,
        redelivered=carried > 0 and (quorum or profile.since_4_3),
    )


def over_limit(stored: Stored, limit: int | None, profile: Profile) -> bool:
    """Say whether a message that comes back, in whatever way, has been out too often."""
    count = stored.total_count if profile.since_4_3 else stored.delivery_count
    return limit is not None and count > limit


class QueueState:
    """One declared queue and everything in it."""

    def __init__(self, declared: Queue, settings: Settings, profile: Profile) -> None:
        """Start empty."""
        self.declared = declared
        self.settings = settings
        self.profile = profile
        self.line: Line = (
            QuorumLine(since_4_3=profile.since_4_3)
            if declared.type == "quorum"
            else ClassicLine(declared.arguments.get("x-max-priority", 0))
        )
        self.unacked: dict[int, Outstanding] = {}
        self.held: list[Held] = []
        self.consumers: deque[Consumer] = deque()
        self.rejecting = False
        self.deleted = False
        self.alarm: tuple[int, Callable[[], None]] | None = None

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.declared.name

    @property
    def quorum(self) -> bool:
        """Whether it is a quorum queue; else it is a classic one."""
        return self.declared.type == "quorum"

    def refuses(self, stored: Stored, *, confirmed: bool) -> bool:
        """Say whether a message is refused: by a classic queue at its limit, by a quorum one once that was passed.

        A quorum queue refuses only whom it confirms: an at-most-once dead letter gets in (probed).
        """
        if not self.settings.overflow.startswith("reject-publish"):
            return False
        return (self.rejecting and confirmed) if self.quorum else self._over(1, len(stored.body))

    def push(self, stored: Stored, now: int) -> None:
        """Take a message, fixing its deadline: the smaller of the queue's TTL and its own."""
        own = stored.properties.expiration
        ttls = [ttl for ttl in (self.settings.ttl, None if own is None else int(own)) if ttl is not None]
        # A TTL of 0 lives for a millisecond in a quorum queue (broker-read), long enough for a waiting consumer.
        deadline = now + max(min(ttls), int(self.quorum)) if ttls else None
        self.line.push(replace(stored, deadline=deadline))

    def evaluate(self) -> None:
        """Close a quorum queue that is over its limit, reopen one that has fallen to 80 % of it."""
        if self.settings.overflow != "reject-publish":
            self.rejecting = False
        elif self._over(0, 0):
            self.rejecting = True
        elif not self._over(0, 0, part=_REOPEN_AT):
            self.rejecting = False

    def too_many(self) -> bool:
        """Say whether drop-head must drop a waiting message; what consumers have does not count."""
        return self.settings.overflow == "drop-head" and len(self.line) > 0 and self._over(0, 0)

    def _over(self, more: int, more_bytes: int, *, part: float = 1.0) -> bool:
        settings = self.settings
        if settings.max_length is not None and len(self.line) + len(self.held) + more > settings.max_length * part:
            return True
        if settings.max_bytes is None:
            return False
        return self._bytes() + more_bytes > settings.max_bytes * part

    def _bytes(self) -> int:
        return sum(len(stored.body) for stored in self.line) + sum(len(held.stored.body) for held in self.held)

    def overdue(self, now: int) -> Outstanding | None:
        """Find a delivery whose acknowledgement is too late."""
        late = (out for out in self._oldest() if (due := self.timeout_of(out)) is not None and due <= now)
        return next(late, None)

    def _oldest(self) -> list[Outstanding]:
        """List what may time out next: on 4.3 the first one out, on 4.0 any, as each channel has its own tick."""
        if self.profile.since_4_3:
            return list(islice(self.unacked.values(), 1))
        return list(self.unacked.values())

    def timeout_of(self, out: Outstanding) -> int | None:
        """Say when the broker loses patience: exactly on 4.3, at a channel's 60 s tick on 4.0 (broker-measured)."""
        timeout = self.settings.consumer_timeout
        if timeout is None:
            return None
        if self.profile.since_4_3:
            return out.since + timeout
        opened, tick = out.consumer.channel.opened, 60_000
        return opened - (opened - out.since - timeout) // tick * tick

    def next_event(self) -> int | None:
        """Say when something will happen here without anybody's doing."""
        times = [self.line.next_deadline(), *(held.due for held in self.held), *map(self.timeout_of, self._oldest())]
        return min((time for time in times if time is not None), default=None)

    def messages(self) -> list[Stored]:
        """List all that is here: dead letters held, then what consumers have, then what waits, in order."""
        taken = (out.stored for out in self.unacked.values())
        return [*(held.stored for held in self.held), *taken, *self.line]
