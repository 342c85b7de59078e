"""What a migration is, and what is seen of it on a broker. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from amqpkit.declare.identity import identity
from amqpkit.declare.migration.needs import needed
from amqpkit.declare.migration.scaffold import Scaffold
from amqpkit.declare.migration.steps import Seen, Standing
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.differences import Difference, differences
from amqpkit.declare.plan.extras import FENCE, all_of
from amqpkit.declare.plan.planning import Plan
from amqpkit.declare.plan.rule import Rule
from amqpkit.declare.plan.settings import Setting
from amqpkit.model import Binding, DeclaredObject, Policy, Queue, Topology


@dataclass(frozen=True, slots=True)
class Migration:
    """One queue to be migrated: what it is to be, and what must be created for it before.

    `needed` are its dead-letter exchange and what that leads to, as far as they are not there, and the policy that is
    to rule it; `holding` is the queue that will stand in.
    """

    scaffold: Scaffold
    wanted: Queue
    found: Queue | None
    holding: Queue
    needed: tuple[DeclaredObject, ...] = ()

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What of the queue changes."""
        return differences(self.found, self.wanted) if self.found else ()


def make_migration(wanted: Queue, topology: Topology, actual: Actual, plan: Plan) -> Migration:
    """Put together what migrating a queue of the file takes."""
    found = queue_of(actual.topology, wanted.name)
    scaffold = Scaffold(wanted.name)
    rule = Rule(topology, actual)
    dead_letters = _dead_letters(rule.settings_before(found)) if found else {}
    return Migration(scaffold, wanted, found, scaffold.holding(found, dead_letters), needed(wanted, topology, plan))


def see(migration: Migration, there: Topology, counts: Mapping[str, int]) -> Seen:
    """Judge what stands on the broker; `counts` are the ready messages of the queue and of its holding queue."""
    scaffold, name, holding = migration.scaffold, migration.wanted.name, migration.holding.name
    found, held = queue_of(there, name), queue_of(there, holding)
    standing = _standing(found, migration.wanted)
    policies = {policy.name: policy for policy in there.policies}
    guard = policies.get(scaffold.guard_name)
    way_in = (held or migration.holding, scaffold.into, scaffold.way_in) if standing is Standing.OLD else ()
    return Seen(
        standing=standing,
        holding=held is not None,
        bindings=tuple(each for each in bound_to(there, name) if each.source != scaffold.back.name),
        held_bindings=tuple(each for each in bound_to(there, holding) if each.source != scaffold.into.name),
        ready=counts.get(name, 0),
        held=counts.get(holding, 0),
        note=scaffold.note_of(guard) if guard else None,
        fenced=f"{FENCE}{name}" in policies,
        missing=_missing(
            (*(way_in if standing is not Standing.NEW else (scaffold.back, scaffold.way_back)), *migration.needed),
            there,
        ),
        later=_missing((scaffold.back, scaffold.way_back), there),
        scaffold=_leftovers(scaffold, there),
    )


def queue_of(there: Topology, name: str) -> Queue | None:
    """Find a queue."""
    return next((queue for queue in there.queues if queue.name == name), None)


def _standing(found: Queue | None, wanted: Queue) -> Standing:
    if found is None:
        return Standing.MISSING
    return Standing.OLD if differences(found, wanted) else Standing.NEW


def bound_to(there: Topology, queue: str) -> tuple[Binding, ...]:
    """Find what leads to a queue."""
    return tuple(each for each in there.bindings if (each.destination_type, each.destination) == ("queue", queue))


def _missing(objects: Iterable[DeclaredObject], there: Topology) -> tuple[DeclaredObject, ...]:
    present = {identity(each): each for each in all_of(there)}
    found = ((each, present.get(identity(each))) for each in objects)
    return tuple(each for each, same in found if same is None or (isinstance(each, Policy) and differences(same, each)))


def _leftovers(scaffold: Scaffold, there: Topology) -> tuple[DeclaredObject, ...]:
    names = {scaffold.into.name, scaffold.back.name}
    policies = {scaffold.guard_name, f"{FENCE}{scaffold.name}", f"{FENCE}{scaffold.holding().name}"}
    return (
        *(each for each in there.exchanges if each.name in names),
        *(each for each in there.policies if each.name in policies),
    )


def _dead_letters(effective: Mapping[str, Setting]) -> dict[str, Any]:
    keys = ("dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy")
    return {f"x-{key}": effective[key].value for key in keys if key in effective}
