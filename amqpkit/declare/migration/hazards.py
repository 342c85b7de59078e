"""Why a queue cannot be migrated, and what a person should know before it is. Pure."""

from collections.abc import Iterator
from typing import Final

from amqpkit.declare.migration.request import Migration, bound_to, queue_of
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.extras import references
from amqpkit.declare.plan.planning import Plan
from amqpkit.declare.plan.rule import Rule
from amqpkit.declare.plan.settings import settings, value_of
from amqpkit.model import Queue, Topology

_DEADLY: Final = ("message-ttl", "expires", "max-length", "max-length-bytes")
"""What an operator policy would do to messages that wait in the holding queue; no policy of ours prevents it."""


def refusals(migration: Migration, topology: Topology, actual: Actual, plan: Plan) -> Iterator[str]:
    """Say why a queue cannot be migrated, as long as nothing has been changed, with what to do about it."""
    wanted, found, scaffold = migration.wanted, migration.found, migration.scaffold
    for queue in (wanted, found) if found else (wanted,):
        yield from _unmovable(queue)
    if not scaffold.fits:
        yield "its name is too long: the holding queue's, which has `.migrating` behind it, would pass 255 bytes"
    if theirs := scaffold.foreign(actual.topology):
        yield f"{theirs} is there, and not of a migration: delete or rename it"
    for obstacle in plan.obstacles:
        if obstacle.kind in {"policy", "operator-policy"} and wanted.name in obstacle.queues:
            yield str(obstacle)
    rule = Rule(topology, actual)
    operator = rule.operators.ruling(migration.holding)
    if operator and (keys := [key for key in _DEADLY if key in operator.definition]):
        yield (
            f'operator policy "{operator.name}" would reach the holding queue {migration.holding.name}, and its '
            f"{', '.join(keys)} would cost messages there: have the operators spare that name"
        )
    most = actual.surroundings.max_queues
    if most is not None and 0 <= most < len(actual.topology.queues) + 2:
        yield f"the vhost may have {most} queues, and this needs two more for a while: raise its limit max-queues"
    yield from _returns(migration, actual)


def cautions(migration: Migration, topology: Topology, actual: Actual) -> Iterator[str]:
    """Say what a person should know before."""
    name = migration.wanted.name
    bindings = bound_to(actual.topology, name)
    yield (
        f'publishers to the default exchange with the routing key "{name}" cannot be seen: while the queue is fenced '
        "they are nacked, and between its end and its return their messages are returned if mandatory, else lost"
    )
    if not bindings:
        yield "the queue has no bindings: whoever publishes to it does it through the default exchange"
    holding = actual.holdings.get(name)
    if holding and holding.consumers:
        yield (
            f"{holding.consumers} consumer{'s' * (holding.consumers != 1)} will be cancelled as the queue is deleted: "
            "amqpkit's come back by themselves, others must consume again"
        )
    yield from _smaller(migration, Rule(topology, actual), holding.messages if holding else 0)
    yield "what is moved counts deliveries and queue TTLs anew, and newer messages may overtake some of it"


def _unmovable(queue: Queue) -> Iterator[str]:
    if queue.type == "stream":
        yield "a stream's messages cannot be moved: declare it under a new name"
    if queue.exclusive:
        yield "an exclusive queue belongs to its connection: change it there"
    if queue.auto_delete:
        yield "an auto-delete queue goes with its last consumer, us included: let it go, and apply"


def _returns(migration: Migration, actual: Actual) -> Iterator[str]:
    """Find who dead-letters straight to the queue's name and would lose messages while it is missing."""
    name = migration.wanted.name
    for user in references(actual.topology).get(("queue", name), []):
        kind, _, source = user.partition(" ")
        queue = queue_of(actual.topology, source) if kind == "queue" else None
        if queue is None or queue.name == name or queue.arguments.get("x-dead-letter-strategy") == "at-least-once":
            continue
        holding = actual.holdings.get(source)
        if holding is None or holding.messages:
            yield (
                f"{user} dead-letters to it by its name, at most once, and holds messages: what dies while it is "
                "missing would be lost; let it run empty first, or have it return through an exchange"
            )


def _smaller(migration: Migration, rule: Rule, messages: int) -> Iterator[str]:
    wanted = migration.wanted
    after = settings(wanted, rule.after.ruling(wanted), rule.operators.ruling(wanted))
    most, overflow = value_of(after, "max-length"), value_of(after, "overflow") or "drop-head"
    if isinstance(most, int) and most < messages:
        if overflow == "drop-head":
            yield f"the new queue holds {most:,} messages and drops the oldest: about {messages - most:,} go that way"
        else:
            yield f"the new queue holds {most:,} messages: moving back waits for consumers"
