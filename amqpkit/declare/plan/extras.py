"""What is there within `owns` and in no file, and how much of it may go. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.identity import address, identity
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.reach import Reach
from amqpkit.declare.plan.rule import some
from amqpkit.declare.plan.vanished import Vanished
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology

FENCE: Final = "amqpkit.fence."
"""How the policies begin that keep publishers out of a queue while it is pruned."""
_PREFIX: Final = "amqpkit."
_DOTS: Final = frozenset({".", ".."})
_UNADDRESSABLE: Final = 'the management API cannot address a name that is "." or ".."; delete it with an AMQP client'


@dataclass(frozen=True, slots=True)
class Kept:
    """Something extra that does not go, and why."""

    declared: DeclaredObject
    reason: str
    parts: tuple[DeclaredObject, ...] = ()
    """What stays with it for the same reason: the other parts of a work queue."""

    @property
    def address(self) -> str:
        """Its name in messages."""
        return address(self.declared)


@dataclass(frozen=True, slots=True)
class Owned:
    """Names, and all that is under them after a dot."""

    names: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Owned":
        """Take `owns` of a file."""
        return cls(frozenset(names))

    def __contains__(self, name: str) -> bool:
        """Whether a name is one of them, or under one of them."""
        if name in self.names:
            return True
        dot = name.find(".")
        while dot >= 0:
            if name[:dot] in self.names:
                return True
            dot = name.find(".", dot + 1)
        return False


def extras(wanted: Topology, actual: Topology) -> tuple[DeclaredObject, ...]:
    """Give what is there, within `owns`, and in no file; a binding belongs to its destination.

    Fences that an interrupted prune has left behind are among them, whatever the queue.
    """
    owned = Owned.of(wanted.owns)
    declared = {identity(each) for each in all_of(wanted)}
    mine = (each for each in all_of(actual) if _is_owned(each, owned))
    return tuple(each for each in mine if identity(each) not in declared)


def all_of(topology: Topology) -> tuple[DeclaredObject, ...]:
    """Give every declared object of a topology."""
    return (*topology.exchanges, *topology.queues, *topology.policies, *topology.bindings)


def is_fence(declared: DeclaredObject) -> bool:
    """Tell whether it is a policy that prune sets for a while."""
    return isinstance(declared, Policy) and declared.name.startswith(FENCE)


def _is_owned(declared: DeclaredObject, owned: Owned) -> bool:
    match declared:
        case Binding(destination=name):
            return name in owned
        case Policy(name=name):
            if name.startswith(FENCE):
                return name.removeprefix(FENCE) in owned
            return name in owned or (name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in owned)
        case Queue(name=name) | Exchange(name=name):
            return name in owned


def prunable(
    wanted: Topology, actual: Actual, candidates: Collection[DeclaredObject], wholes: Iterable[Vanished] = ()
) -> tuple[tuple[DeclaredObject, ...], tuple[Kept, ...]]:
    """Split extras into what may go and what stays: retained, in use, or needed by something that stays.

    Of a vanished work queue all stays when one part does.
    """
    keeping = _Keeping(wanted, actual, candidates, wholes)
    for declared in candidates:
        if reason := keeping.own_reason(declared):
            keeping.keep(declared, reason)
    keeping.spread()
    going = tuple(each for each in candidates if not keeping.keeps(each))
    return going, tuple(keeping.kept)


class _Keeping:
    """What stays, spread along what it needs: a queue its dead-letter exchange, that one its bindings and queues.

    A binding needs both of its ends, but an exchange that stays only as the source of one needs no other binding.
    """

    def __init__(
        self, wanted: Topology, actual: Actual, candidates: Collection[DeclaredObject], wholes: Iterable[Vanished]
    ) -> None:
        self._retained = Owned.of(wanted.retained)
        self._actual = actual
        self._doomed = {identity(each): each for each in candidates}
        self._queues = {each.name: each for each in candidates if isinstance(each, Queue)}
        self._exchanges = {each.name: each for each in candidates if isinstance(each, Exchange)}
        # A fence that was left behind is no need of the queue it locks: it goes, the more when the queue stays.
        self._policies = Reach(each for each in candidates if isinstance(each, Policy) and not is_fence(each))
        self._out: dict[str, list[Binding]] = defaultdict(list)
        for each in candidates:
            if isinstance(each, Binding):
                self._out[each.source].append(each)
        # As it will be: what the file changes is changed before anything is deleted.
        planned = {identity(each): each for each in (*_naming(actual.topology), *_naming(wanted))}
        self._needed = _needs(planned.values(), self._doomed)
        self._bound = _bound(actual.topology.bindings, self._doomed)
        self._whole_of = {identity(part): whole for whole in wholes for part in whole.parts}
        self.kept: list[Kept] = []
        self._seen: set[tuple[object, ...]] = set()
        self._passed: set[str] = set()
        self._ahead: list[DeclaredObject] = []

    def own_reason(self, declared: DeclaredObject) -> str:
        """Say why an object stays by itself, or nothing."""
        if _DOTS.intersection(_named(declared)):
            return _UNADDRESSABLE
        match declared:
            case Queue(name=name):
                return self._retention(name) or self._load(name) or self._use(("queue", name))
            case Exchange(name=name):
                bound = self._bound.get(name, [])
                taken = f"it feeds what is not in this file ({some(bound)})" if bound else ""
                return self._retention(name) or self._use(("exchange", name)) or taken
            case Binding(destination=name) | Policy(name=name):
                return self._retention(name)

    def keeps(self, declared: DeclaredObject) -> bool:
        """Tell whether an object stays."""
        return identity(declared) in self._seen

    def keep(self, declared: DeclaredObject, reason: str, *, passed: bool = True) -> None:
        """Keep an object, once; of an exchange that messages pass through, what it leads to too."""
        key = identity(declared)
        if key not in self._doomed:
            return
        if whole := self._whole_of.get(key):
            self._keep_whole(whole, declared, reason)
            return
        news = key not in self._seen
        if news:
            self._seen.add(key)
            self.kept.append(Kept(declared, reason))
        if passed and isinstance(declared, Exchange) and declared.name not in self._passed:
            self._passed.add(declared.name)
            news = True
        if news:
            self._ahead.append(declared)

    def _keep_whole(self, whole: Vanished, holder: DeclaredObject, reason: str) -> None:
        """Keep a work queue for the sake of one of its parts, and tell it in one line."""
        if self.keeps(whole.queue):
            return
        named = reason if holder == whole.queue else f"{address(holder)}: {reason}"
        parts = tuple(each for each in whole.parts if each != whole.queue)
        self.kept.append(Kept(whole.queue, f"{named}; a work queue stays whole", parts))
        for each in whole.parts:
            self._seen.add(identity(each))
            self._ahead.append(each)
        self._passed.update(each.name for each in whole.exchanges)

    def spread(self) -> None:
        """Keep what is needed by what stays."""
        while self._ahead:
            declared = self._ahead.pop()
            why = f"{address(declared)} stays, and needs it"
            for needed in self._needs_of(declared):
                self.keep(needed, why)
            if isinstance(declared, Binding) and (source := self._exchanges.get(declared.source)):
                self.keep(source, why, passed=False)

    def _needs_of(self, declared: DeclaredObject) -> Iterator[DeclaredObject]:
        if isinstance(declared, Queue | Exchange):
            policies = self._policies.reaching(declared)
            yield from policies
            for kind, name in _targets(declared, *policies):
                there: Mapping[str, Queue | Exchange] = self._exchanges if kind == "exchange" else self._queues
                if name in there:
                    yield there[name]
        if isinstance(declared, Exchange) and declared.name in self._passed:
            yield from self._out.get(declared.name, ())
        if isinstance(declared, Binding):
            ends: Mapping[str, Queue | Exchange] = (
                self._exchanges if declared.destination_type == "exchange" else self._queues
            )
            if declared.destination in ends:
                yield ends[declared.destination]

    def _retention(self, name: str) -> str:
        return "on-remove says retain" if name in self._retained else ""

    def _load(self, name: str) -> str:
        holding = self._actual.holdings.get(name)
        if holding is None:
            return ""
        parts = []
        if holding.messages:
            parts.append(f"holds {holding.messages:,} message" + "s" * (holding.messages != 1))
        if holding.consumers:
            parts.append(f"has {holding.consumers} consumer" + "s" * (holding.consumers != 1))
        return f"it {' and '.join(parts)}" if parts else ""

    def _use(self, key: tuple[str, str]) -> str:
        users = self._needed.get(key, [])
        return f"{some(users)} dead-letters or hands over to it" if users else ""


def _named(declared: DeclaredObject) -> tuple[str, ...]:
    """Give what the address of a deletion is made of."""
    if not isinstance(declared, Binding):
        return (declared.name,)
    key = () if declared.arguments else (declared.routing_key,)
    return (declared.source, declared.destination, *key)


def _naming(topology: Topology) -> tuple[Queue | Exchange | Policy, ...]:
    """Give what can name an exchange or a queue as its target."""
    return (*topology.queues, *topology.exchanges, *topology.policies)


def references(topology: Topology) -> dict[tuple[str, str], list[str]]:
    """List who names an exchange or a queue as dead-letter or alternate target; RabbitMQ checks none of them."""
    return _needs(_naming(topology), {})


def _needs(
    declared: Iterable[Queue | Exchange | Policy], doomed: Mapping[tuple[object, ...], object]
) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in declared:
        targets = tuple(_targets(each))
        if targets and identity(each) not in doomed:
            name = address(each)
            for target in targets:
                found[target].append(name)
    return found


def _bound(bindings: Iterable[Binding], doomed: Mapping[tuple[object, ...], object]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for binding in bindings:
        if identity(binding) not in doomed and (Exchange, binding.source) in doomed:
            found[binding.source].append(f"{binding.destination_type} {binding.destination}")
    return found


def _targets(*declared: Queue | Exchange | Policy) -> Iterator[tuple[str, str]]:
    for each in declared:
        given = each.definition if isinstance(each, Policy) else each.arguments
        prefix = "x-" if isinstance(each, Queue) else ""
        for key in ("dead-letter-exchange", "alternate-exchange"):
            if (exchange := given.get(prefix + key)) is None:
                continue
            if exchange:
                yield ("exchange", str(exchange))
            else:  # the default exchange: the routing key names the queue
                yield ("queue", str(given.get(f"{prefix}dead-letter-routing-key", each.name)))
