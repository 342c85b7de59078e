"""What the rules look at: the file, what it becomes, and answers that several rules need. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from amqpkit.declare import naming
from amqpkit.declare.compiler import delay_queues
from amqpkit.declare.plan.settings import Setting, settings, value_of
from amqpkit.declare.policies import PolicyIndex, Ruling
from amqpkit.declare.reachability import ANY, Key, Reachability
from amqpkit.declare.spec.format import Spec
from amqpkit.declare.spec.tree import Path
from amqpkit.model import Binding, Exchange, Queue, Topology, WorkQueue

NEWEST: Final = (4, 3)
ARGUMENT: Final = "argument"
"""The source of a setting that no policy gives."""
Declared = Queue | Exchange


@dataclass(frozen=True)
class Subject:
    """One topology under lint; `version` is the RabbitMQ that it is meant for."""

    spec: Spec
    topology: Topology
    version: tuple[int, int] = NEWEST
    allowed: frozenset[str] = frozenset()
    """Arguments that are known to be right although RabbitMQ's core has none such: plugins'."""

    @property
    def since_4_3(self) -> bool:
        """Whether it is meant for 4.3 or later."""
        return self.version >= (4, 3)

    @cached_property
    def queues(self) -> Mapping[str, Queue]:
        """Every queue by its name."""
        return {queue.name: queue for queue in self.topology.queues}

    @cached_property
    def owners(self) -> Mapping[str, WorkQueue]:
        """The work queue of every object that one generates, by the object's name."""
        return {name: queue for queue in self.topology.work_queues.values() for name in _parts(queue)}

    @cached_property
    def dead_queues(self) -> frozenset[str]:
        """The dead-letter queues of the work queues."""
        return frozenset(queue.dead_queue for queue in self.topology.work_queues.values())

    @cached_property
    def policies(self) -> PolicyIndex:
        """The file's policies, generated ones too."""
        return PolicyIndex(self.topology.policies)

    @cached_property
    def rulings(self) -> Mapping[tuple[str, str], Ruling]:
        """What rules each object, by (`queue` or `exchange`, name)."""
        declared: Iterable[Declared] = (*self.topology.queues, *self.topology.exchanges)
        return {(kind(each), each.name): self.policies.ruling(each) for each in declared}

    @cached_property
    def settings(self) -> Mapping[str, Mapping[str, Setting]]:
        """What each queue obeys, policies of the file weighed in."""
        return {queue.name: settings(queue, self.rulings["queue", queue.name].winner) for queue in self.topology.queues}

    @cached_property
    def reach(self) -> Reachability:
        """Where messages can go."""
        return Reachability(self.topology, self.policies)

    @cached_property
    def arriving(self) -> Mapping[str, tuple[Binding, ...]]:
        """The bindings to each queue."""
        found: dict[str, list[Binding]] = defaultdict(list)
        for binding in self.topology.bindings:
            if binding.destination_type == "queue":
                found[binding.destination].append(binding)
        return {name: tuple(bindings) for name, bindings in found.items()}

    @cached_property
    def dead_targets(self) -> Mapping[str, frozenset[str]]:
        """The queues that each queue's dead letters may reach."""
        return {queue.name: self._dead_targets(queue.name) for queue in self.topology.queues}

    @cached_property
    def takes_failures(self) -> frozenset[str]:
        """The queues that may get what failed in another queue; what only waited out a TTL has not failed."""
        return frozenset(
            target
            for queue, targets in self.dead_targets.items()
            if self.setting(queue, "message-ttl") is None
            for target in targets
        )

    def setting(self, queue: str, key: str, default: Any = None) -> Any:
        """Give one value that a queue obeys, or the default."""
        found = value_of(self.settings[queue], key)
        return default if found is None else found

    def dead_keys(self, queue: str) -> tuple[Key, ...]:
        """Give the keys with which a queue's dead letters leave it: the one that is set, else those they came with."""
        known = self._keys
        if queue not in known:
            known[queue] = self._dead_keys(queue)
        return known[queue]

    @cached_property
    def _keys(self) -> dict[str, tuple[Key, ...]]:
        """The answers so far: several rules ask."""
        return {}

    def _dead_keys(self, queue: str) -> tuple[Key, ...]:
        explicit = self.setting(queue, "dead-letter-routing-key")
        if explicit is not None:
            return (Key(str(explicit)),)
        own = Key(queue)  # through the default exchange everybody can publish under the queue's name
        if not self.setting(queue, "dead-letter-exchange"):
            return (own,)
        return tuple(dict.fromkeys(map(self._key_of, self.arriving.get(queue, ())))) or (own,)

    def loc(self, declared: Declared) -> Path:
        """Say where an object comes from in the file: its own entry, or its work queue's."""
        section = "queues" if isinstance(declared, Queue) else "exchanges"
        owner = self.owners.get(declared.name)
        written = getattr(self.spec, section)
        return ("work_queues", owner.name) if owner and declared.name not in written else (section, declared.name)

    def setting_loc(self, queue: str, key: str) -> Path:
        """Say where the value that a queue obeys is written: at the queue's argument or in the policy."""
        setting = self.settings[queue].get(key)
        ruling = self.rulings["queue", queue].winner
        if setting is not None and setting.source != ARGUMENT and ruling and ruling.name in self.spec.policies:
            return ("policies", ruling.name, "definition", key)
        declared = self.queues[queue]
        return (*self.loc(declared), "arguments", f"x-{key}") if queue in self.spec.queues else self.loc(declared)

    def _key_of(self, binding: Binding) -> Key:
        match self.reach.type_of(binding.source):
            case "direct":
                return Key(binding.routing_key)
            case "topic":
                text = binding.routing_key
                wild = ("*" in text or "#" in text) and not {"*", "#"}.isdisjoint(text.split("."))
                return Key(text, pattern=wild)
            case _:
                return ANY

    def _dead_targets(self, queue: str) -> frozenset[str]:
        exchange = self.setting(queue, "dead-letter-exchange")
        if not isinstance(exchange, str) or self.queues[queue].type == "stream":
            return frozenset()
        return frozenset().union(*(self.reach.reached(exchange, key) for key in self.dead_keys(queue)))


def kind(declared: Declared) -> str:
    """Name what an object is."""
    return "queue" if isinstance(declared, Queue) else "exchange"


def address(declared: Declared) -> str:
    """Name an object as plans do."""
    return f"{kind(declared)} {declared.name}"


def _parts(queue: WorkQueue) -> Iterator[str]:
    yield from (queue.name, queue.dead_queue, queue.retry_exchange, queue.dead_exchange)
    yield from (naming.policy(queue.name), naming.parts_policy(queue.name))
    yield from (delay.queue for delay in delay_queues(queue))
