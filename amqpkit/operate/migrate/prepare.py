"""Look at a queue and its broker before anything is changed."""

from dataclasses import dataclass, replace

from amqpkit.declare.migration.hazards import cautions, refusals
from amqpkit.declare.migration.request import Migration, make_migration, queue_of, see
from amqpkit.declare.migration.scaffold import Scaffold
from amqpkit.declare.migration.steps import Seen
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import POLICYMAKER, Change, Create, Delete
from amqpkit.declare.plan.extras import references
from amqpkit.declare.plan.planning import Wishes
from amqpkit.model import DeclaredObject, Holding, Surroundings, Topology
from amqpkit.operate.migrate.report import CannotMigrate
from amqpkit.operate.prune import can_be_fenced
from amqpkit.operate.survey import NO_WISHES, survey
from amqpkit.ports import Admin, Surveyor


@dataclass(frozen=True, slots=True)
class Prospect:
    """A migration as it stands: what is seen of it, and what a person should know; counts are the API's, a bit late."""

    migration: Migration
    seen: Seen
    holding: Holding
    cautions: tuple[str, ...]


async def prepare(name: str, topology: Topology, admin: Admin, wishes: Wishes = NO_WISHES) -> Prospect:
    """Find out what migrating a queue takes, and what a person should know before; changes nothing.

    Raises CannotMigrate, and what the admin's `read` raises.
    """
    wanted = queue_of(topology, name)
    if wanted is None:
        raise CannotMigrate(name, ("it is not in the topology file: what should it become?",))
    plan, actual = await survey(topology, admin, wishes)
    actual = Actual(actual.topology, actual.surroundings, await _holdings(name, actual.topology, admin))
    migration = make_migration(wanted, topology, actual, plan)
    reasons = [*refusals(migration, topology, actual, plan), *_rights(actual.surroundings)]
    if migration.found is None and queue_of(actual.topology, migration.holding.name) is None:
        reasons.append("it is not there: apply creates it")
    if reasons:
        raise CannotMigrate(name, tuple(reasons))
    counts = {queue: each.messages for queue, each in actual.holdings.items()}
    seen = see(migration, actual.topology, counts)
    if migration.found:
        seen = replace(seen, fenceable=can_be_fenced(migration.found))
    holding = actual.holdings.get(name, Holding(0, 0))
    return Prospect(migration, seen, holding, tuple(cautions(migration, topology, actual)))


def changes(prospect: Prospect) -> tuple[Change, ...]:
    """List what a migration makes and deletes, in no order: for who asks whether the user may."""
    migration, seen = prospect.migration, prospect.seen
    scaffold, wanted, holding = migration.scaffold, migration.wanted, migration.holding
    moved = (*seen.bindings, *seen.held_bindings)
    made: tuple[DeclaredObject, ...] = (
        *migration.needed,
        *((scaffold.trial(wanted),) if migration.differences else ()),
        *(holding, wanted, scaffold.into, scaffold.back, scaffold.way_in, scaffold.way_back),
        *(replace(each, destination=queue.name) for queue in (holding, wanted) for each in moved),
    )
    gone = (holding, *((migration.found,) if migration.found else ()))
    return (*map(Create, made), *map(Delete, gone))


async def _holdings(name: str, there: Topology, admin: Admin) -> dict[str, Holding]:
    users = (user.partition(" ") for user in references(there).get(("queue", name), ()))
    names = [name, Scaffold(name).holding().name, *(queue for kind, _, queue in users if kind == "queue")]
    return dict(await admin.holdings(names)) if isinstance(admin, Surveyor) else {}


def _rights(surroundings: Surroundings) -> list[str]:
    tags = surroundings.tags
    if tags is None or tags & {POLICYMAKER, "administrator"}:
        return []
    user = surroundings.user
    remedy = f"rabbitmqctl set_user_tags {user} {POLICYMAKER}"
    return [f'user "{user}" needs the tag {POLICYMAKER}, for policies that keep others out ({remedy})']


async def try_out(migration: Migration, admin: Admin) -> None:
    """Have the broker judge the new queue, under another name, before the old one goes.

    Raises Refused, AccessRefused, ConnectionFailed.
    """
    trial = migration.scaffold.trial(migration.wanted)
    try:
        await admin.create(trial)
    finally:
        await admin.delete(trial)
