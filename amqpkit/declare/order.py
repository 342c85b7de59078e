"""In which order to create a topology, so that no message ever finds a way half built.

Pure. Delete in the reverse order, but for work queues that go whole.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from amqpkit.declare.identity import identity
from amqpkit.declare.naming import RETURN_KEY
from amqpkit.declare.plan.vanished import Vanished
from amqpkit.model import Binding, DeclaredObject, Exchange, Queue, Topology

Stage = tuple[DeclaredObject, ...]


def creation_stages(topology: Topology) -> tuple[Stage, ...]:
    """Order every object of the topology, each exactly once; the objects of one stage can be made at the same time.

    Exchanges (alternates before those that name them), policies, dead-letter and delay queues, the
    bindings that lead to them, the other queues, returns from the delay queues, and last the public
    bindings: only then do messages come. RabbitMQ does not check that a dead-letter exchange or its
    queue exists, so this order is the only safety.
    """
    kinds = _kinds(topology)
    stages: tuple[Stage, ...] = (
        *_exchange_stages(topology.exchanges),
        topology.policies,
        kinds.parts,
        kinds.inward,
        kinds.others,
        kinds.returns,
        kinds.public,
    )
    return tuple(stage for stage in stages if stage)


def deletion_stages(topology: Topology, wholes: Collection[Vanished] = ()) -> tuple[Stage, ...]:
    """Order every object for deletion: as creations in reverse, so that no message finds a way that is half gone.

    The queues of a work queue that goes whole stand in one stage, to be looked at together, and nothing between its
    parts goes before them: if one of them turns out to be in use, the work queue stands as it stood. Its bindings to
    itself, its exchanges and its policies come after its queues, in this order; when the run is killed among them, they
    lead nobody anywhere, and the next one takes them.
    """
    inner = tuple(each for whole in wholes for each in whole.inner)
    policies = tuple(each for whole in wholes for each in whole.policies)
    own = {*map(identity, inner), *map(identity, policies)}
    together = {queue.name: whole for whole in wholes for queue in whole.queues}
    kinds = _kinds(replace(topology, bindings=tuple(each for each in topology.bindings if identity(each) not in own)))
    # A queue that dead-letters to a work queue goes before it.
    late = {together[each.name].queue.name for each in kinds.parts if each.name in together}
    stages: tuple[Stage, ...] = (
        kinds.public,
        _queues(kinds.others, (each for each in wholes if each.queue.name not in late), together),
        kinds.inward,
        _queues(kinds.parts, (each for each in wholes if each.queue.name in late), together),
        inner,
        tuple(each for each in topology.policies if identity(each) not in own),
        *reversed(tuple(_exchange_stages(topology.exchanges))),
        tuple(each for whole in wholes for each in whole.policies),
    )
    return tuple(stage for stage in stages if stage)


def _queues(alone: Collection[Queue], wholes: Iterator[Vanished], together: Collection[str]) -> tuple[Queue, ...]:
    return (
        *(each for each in alone if each.name not in together),
        *(each for whole in wholes for each in whole.queues),
    )


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The queues and bindings of a topology by what they are to its messages."""

    parts: tuple[Queue, ...]
    others: tuple[Queue, ...]
    inward: tuple[Binding, ...]
    returns: tuple[Binding, ...]
    public: tuple[Binding, ...]


def _kinds(topology: Topology) -> _Kinds:
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
    return _Kinds(
        tuple(queue for queue in topology.queues if queue.name in parts),
        tuple(queue for queue in topology.queues if queue.name not in parts),
        tuple(inward),
        tuple(returns),
        tuple(public),
    )


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
