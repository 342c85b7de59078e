"""Which queues a message would reach from an exchange. Pure."""

from collections.abc import Mapping
from typing import Any

from amqpkit.declare.routing import TYPES, follows
from amqpkit.model import Binding, Topology, nothing


def reached(
    actual: Topology, exchange: str, routing_key: str, headers: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Name the queues that a message to an exchange gets to, sorted, through exchanges and alternates too.

    `actual` is what the vhost holds. Of an exchange whose type is a plugin's, every binding counts.
    """
    if not exchange:
        return (routing_key,) if any(queue.name == routing_key for queue in actual.queues) else ()
    kinds = {each.name: each.type for each in actual.exchanges}
    alternates = {each.name: each.arguments.get("alternate-exchange") for each in actual.exchanges}
    queues, ahead, seen = set[str](), [exchange], {exchange}
    while ahead:
        name = ahead.pop()
        hits = [
            binding
            for binding in actual.bindings
            if binding.source == name and _follows(kinds.get(name, ""), binding, routing_key, headers or nothing())
        ]
        queues |= {binding.destination for binding in hits if binding.destination_type == "queue"}
        onward = {binding.destination for binding in hits if binding.destination_type == "exchange"}
        if not hits and (alternate := alternates.get(name)):
            onward.add(alternate)
        ahead += onward - seen
        seen |= onward
    return tuple(sorted(queues))


def _follows(kind: str, binding: Binding, routing_key: str, headers: Mapping[str, Any]) -> bool:
    return kind not in TYPES or follows(kind, binding, routing_key, headers)
