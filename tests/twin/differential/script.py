"""Random scripts: a small dead-letter topology and what a client does to it, the same for the same seed.

Pure: knows no broker and no clock. The topology is a work queue with every limit and overflow there is, a delay
queue behind it that leads back or to an end, and a queue on the side that a fanout exchange fills as well:

    fan ─┬─> work ─ dead ─> dlx ─ again ─> wait ─ expired ─> work, or dlx ─ end ─> dlq
         └─> side (expires into nothing)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, TypeVar

from amqpkit.model import Binding, Exchange, Queue, Topology

T = TypeVar("T")

# Generous: what a script does between two waits takes about a second, and must not take as long as this.
TTL_SECONDS = 4.0
WAIT_SECONDS = 4.7
MOST_WAITS = 2


class Settle(Enum):
    """What becomes of a message that was got."""

    ACK = "ack"
    NACK = "nack"
    NACK_REQUEUE = "nack, requeue"
    REJECT = "reject"
    REJECT_REQUEUE = "reject, requeue"
    CLOSE = "close the channel"


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish one message, mandatory, and wait for the broker's answer."""

    message_id: str
    exchange: str
    routing_key: str
    priority: int | None = None
    expiration: str | None = None


@dataclass(frozen=True, slots=True)
class Get:
    """Get a message for each of `settles` on one channel, settle them, first or last one first, close the channel."""

    queue: str
    settles: tuple[Settle, ...]
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until all has expired that had a TTL when the wait began."""

    seconds: float = WAIT_SECONDS


def in_order(taken: Sequence[T], step: Get) -> list[tuple[T, Settle]]:
    """Pair what was got, which may be less than was wanted, with what becomes of it, in the order of settling."""
    pairs = list(zip(taken, step.settles, strict=False))
    return pairs[::-1] if step.backwards else pairs


Step = Publish | Get | Wait


@dataclass(frozen=True, slots=True)
class Script:
    """What is declared, and what happens then, one step after the other."""

    seed: int
    topology: Topology
    steps: tuple[Step, ...]

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of all queues."""
        return tuple(queue.name for queue in self.topology.queues)


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one script's objects: many scripts share a virtual host."""

    seed: int

    def __getitem__(self, name: str) -> str:
        return f"{self.seed}.{name}"


def write_script(seed: int) -> Script:
    """Write the script of a seed."""
    random, names = Random(seed), Names(seed)
    topology = _topology(random, names)
    steps = tuple(_steps(random, names))
    return Script(seed, topology, steps)


def _topology(random: Random, names: Names) -> Topology:
    wait_ends = random.choice([("", names["work"]), (names["dlx"], "end")])
    ttl = round(TTL_SECONDS * 1000)
    return Topology(
        exchanges=(Exchange(names["dlx"], "direct"), Exchange(names["fan"], "fanout")),
        queues=(
            _work_queue(random, names),
            _queue(names["wait"], random.choice(["quorum", "classic"]), message_ttl=ttl, **_dead_letters(*wait_ends)),
            _queue(names["dlq"], "quorum"),
            _queue(names["side"], "classic", message_ttl=ttl),
        ),
        bindings=(
            Binding(names["dlx"], names["wait"], "again"),
            Binding(names["dlx"], names["dlq"], "end"),
            Binding(names["fan"], names["work"]),
            Binding(names["fan"], names["side"]),
        ),
    )


def _work_queue(random: Random, names: Names) -> Queue:
    kind = random.choice(["quorum", "quorum", "classic"])
    quorum = kind == "quorum"
    return _queue(
        names["work"],
        kind,
        max_length=random.choice([None, None, 0, 1, 3]),
        overflow=random.choice([None, "drop-head", "reject-publish", "reject-publish-dlx"]),
        delivery_limit=random.choice([None, 1, 2]) if quorum else None,
        dead_letter_strategy=random.choice([None, "at-least-once"]) if quorum else None,
        **_dead_letters(names["dlx"], "again"),
    )


def _dead_letters(exchange: str, routing_key: str) -> dict[str, str]:
    return {"dead_letter_exchange": exchange, "dead_letter_routing_key": routing_key}


def _queue(name: str, kind: str, **arguments: Any) -> Queue:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items() if value is not None}
    return Queue(name, kind, arguments={"x-queue-type": kind, **given})


def _steps(random: Random, names: Names) -> Iterator[Step]:
    """Publish a few, then do this and that; rarely ack, which ends a story."""
    priorities = [None, 0, 9] if random.random() < 0.3 else [None]
    expirations = [None, None, f"{TTL_SECONDS * 1000:.0f}"] if random.random() < 0.3 else [None]
    settles = [*Settle, *(each for each in Settle if each is not Settle.ACK)]
    waits = 0
    for number in range(random.randint(8, 18)):
        match random.choices(["publish", "get", "wait"], weights=[5, 5, 1] if number > 2 else [1, 0, 0])[0]:
            case "publish":
                exchange, key = random.choice([(names["fan"], ""), ("", names["work"]), ("", names["wait"])])
                yield Publish(f"m{number}", exchange, key, random.choice(priorities), random.choice(expirations))
            case "get":
                queue = names[random.choice(["work", "work", "work", "work", "wait", "dlq"])]
                some = random.choices(settles, k=random.choice([1, 1, 1, 2, 3]))
                yield Get(queue, tuple(some), backwards=random.choice([False, True]))
            case _ if waits < MOST_WAITS:
                waits += 1
                yield Wait()
