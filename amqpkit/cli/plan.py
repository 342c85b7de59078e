"""`amqpkit plan`: say what apply would do, and touch nothing."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.planned import PlanOptions, lines
from amqpkit.cli.waiting import reading
from amqpkit.cli.written import deliver
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.document import plain
from amqpkit.declare.plan.planning import Plan
from amqpkit.declare.plan.promises import promises
from amqpkit.declare.plan.rule import Rule
from amqpkit.declare.plan.saved import save
from amqpkit.model import Topology
from amqpkit.operate.survey import survey

CHANGES: Final = 2


async def plan(  # noqa: PLR0913 - a command's options
    *files: Path,
    connection: AdminOptions | None = None,
    options: PlanOptions | None = None,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    detailed_exitcode: Annotated[bool, Parameter(negative=())] = False,
    settings: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Say what apply would change on the broker, what that risks and what stands in its way. Changes nothing.

    `+` is created, `~` changes in place, `!` changes in place and may drop messages, `-/+` can only be replaced and
    blocks the plan (see `amqpkit migrate`), `-` is deleted (only with --prune). A user with the tag management and a
    permission of `^$` is enough.

    Exit codes: 0 planned; 1 failed; with --detailed-exitcode also 2 when there are changes, blocked ones too.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    options
        What to plan beyond the files.
    out
        Keep the plan in this file, for `amqpkit apply --plan FILE`; it holds no password.
    detailed_exitcode
        Exit with 2 when there are changes.
    settings
        Also print what rules each queue in the end, and where that comes from: argument, policy or operator policy.
    json_
        Print one JSON document instead; docs/plan-format.md describes it.
    """
    paths, wishes = topology_files(files), (options or PlanOptions()).wishes
    with reading(paths) as say:
        topology = load_topology(*paths, environ=os.environ)
        place = (connection or AdminOptions()).place(topology.vhost)
        async with administered(place, say) as (admin, broker):
            planned, actual = await survey(topology, admin, wishes)
    document = {
        **save(topology, actual, planned, wishes, broker),
        "work_queues": [plain(each) for each in promises(topology, actual)],
    }
    if settings:
        document["settings"] = _settings(topology, actual)
    if out is not None:
        deliver(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n", out)
    if json_:
        print(json.dumps({key: value for key, value in document.items() if key != "desired"}, indent=2, default=str))
    else:
        print(f"{place} ({broker.cluster_name}, RabbitMQ {broker.version}):")
        _show(planned, topology, actual, document.get("settings", {}))
    return CHANGES if detailed_exitcode and (planned.changes or planned.obstacles) else 0


def _show(planned: Plan, topology: Topology, actual: Actual, settings: dict[str, Any]) -> None:
    for queue, effective in settings.items():
        print(f"  settings of {queue}:")
        for key, each in effective.items():
            print(f"      {key}: {each['value']} ({each['source']})")
    for line in lines(planned, promises(topology, actual)):
        print(line)
    if planned.blocked:
        print("Blocked: nothing of this plan will be applied before that is cleared.")


def _settings(topology: Topology, actual: Actual) -> dict[str, Any]:
    rule = Rule(topology, actual)
    return {queue.name: plain(dict(rule.settings_after(queue))) for queue in topology.queues}
