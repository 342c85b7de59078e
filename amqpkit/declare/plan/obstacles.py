"""What keeps a plan from being done, or from meaning what it says: other people's policies, limits, removed features.

Pure.
"""

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.migration.scaffold import unfinished
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Change, Create
from amqpkit.declare.plan.reach import Reach
from amqpkit.declare.plan.rule import Rule, some
from amqpkit.declare.policies import UNREAD
from amqpkit.model import Exchange, Policy, Queue, Topology

OURS: Final = 100
"""The priority of the policies that work queues compile to; what has it or more may win over them."""
_TRANSIENT: Final = "transient_nonexcl_queues"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that a person must clear away first, with the queues that it stands before."""

    kind: str
    """`policy`, `operator-policy`, `limit`, `feature` or `migration`."""
    name: str
    reason: str
    remedy: str
    queues: tuple[str, ...] = ()

    def __str__(self) -> str:
        reached = f": {some(self.queues)}" if self.queues else ""
        return f"{self.reason}{reached}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Known:
    """Policies that need no further word: those that a person accepts, and those that prune would delete."""

    accepted: Collection[str] = ()
    prunable: Collection[str] = ()


def obstacles(
    wanted: Topology, actual: Actual, rule: Rule, changes: Collection[Change], known: Known
) -> Iterator[Obstacle]:
    """Find what stands in the way."""
    theirs: dict[str, tuple[Policy, list[str]]] = {}
    operators: dict[str, tuple[Policy, list[str]]] = {}
    rivals = Reach(each for each in rule.foreign if each.priority >= OURS and each.name not in known.accepted)
    for queue in wanted.queues:
        for policy in (*rivals.reaching(queue), *rivals.perhaps(queue)):
            theirs.setdefault(policy.name, (policy, []))[1].append(queue.name)
        ruling = rule.operators.ruling(queue)
        for operator in (*((ruling,) if ruling else ()), *rule.operators.perhaps(queue)):
            if operator.name not in known.accepted:
                operators.setdefault(operator.name, (operator, []))[1].append(queue.name)
    unread = {id(policy) for policy in (*rivals.unreadable, *rule.operators.unreadable)}
    for policy, queues in theirs.values():
        yield _foreign(policy, queues, policy.name in known.prunable, id(policy) in unread)
    for policy, queues in operators.values():
        yield _operator(policy, queues, id(policy) in unread)
    yield from _limits(actual, changes)
    yield from _removed(actual, changes)
    yield from _half_done(wanted, actual)


def shadows(wanted: Topology, rule: Rule) -> Iterator[str]:
    """Say where another policy rules instead of ours, and which patterns only RabbitMQ can read; a sentence each."""
    mine = {policy.name for policy in wanted.policies}
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    declarations: tuple[Queue | Exchange, ...] = (*wanted.queues, *wanted.exchanges)
    for declared in declarations if rule.foreign else ():
        reaching = rule.after.reaching(declared)
        ours = next((policy for policy in reaching if policy.name in mine), None)
        other = next((policy for policy in reaching if policy.name not in mine), None)
        if ours and other and other.priority >= ours.priority:
            found[_loss(ours, other)].append(declared.name)
    for (what, _), names in found.items():
        yield f"{what}: {some(names)}"
    unread = {
        policy.name: None
        for declared in declarations
        if rule.after.unreadable or rule.operators.unreadable
        for policy in (*rule.after.perhaps(declared), *rule.operators.perhaps(declared))
    }
    for name in unread:
        yield f'policy "{name}" has {UNREAD}; whether it wins over ours is not known'


def _loss(ours: Policy, theirs: Policy) -> tuple[str, str]:
    verb = "wins over" if theirs.priority > ours.priority else "has the same priority as"
    text = f'policy "{theirs.name}" (priority {theirs.priority}) {verb} "{ours.name}" ({ours.priority})'
    return text, ours.name


def _foreign(policy: Policy, queues: list[str], prunable: bool, unread: bool) -> Obstacle:  # noqa: FBT001 - what is known of it
    reaches = f"{UNREAD}: it may reach" if unread else "reaches"
    reason = f'policy "{policy.name}" is in no file, has priority {policy.priority} and {reaches} queues of this one'
    remedy = f"give it a priority below {OURS} or another pattern, or accept it with --accept-policy {policy.name}"
    if prunable:
        remedy = f"it is within owns: delete it with --prune, or {remedy}"
    return Obstacle("policy", policy.name, reason, remedy, tuple(queues))


def _operator(policy: Policy, queues: list[str], unread: bool) -> Obstacle:  # noqa: FBT001 - what is known of it
    keys = ", ".join(sorted(policy.definition))
    rules = f"has {UNREAD}: it may rule" if unread else "rules"
    reason = f'operator policy "{policy.name}" {rules} over queues of this file ({keys})'
    remedy = f"ask the operators to spare them, or accept it with --accept-policy {policy.name}"
    return Obstacle("operator-policy", policy.name, reason, remedy, tuple(queues))


def _limits(actual: Actual, changes: Collection[Change]) -> Iterator[Obstacle]:
    most = actual.surroundings.max_queues
    new = [change.wanted.name for change in changes if isinstance(change, Create) and isinstance(change.wanted, Queue)]
    there = len(actual.topology.queues)
    if most is not None and most >= 0 and new and there + len(new) > most:
        reason = f"the vhost may have {most} queues, has {there}, and {len(new)} are to be added"
        yield Obstacle("limit", "max-queues", reason, "raise the vhost's limit max-queues", tuple(new))


def _removed(actual: Actual, changes: Collection[Change]) -> Iterator[Obstacle]:
    if _TRANSIENT not in actual.surroundings.denied:
        return
    new = [change.wanted for change in changes if isinstance(change, Create) and isinstance(change.wanted, Queue)]
    transient = tuple(queue.name for queue in new if not queue.durable and not queue.exclusive)
    if transient:
        reason = "this broker refuses queues that are neither durable nor exclusive, and closes the connection"
        yield Obstacle("feature", _TRANSIENT, reason, "declare them durable, with x-expires to go away", transient)


def _half_done(wanted: Topology, actual: Actual) -> Iterator[Obstacle]:
    """Find migrations that were interrupted: what an apply would make meanwhile, they would find in their way."""
    ours = {queue.name for queue in wanted.queues}
    for name, holding in unfinished(actual.topology).items():
        if name in ours:
            reason = f"a migration was interrupted, and messages may wait in {holding}"
            remedy = f"finish it with `amqpkit migrate queue {shlex.quote(name)}`"
            yield Obstacle("migration", name, reason, remedy, (name,))
