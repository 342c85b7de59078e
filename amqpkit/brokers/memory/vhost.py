"""What is declared in one vhost, and where a message goes in it. Pure: knows no clock and no channel."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from amqpkit.brokers.memory.arguments import (
    checked,
    exchange_fault,
    refuse_other,
    refuse_other_exchange,
)
from amqpkit.brokers.memory.exchange import binding_fault
from amqpkit.brokers.memory.policy import Settings, governing, policy_fault, settings_of
from amqpkit.brokers.memory.profile import NotModelled, Profile
from amqpkit.brokers.memory.queue import QueueState
from amqpkit.declare.identity import canonical
from amqpkit.declare.routing import PREDECLARED, TYPES, follows
from amqpkit.errors import Refused
from amqpkit.model import Binding, Exchange, Policy, Queue

_BEYOND: Final = frozenset({"x-modulus-hash", "x-local-random"})
"""Exchange types of the broker's core that the simulator lacks."""


class Vhost:
    """Exchanges, queues, bindings and policies, with the broker's refusals."""

    def __init__(self, name: str, profile: Profile) -> None:
        """Start with what every broker predeclares."""
        self.name = name
        self.profile = profile
        self.exchanges = {name: Exchange(name, kind) for name, kind in PREDECLARED.items()}
        self.queues: dict[str, QueueState] = {}
        self.policies: dict[str, Policy] = {}
        self._bindings: dict[str, list[Binding]] = {}

    @property
    def bindings(self) -> list[Binding]:
        """Every binding, but for those of the default exchange, which are implied."""
        return [binding for bindings in self._bindings.values() for binding in bindings]

    def declare_exchange(self, exchange: Exchange) -> None:
        """Make an exchange, or agree that it is there; raises Refused, NotModelled."""
        address = f"exchange {exchange.name}"
        if exchange.type in _BEYOND or exchange.auto_delete:
            raise NotModelled(f"auto-delete exchanges and the exchange type {exchange.type}")
        if exchange.type not in TYPES:
            raise Refused(object=address, reason=f"PRECONDITION_FAILED - unknown exchange type '{exchange.type}'")
        present = self.exchanges.get(exchange.name)
        if present:
            refuse_other_exchange(exchange, present, self.name)
            return
        if fault := exchange_fault(exchange, self.name):
            raise Refused(object=address, reason=fault)
        self.exchanges[exchange.name] = replace(exchange, arguments=dict(exchange.arguments))

    def declare_queue(self, wanted: Queue) -> QueueState:
        """Make a queue, or agree that it is there; raises Refused, NotModelled."""
        queue = checked(wanted, self.profile, self.name)
        present = self.queues.get(queue.name)
        if present:
            refuse_other(queue, present.declared, self.profile, self.name)
            return present
        state = QueueState(queue, self.settings(queue), self.profile)
        self.queues[queue.name] = state
        return state

    def settings(self, queue: Queue) -> Settings:
        """Weigh a queue's arguments against the policy that reaches it."""
        policy = governing(queue.name, queue.type, self.policies.values())
        if policy and queue.type == "quorum" and self.profile.since_4_3 and "max-length-bytes" in policy.definition:
            raise NotModelled("max-length-bytes on a 4.3 quorum queue, which counts metadata too")
        return settings_of(queue, policy, since_4_3=self.profile.since_4_3)

    def bind(self, binding: Binding) -> None:
        """Make a binding, once; raises Refused when an end is missing."""
        self._require_ends(binding)
        source = self.exchanges[binding.source]
        if fault := binding_fault(source.type, binding, since_4_3=self.profile.since_4_3):
            raise Refused(object=_address(binding), reason=f"PRECONDITION_FAILED - {fault}")
        present = self._bindings.setdefault(binding.source, [])
        if not any(_same(binding, other) for other in present):
            present.append(replace(binding, arguments=dict(binding.arguments)))

    def _require_ends(self, binding: Binding) -> None:
        if not binding.source or (binding.destination_type == "exchange" and not binding.destination):
            reason = "ACCESS_REFUSED - operation not permitted on the default exchange"
            raise Refused(object=_address(binding), reason=reason)
        there: Mapping[str, object] = self.queues if binding.destination_type == "queue" else self.exchanges
        missing = [("exchange", binding.source)] if binding.source not in self.exchanges else []
        if binding.destination not in there:
            missing.append((binding.destination_type, binding.destination))
        for kind, name in missing:
            reason = f"NOT_FOUND - no {kind} '{name}' in vhost '{self.name}'"
            raise Refused(object=_address(binding), reason=reason)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding; a missing one is fine."""
        present = self._bindings.get(binding.source, [])
        self._bindings[binding.source] = [other for other in present if not _same(binding, other)]

    def delete_exchange(self, name: str) -> None:
        """Remove an exchange and its bindings; a missing one is fine; raises Refused for the broker's own."""
        if not name or name.startswith("amq."):
            raise Refused(
                object=f"exchange {name}",
                reason="ACCESS_REFUSED - operation not permitted",
            )
        self.exchanges.pop(name, None)
        self._bindings.pop(name, None)
        self._forget("exchange", name)

    def remove_queue(self, name: str) -> QueueState | None:
        """Take a queue and the bindings to it away; None when it is missing."""
        self._forget("queue", name)
        return self.queues.pop(name, None)

    def _forget(self, kind: str, name: str) -> None:
        for source, bindings in self._bindings.items():
            kept = [b for b in bindings if (b.destination_type, b.destination) != (kind, name)]
            self._bindings[source] = kept

    def set_policy(self, policy: Policy) -> None:
        """Make or overwrite a policy; raises Refused, NotModelled. Queues obey only after `settings` is asked again."""
        if fault := policy_fault(policy, since_4_3=self.profile.since_4_3):
            raise Refused(object=f"policy {policy.name}", reason=fault)
        before = dict(self.policies)
        self.policies[policy.name] = replace(policy, definition=dict(policy.definition))
        try:
            for queue in self.queues.values():
                self.settings(queue.declared)
        except NotModelled:
            self.policies = before
            raise

    def targets(self, exchange: str, keys: Iterable[str], headers: Mapping[str, Any]) -> list[QueueState]:
        """Find every queue that a message reaches, each once, through bindings, exchanges and alternates."""
        found: dict[str, None] = {}
        ahead, seen = [exchange], {exchange}
        while ahead:
            queues, exchanges = self._step(ahead.pop(0), keys, headers)
            found.update(dict.fromkeys(queues))
            ahead += [name for name in exchanges if name not in seen]
            seen.update(exchanges)
        return [self.queues[name] for name in found if name in self.queues]

    def _step(self, name: str, keys: Iterable[str], headers: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Follow one exchange; one that leads nowhere hands over to its alternate, if that exists."""
        if not name:
            return [key for key in dict.fromkeys(keys) if key in self.queues], []
        exchange = self.exchanges.get(name)
        if exchange is None:
            return [], []
        hits = [
            binding
            for binding in self._bindings.get(name, ())
            if any(follows(exchange.type, binding, key, headers) for key in keys)
        ]
        queues = [binding.destination for binding in hits if binding.destination_type == "queue"]
        exchanges = list(dict.fromkeys(b.destination for b in hits if b.destination_type == "exchange"))
        alternate = None if hits else self._alternate(exchange)
        return queues, [alternate] if alternate is not None else exchanges

    def _alternate(self, exchange: Exchange) -> str | None:
        policy = governing(exchange.name, "exchange", self.policies.values())
        ruled = policy.definition.get("alternate-exchange") if policy else None
        name: str | None = exchange.arguments.get("alternate-exchange", ruled)
        return name


def _same(one: Binding, other: Binding) -> bool:
    """Compare as RabbitMQ does, to which the arguments 1 and true are two bindings; Python calls them equal."""
    return one == other and canonical(one.arguments) == canonical(other.arguments)


def _address(binding: Binding) -> str:
    return f"binding {binding.source} -{binding.routing_key}-> {binding.destination_type} {binding.destination}"
