"""From what is wanted and what is there to a plan: what to do in which order, and what cannot be done. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from amqpkit.declare.identity import identity
from amqpkit.declare.order import creation_stages, deletion_stages
from amqpkit.declare.plan import extras as owned
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Change, Create, Delete, Replace, UpdateLossy
from amqpkit.declare.plan.differences import differences
from amqpkit.declare.plan.extras import Kept
from amqpkit.declare.plan.obstacles import Known, Obstacle, obstacles, shadows
from amqpkit.declare.plan.rule import Rule, policy_changes, some
from amqpkit.declare.plan.vanished import Vanished, vanished
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology


@dataclass(frozen=True, slots=True)
class Plan:
    """What applying does, stage by stage, each of which needs the one before it; and what it does not do.

    `replaces` and `obstacles` block: then nothing is done at all. `extras` are within `owns` and in no file,
    and stay; `kept` are those that were asked to go and stay all the same. `vanished` are the work queues among what
    goes, each of which goes whole.
    """

    stages: tuple[tuple[Change, ...], ...] = ()
    replaces: tuple[Replace, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    extras: tuple[DeclaredObject, ...] = ()
    kept: tuple[Kept, ...] = ()
    vanished: tuple[Vanished, ...] = ()
    unchanged: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Change, ...]:
        """What can be done, in order."""
        return tuple(change for stage in self.stages for change in stage)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change, blocked ones too."""
        return (*self.steps, *self.replaces)

    @property
    def blocked(self) -> bool:
        """Whether a person must do something first."""
        return bool(self.replaces or self.obstacles)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person who plans has asked for beyond the file."""

    prune: bool = False
    accepted: frozenset[str] = frozenset()
    """Other people's policies that may rule over our queues."""


def make_plan(wanted: Topology, actual: Actual, wishes: Wishes = Wishes()) -> Plan:
    """Compare what is wanted with what is there."""
    extra = owned.extras(wanted, actual.topology)
    leftover = tuple(each for each in extra if owned.is_fence(each))
    found = vanished(actual.topology, extra) if wishes.prune else ()
    doomed, kept = owned.prunable(wanted, actual, extra, found) if wishes.prune else (leftover, ())
    rule = Rule(wanted, actual, (each for each in doomed if isinstance(each, Policy)))
    stages, replaces, unchanged = _compared(wanted, actual, rule)
    prunable = {each.name for each in extra if isinstance(each, Policy)}
    making = tuple(change for stage in stages for change in stage)
    going = {identity(each) for each in doomed}
    staying = {identity(part) for each in kept for part in (each.declared, *each.parts)}
    wholes = tuple(each for each in found if identity(each.queue) in going)
    return Plan(
        stages=(*stages, *_deletions(doomed, wholes)),
        replaces=replaces,
        obstacles=tuple(obstacles(wanted, actual, rule, making, Known(wishes.accepted, prunable))),
        extras=tuple(each for each in extra if identity(each) not in going | staying),
        kept=kept,
        vanished=wholes,
        unchanged=unchanged,
        warnings=(*shadows(wanted, rule), *_useless_settings(wanted, rule), *_lost_ways(wanted, actual)),
    )


def to_be_counted(plan: Plan, wishes: Wishes) -> tuple[str, ...]:
    """Name the queues whose messages and consumers a plan must tell: those to replace, and those to delete."""
    names = [each.wanted.name for each in plan.replaces if isinstance(each.wanted, Queue)]
    if wishes.prune:
        going = (each.unwanted for each in plan.steps if isinstance(each, Delete))
        names += [each.name for each in going if isinstance(each, Queue)]
    return tuple(dict.fromkeys(names))


def _compared(
    wanted: Topology, actual: Actual, rule: Rule
) -> tuple[tuple[tuple[Change, ...], ...], tuple[Replace, ...], int]:
    there = {identity(each): each for each in owned.all_of(actual.topology)}
    in_place = policy_changes(wanted, actual, rule)
    found: list[tuple[Change, ...]] = []
    replaces: list[Replace] = []
    unchanged = 0
    for stage in creation_stages(wanted):
        changes: list[Change] = []
        for each in stage:
            change = _judge(each, there.get(identity(each)), in_place)
            if change is None:
                unchanged += 1
            elif isinstance(change, Replace):
                replaces.append(change)
            else:
                changes.append(change)
        found.append(tuple(changes))
    return tuple(stage for stage in found if stage), tuple(_with_facts(replaces, actual)), unchanged


def _judge(wanted: DeclaredObject, found: DeclaredObject | None, in_place: Mapping[str, Change]) -> Change | None:
    if isinstance(wanted, Policy) and wanted.name in in_place:
        return in_place[wanted.name]
    if found is None:
        return Create(wanted)
    if isinstance(wanted, Queue | Exchange) and isinstance(found, Queue | Exchange):
        differing = differences(found, wanted)
        return Replace(wanted, found, differing) if differing else None
    return None


def _with_facts(replaces: Iterable[Replace], actual: Actual) -> Iterator[Replace]:
    """Add what a person must know before replacing by hand."""
    bound: dict[tuple[str, str], list[Binding]] = defaultdict(list)
    listed = list(replaces)
    for binding in actual.topology.bindings if listed else ():
        bound[binding.destination_type, binding.destination].append(binding)
    for each in listed:
        kind, name = ("queue" if isinstance(each.wanted, Queue) else "exchange"), each.wanted.name
        holding = actual.holdings.get(name) if kind == "queue" else None
        yield replace(each, bindings=tuple(bound[kind, name]), holding=holding)


def _deletions(doomed: Collection[DeclaredObject], wholes: Collection[Vanished]) -> Iterator[tuple[Change, ...]]:
    fences = tuple(each for each in doomed if owned.is_fence(each))
    if fences:  # first of all: no queue takes a message behind one, and prune sets its own over the same queues
        yield tuple(Delete(each, _why(each)) for each in fences)
    going = Topology(
        exchanges=tuple(each for each in doomed if isinstance(each, Exchange)),
        queues=tuple(each for each in doomed if isinstance(each, Queue)),
        bindings=tuple(each for each in doomed if isinstance(each, Binding)),
        policies=tuple(each for each in doomed if isinstance(each, Policy) and not owned.is_fence(each)),
    )
    for stage in deletion_stages(going, wholes):
        yield tuple(Delete(each, _why(each)) for each in stage)


def _why(declared: DeclaredObject) -> str:
    return "an interrupted prune left it" if owned.is_fence(declared) else "it is in no file"


def _useless_settings(wanted: Topology, rule: Rule) -> Iterator[str]:
    """Say which keys of a policy have no effect on a queue that has them as arguments."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    policies = (*wanted.policies, *rule.foreign)
    sets_any = any(key.startswith("dead-letter-") for policy in policies for key in policy.definition)
    for queue in wanted.queues if sets_any else ():
        policy = rule.after.ruling(queue)
        useless = [
            key
            for key in (policy.definition if policy else ())
            if key.startswith("dead-letter-")
            and queue.type != "stream"
            and queue.arguments.get(f"x-{key}", _UNSET) not in {_UNSET, policy and policy.definition[key]}
        ]
        if policy and useless:
            found[policy.name, ", ".join(useless)].append(queue.name)
    for (name, keys), queues in found.items():
        yield f'policy "{name}" sets {keys}, which {some(queues)} has as an argument: the argument wins'


_UNSET = "\0"


def _lost_ways(wanted: Topology, actual: Actual) -> Iterator[str]:
    """Say which dead-letter and alternate exchanges are neither in the file nor on the broker."""
    known = {each.name for each in (*wanted.exchanges, *actual.topology.exchanges)}
    for (kind, name), users in owned.references(wanted).items():
        if kind == "exchange" and name not in known and not name.startswith("amq."):
            yield f"{some(users)} names the exchange {name}, which is neither in the file nor on the broker"


def lossy(plan: Plan) -> tuple[UpdateLossy, ...]:
    """Give the changes that may drop messages."""
    return tuple(change for change in plan.steps if isinstance(change, UpdateLossy))
