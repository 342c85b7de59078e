"""Which queues a message can reach, for keys that are known and for keys of which only a pattern is known. Pure.

Errs to the side of "it may": what is said to be unreachable is.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.policies import PolicyIndex
from amqpkit.declare.routing import PREDECLARED
from amqpkit.declare.topics import TopicTree
from amqpkit.model import Binding, Topology


@dataclass(frozen=True, slots=True)
class Key:
    """A routing key, or with `pattern` all that a topic pattern stands for."""

    text: str
    pattern: bool = False


ANY: Final = Key("#", pattern=True)


class Reachability:
    """Answers for one topology; each question costs what it touches, and is answered once."""

    def __init__(self, topology: Topology, policies: PolicyIndex) -> None:
        """Index bindings by their source."""
        self.queues: Final = frozenset(queue.name for queue in topology.queues)
        self.exchanges: Final = {exchange.name: exchange for exchange in topology.exchanges}
        self._policies = policies
        self._bindings: dict[str, list[Binding]] = defaultdict(list)
        for binding in topology.bindings:
            self._bindings[binding.source].append(binding)
        self._topics: dict[str, TopicTree[Binding]] = {}
        self._keyed: dict[str, dict[str, list[Binding]]] = {}
        self._answers: dict[tuple[str, Key], frozenset[str]] = {}

    def type_of(self, exchange: str) -> str | None:
        """Give an exchange's type; None when it is not declared here."""
        declared = self.exchanges.get(exchange)
        return declared.type if declared else PREDECLARED.get(exchange)

    def is_known(self, exchange: str) -> bool:
        """Tell whether an exchange is declared here or RabbitMQ's own."""
        return not exchange or self.type_of(exchange) is not None

    def leaving(self, exchange: str) -> list[Binding]:
        """List the bindings of an exchange."""
        return self._bindings.get(exchange, [])

    def alternate(self, exchange: str) -> str | None:
        """Give the exchange that takes what this one cannot route, by argument or by policy."""
        declared = self.exchanges.get(exchange)
        if declared is None:
            return None
        ruling = self._policies.ruling(declared).winner
        ruled = ruling.definition.get("alternate-exchange") if ruling else None
        found = declared.arguments.get("alternate-exchange", ruled)
        return found if isinstance(found, str) else None

    def following(self, exchange: str, key: Key) -> list[Binding]:
        """List the bindings that a message with this key may follow."""
        kind, bindings = self.type_of(exchange), self._bindings.get(exchange, [])
        if kind == "topic":
            if exchange not in self._topics:
                self._topics[exchange] = TopicTree((binding.routing_key, binding) for binding in bindings)
            return list(self._topics[exchange].meeting(key.text, pattern=key.pattern))
        if kind == "direct" and not key.pattern:
            if exchange not in self._keyed:
                keyed = self._keyed[exchange] = defaultdict(list)
                for binding in bindings:
                    keyed[binding.routing_key].append(binding)
            return self._keyed[exchange].get(key.text, [])
        return bindings

    def reached(self, exchange: str, key: Key) -> frozenset[str]:
        """Name the queues that a message may reach through bindings, exchanges and alternates."""
        if not exchange:
            return frozenset({key.text}) & self.queues if not key.pattern else frozenset()
        if self.type_of(exchange) == "fanout":
            key = ANY  # one answer for all keys; what lies behind may still look at it, and errs to "may"
        asked = (exchange, key)
        if asked not in self._answers:
            self._answers[asked] = self._walk(exchange, key)
        return self._answers[asked]

    def _walk(self, exchange: str, key: Key) -> frozenset[str]:
        found: set[str] = set()
        ahead, seen = [exchange], {exchange}
        while ahead:
            here = ahead.pop()
            hits = self.following(here, key)
            found.update(hit.destination for hit in hits if hit.destination_type == "queue")
            onward = {hit.destination for hit in hits if hit.destination_type == "exchange"}
            alternate = self.alternate(here)
            if alternate is not None and (not hits or key.pattern):
                onward.add(alternate)
            ahead += onward - seen
            seen |= onward
        return frozenset(found)
