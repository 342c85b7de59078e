"""Which queues of a vhost hold dead letters, as far as its wiring and their names tell. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from amqpkit.model import Topology

_WORDS: Final = frozenset(
    {"dlq", "dead", "deadletter", "deadletters", "error", "errors", "failed", "parking", "poison"}
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def dead_letter_queues(actual: Topology) -> tuple[str, ...]:
    """Name the queues that others dead-letter to, or that are called after dead letters, sorted.

    `actual` is what the vhost holds. A queue with a time to live only delays: where it leads is no such queue, nor it.
    """
    there = {queue.name for queue in actual.queues if "x-message-ttl" not in queue.arguments}
    named = {name for name in there if _WORDS & {word.lower() for word in _WORD.findall(name)}}
    ways = set(_ways(actual))
    exchanges = {exchange for exchange, _ in ways if exchange}
    bound = {each.destination for each in actual.bindings if each.source in exchanges}
    return tuple(sorted((named | bound | {key for exchange, key in ways if not exchange}) & there))


def _ways(actual: Topology) -> Iterator[tuple[str, str]]:
    """Exchange and key of each way out for dead letters; the key is empty where the message's own is kept."""
    told = [
        (queue.arguments.get("x-dead-letter-exchange"), queue.arguments.get("x-dead-letter-routing-key"))
        for queue in actual.queues
        if "x-message-ttl" not in queue.arguments
    ]
    told += [
        (policy.definition.get("dead-letter-exchange"), policy.definition.get("dead-letter-routing-key"))
        for policy in actual.policies
        if "message-ttl" not in policy.definition
    ]
    for exchange, key in told:
        if isinstance(exchange, str):
            yield exchange, str(key or "")
