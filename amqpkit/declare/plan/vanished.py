"""Work queues that are in no file any more, each with all of its parts: they go together or not at all. Pure.

The broker knows nothing of work queues, so they are recognised by the names that `naming` gives; whatever is called
like one and is complete enough to work as one is treated as one.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from amqpkit.declare import naming
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology

_PART: Final = re.compile(r"(.+)\.(?:retry\.\d+[a-z]+|dlq)", re.DOTALL)
"""A delay or dead-letter queue, and the work queue that it belongs to."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """A work queue of no file; its queues come in the order in which they may be deleted.

    Killed between two deletions, that order leaves no queue whose messages lack their way on: the work queue goes while
    its retries and dead letters still have a place, the delay queues while what they would give back is in none of
    them, and the dead-letter queue when nobody is left to send it a letter.
    """

    queue: Queue
    queues: tuple[Queue, ...]
    """All of them: the work queue, its delay queues, its dead-letter queue."""
    exchanges: tuple[Exchange, ...]
    bindings: tuple[Binding, ...]
    """Those that lead to its queues and exchanges."""
    policies: tuple[Policy, ...]

    @property
    def parts(self) -> tuple[DeclaredObject, ...]:
        """All that it is made of, the work queue first."""
        return (*self.queues, *self.exchanges, *self.bindings, *self.policies)

    @property
    def inner(self) -> tuple[Binding, ...]:
        """Its bindings between its own parts; they go with them."""
        sources = {exchange(self.queue.name) for exchange in _EXCHANGES}
        return tuple(each for each in self.bindings if each.source in sources)


def vanished(actual: Topology, candidates: Collection[DeclaredObject]) -> tuple[Vanished, ...]:
    """Find the work queues among what may go.

    One is complete enough when it has the four parts that each has, whether they may go or not.
    """
    queues = {each.name for each in actual.queues}
    exchanges = {each.name for each in actual.exchanges}
    roots = {
        each.name: each
        for each in candidates
        if isinstance(each, Queue)
        and naming.dead_queue(each.name) in queues
        and {naming.retry_exchange(each.name), naming.dead_exchange(each.name)} <= exchanges
    }
    return tuple(_assembled(roots, candidates)) if roots else ()


def _assembled(roots: dict[str, Queue], candidates: Iterable[DeclaredObject]) -> Iterable[Vanished]:
    names = {("exchange", exchange(root)): root for root in roots for exchange in _EXCHANGES}
    names |= {("policy", policy(root)): root for root in roots for policy in _POLICIES}
    parts: dict[str, list[DeclaredObject]] = defaultdict(list)
    for each in candidates:
        match each:
            case Queue(name=name):
                root = _root(name, roots)
            case Exchange(name=name):
                root = names.get(("exchange", name))
            case Policy(name=name):
                root = names.get(("policy", name))
            case Binding(destination=name, destination_type="exchange"):
                root = names.get(("exchange", name))
            case Binding(destination=name):
                root = _root(name, roots)
        if root is not None:
            parts[root].append(each)
    for root, queue in roots.items():
        found = parts[root]
        yield Vanished(
            queue,
            tuple(sorted((each for each in found if isinstance(each, Queue)), key=lambda each: _rank(root, each))),
            tuple(each for each in found if isinstance(each, Exchange)),
            tuple(each for each in found if isinstance(each, Binding)),
            tuple(each for each in found if isinstance(each, Policy)),
        )


_EXCHANGES: Final = (naming.retry_exchange, naming.dead_exchange)
_POLICIES: Final = (naming.policy, naming.parts_policy)


def _root(name: str, roots: Collection[str]) -> str | None:
    """Name the work queue that a queue belongs to; one that is a work queue itself is part of no other."""
    if name in roots:
        return name
    part = _PART.fullmatch(name)
    return part[1] if part and part[1] in roots else None


def _rank(root: str, queue: Queue) -> tuple[int, str]:
    return ({root: 0, naming.dead_queue(root): 2}.get(queue.name, 1), queue.name)
