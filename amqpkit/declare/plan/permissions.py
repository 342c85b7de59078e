"""Which permissions on names a plan takes, and which of them a user's patterns do not give. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import DEFAULT_EXCHANGE, POLICYMAKER, Change, Delete
from amqpkit.declare.policies import readable
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Rights

MOST: Final = 25
"""Changes that a broker is asked about: each answer may cost a channel, and a line in the broker's log."""
_PLUG: Final = f"write {DEFAULT_EXCHANGE}"


def needs(change: Change) -> tuple[str, ...]:
    """Give what a change takes that is no tag: `configure email.send`."""
    return tuple(need for need in judged.requires(change) if need != POLICYMAKER)


def lacking(change: Change, rights: Rights) -> tuple[str, ...]:
    """Give what a change takes and the patterns do not give; one that only RabbitMQ can read gives all.

    RabbitMQ searches for a pattern, and an empty one is `^$`, which no name is (rabbit_auth_backend_internal).
    """
    return tuple(need for need in needs(change) if not _gives(rights, need))


def _gives(rights: Rights, need: str) -> bool:
    permission, _, name = need.partition(" ")
    pattern = readable(getattr(rights, permission) or "^$")
    return pattern is None or pattern.search(name.encode("utf-8", "surrogatepass")) is not None


def questions(change: Change) -> tuple[Queue | Exchange | Binding, ...]:
    """Give the objects that stand for a change when a broker is asked; none for what takes a tag.

    To delete takes no permission on what the object dead-letters to. Who may bind the default exchange may publish to
    it, so an impossible binding stands for that; what else it would take is in no need of the change.
    """
    declared: DeclaredObject = judged.subject(change)
    if isinstance(declared, Policy):
        return ()
    if not isinstance(change, Delete) or isinstance(declared, Binding):
        return (declared,)
    bare = replace(declared, arguments=MappingProxyType({}))
    return (bare, Binding("", "", destination_type="exchange")) if _PLUG in needs(change) else (bare,)


def sample(changes: Iterable[Change], most: int = MOST) -> tuple[Change, ...]:
    """Pick at most so many changes with names, evenly over each kind; of those that take the same, one."""
    kinds: dict[type, dict[tuple[str, ...], Change]] = defaultdict(dict)
    for change in changes:
        if asked := questions(change):
            kinds[type(asked[0])].setdefault(needs(change), change)
    chosen: list[Change] = []
    smallest_first = sorted(kinds.values(), key=len)
    for position, kind in enumerate(smallest_first):
        share = (most - len(chosen)) // (len(smallest_first) - position)
        chosen += _evenly(tuple(kind.values()), share)
    return tuple(chosen)


def _evenly(changes: Sequence[Change], most: int) -> Iterable[Change]:
    count = min(most, len(changes))
    return (changes[position * (len(changes) - 1) // max(count - 1, 1)] for position in range(count))
