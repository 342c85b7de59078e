"""Look at a broker and plan."""

from typing import Final

from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import Plan, Wishes, make_plan, to_be_counted
from amqpkit.model import Surroundings, Topology
from amqpkit.ports import Admin, Surveyor

NO_WISHES: Final = Wishes()


async def survey(topology: Topology, admin: Admin, wishes: Wishes = NO_WISHES) -> tuple[Plan, Actual]:
    """Read a vhost and plan a topology for it; changes nothing. Raises what the admin's `read` raises.

    What queues hold is asked only of those that the plan would replace or delete.
    """
    surroundings = await admin.surroundings() if isinstance(admin, Surveyor) else Surroundings()
    actual = Actual(await admin.read(), surroundings)
    plan = make_plan(topology, actual, wishes)
    counted = to_be_counted(plan, wishes)
    if not counted or not isinstance(admin, Surveyor):
        return plan, actual
    actual = Actual(actual.topology, surroundings, await admin.holdings(counted))
    return make_plan(topology, actual, wishes), actual
