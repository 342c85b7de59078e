"""Look at a queue and its broker before anything is changed."""

from amqpkit.declare.migration.hazards import cautions, refusals
from amqpkit.declare.migration.request import Migration, make_migration, queue_of
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import POLICYMAKER
from amqpkit.declare.plan.extras import references
from amqpkit.declare.plan.planning import Wishes
from amqpkit.model import Holding, Surroundings, Topology
from amqpkit.operate.migrate.report import CannotMigrate
from amqpkit.operate.survey import NO_WISHES, survey
from amqpkit.ports import Admin, Surveyor


async def prepare(
    name: str, topology: Topology, admin: Admin, wishes: Wishes = NO_WISHES
) -> tuple[Migration, Actual, tuple[str, ...]]:
    """Find out what migrating a queue takes, and what a person should know before; changes nothing for good.

    Whether the broker takes the new queue is tried under another name. Raises CannotMigrate, and what the admin's
    `read` raises.
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
    if migration.differences:
        await _try(migration, admin)
    return migration, actual, tuple(cautions(migration, topology, actual))


async def _holdings(name: str, there: Topology, admin: Admin) -> dict[str, Holding]:
    users = (user.partition(" ") for user in references(there).get(("queue", name), ()))
    names = [name, *(queue for kind, _, queue in users if kind == "queue")]
    return dict(await admin.holdings(names)) if isinstance(admin, Surveyor) else {}


def _rights(surroundings: Surroundings) -> list[str]:
    tags = surroundings.tags
    if tags is None or tags & {POLICYMAKER, "administrator"}:
        return []
    user = surroundings.user
    remedy = f"rabbitmqctl set_user_tags {user} {POLICYMAKER}"
    return [f'user "{user}" needs the tag {POLICYMAKER}, for policies that keep others out ({remedy})']


async def _try(migration: Migration, admin: Admin) -> None:
    """Have the broker judge the new queue before the old one goes; raises Refused, AccessRefused."""
    trial = migration.scaffold.trial(migration.wanted)
    try:
        await admin.create(trial)
    finally:
        await admin.delete(trial)
