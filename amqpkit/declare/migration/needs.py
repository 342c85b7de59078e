"""What must be there before a queue is made anew: where its dead letters go, and what policy is to rule it. Pure."""

from collections.abc import Iterator, Mapping

from amqpkit.declare.identity import identity
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Create, Update
from amqpkit.declare.plan.planning import Plan
from amqpkit.declare.plan.rule import Rule
from amqpkit.model import DeclaredObject, Exchange, Policy, Queue, Topology


def needed(wanted: Queue, topology: Topology, plan: Plan) -> tuple[DeclaredObject, ...]:
    """Take from a plan, in its order, what the queue's dead letters need to arrive, and the policies over all that.

    A policy that may drop messages stays for an apply.
    """
    reached = _reached(wanted, topology)
    rule = Rule(topology, Actual())
    queues = (wanted, *(each for each in reached.values() if isinstance(each, Queue)))
    ruling = {policy.name for queue in queues if (policy := rule.after.ruling(queue))}
    return tuple(
        change.wanted
        for change in plan.steps
        if isinstance(change, Create | Update)
        and (identity(change.wanted) in reached or (isinstance(change.wanted, Policy) and change.wanted.name in ruling))
    )


def _reached(wanted: Queue, topology: Topology) -> Mapping[tuple[object, ...], DeclaredObject]:
    found: dict[tuple[object, ...], DeclaredObject] = {}
    ahead: list[Exchange | Queue] = [wanted]
    while ahead:
        for target in _targets(ahead.pop(), topology):
            into_itself = target == wanted or getattr(target, "destination", None) == wanted.name
            if identity(target) not in found and not into_itself:
                found[identity(target)] = target
                if isinstance(target, Exchange | Queue):
                    ahead.append(target)
    return found


def _targets(each: Exchange | Queue, topology: Topology) -> Iterator[DeclaredObject]:
    exchanges = {exchange.name: exchange for exchange in topology.exchanges}
    queues = {queue.name: queue for queue in topology.queues}
    named = each.arguments.get("x-dead-letter-exchange" if isinstance(each, Queue) else "alternate-exchange")
    if named and named in exchanges:
        yield exchanges[named]
    if named == "" and (target := queues.get(str(each.arguments.get("x-dead-letter-routing-key", "")))):
        yield target
    for binding in topology.bindings if isinstance(each, Exchange) else ():
        ends: Mapping[str, Queue | Exchange] = queues if binding.destination_type == "queue" else exchanges
        if binding.source == each.name and binding.destination in ends:
            yield binding
            yield ends[binding.destination]
