"""In which order to create a topology, so that no message ever finds a way half built.

Pure. Delete in the reverse order.
"""

from collections.abc import Iterator

from amqpkit.declare.naming import RETURN_KEY
from amqpkit.model import Binding, DeclaredObject, Exchange, Topology

Stage = tuple[DeclaredObject, ...]


def creation_stages(topology: Topology) -> tuple[Stage, ...]:
    """Order every object of the topology, each exactly once; the objects of one stage can be made at the same time.

    Exchanges (alternates before those that name them), policies, dead-letter and delay queues, the
    bindings that lead to them, the other queues, returns from the delay queues, and last the public
    bindings: only then do messages come. RabbitMQ does not check that a dead-letter exchange or its
    queue exists, so this order is the only safety.
    """
    inner = _inner_exchanges(topology)
    parts = _parts(topology, inner)
    returns, inward, public = [], [], []
    for binding in topology.bindings:
        if _is_return(topology, binding):
            returns.append(binding)
        elif binding.source in inner and (binding.destination in parts or binding.destination_type == "exchange"):
            inward.append(binding)
        else:
            public.append(binding)
    stages: tuple[Stage, ...] = (
        *_exchange_stages(topology.exchanges),
        topology.policies,
        tuple(queue for queue in topology.queues if queue.name in parts),
        tuple(inward),
        tuple(queue for queue in topology.queues if queue.name not in parts),
        tuple(returns),
        tuple(public),
    )
    return tuple(stage for stage in stages if stage)


def _exchange_stages(exchanges: tuple[Exchange, ...]) -> Iterator[tuple[Exchange, ...]]:
    waiting = {exchange.name: exchange for exchange in exchanges}
    while waiting:
        ready = [exchange for exchange in waiting.values() if _alternate(exchange) not in waiting]
        stage = tuple(ready or waiting.values())  # exchanges that name each other come together
        yield stage
        for exchange in stage:
            del waiting[exchange.name]


def _alternate(exchange: Exchange) -> str | None:
    alternate = exchange.arguments.get("alternate-exchange")
    return alternate if isinstance(alternate, str) and alternate != exchange.name else None


def _targets(topology: Topology) -> set[tuple[str, str]]:
    """List (exchange, routing key) of every dead-letter setting, in arguments and in policies."""
    settings = [
        (queue.arguments.get("x-dead-letter-exchange"), queue.arguments.get("x-dead-letter-routing-key", ""))
        for queue in topology.queues
    ]
    settings += [
        (policy.definition.get("dead-letter-exchange"), policy.definition.get("dead-letter-routing-key", ""))
        for policy in topology.policies
    ]
    # RabbitMQ will refuse what is no text.
    return {(exchange, key) for exchange, key in settings if isinstance(exchange, str) and isinstance(key, str)}


def _inner_exchanges(topology: Topology) -> set[str]:
    """Name the exchanges that dead letters pass, also those behind another exchange."""
    inner = {exchange for exchange, _ in _targets(topology)} - {""}
    inner.update(queue.dead_exchange for queue in topology.work_queues.values())
    onward: dict[str, list[str]] = {}
    for binding in topology.bindings:
        if binding.destination_type == "exchange":
            onward.setdefault(binding.source, []).append(binding.destination)
    ahead = list(inner)
    while ahead:
        new = set(onward.get(ahead.pop(), ())) - inner
        inner |= new
        ahead += new
    return inner


def _parts(topology: Topology, inner: set[str]) -> set[str]:
    """Name the queues that take dead letters or delays; a work queue is never one of them."""
    parts = {key for exchange, key in _targets(topology) if not exchange}
    parts.update(
        binding.destination
        for binding in topology.bindings
        if binding.source in inner and binding.destination_type == "queue"
    )
    return parts - topology.work_queues.keys()


def _is_return(topology: Topology, binding: Binding) -> bool:
    queue = topology.work_queues.get(binding.destination)
    return bool(queue and binding.source == queue.retry_exchange and binding.routing_key == RETURN_KEY)
