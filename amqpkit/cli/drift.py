"""`amqpkit drift`: say in what the broker is not what the files say."""

import json
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.waiting import reading
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.document import FORMAT
from amqpkit.declare.plan.drift import document, find_drift
from amqpkit.operate.survey import survey

DRIFTED = 2


async def drift(
    *files: Path,
    connection: AdminOptions | None = None,
    accept_policy: Annotated[list[str] | None, Parameter(negative=(), show_default=False)] = None,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Say in what the broker has drifted from the files. Changes nothing.

    `missing`: it is in the file and not there. `changed`: it differs. `shadowed`: another policy rules it instead of
    ours. `tightened`: an operator policy changes what it obeys. `extra`: it is within `owns` and in no file. A user
    with the tag management and a permission of `^$` is enough.

    Exit codes: 0 no drift; 1 failed; 2 drift.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    accept_policy
        Let this policy or operator policy of somebody else shadow or tighten; may be given several times.
    json_
        Print one JSON document instead; docs/plan-format.md describes it.
    """
    paths = topology_files(files)
    with reading(paths) as say:
        topology = load_topology(*paths, environ=os.environ)
        place = (connection or AdminOptions()).place(topology.vhost)
        async with administered(place, say) as (admin, broker):
            _, actual = await survey(topology, admin)
        found = find_drift(topology, actual, frozenset(accept_policy or ()))
    if json_:
        about = {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": place.vhost}
        print(json.dumps({"format_version": FORMAT, "broker": about, **document(found)}, indent=2, ensure_ascii=False))
    else:
        print(f"{place} ({broker.cluster_name}, RabbitMQ {broker.version}):")
        for each in (*found.found, *(f"warning: {warning}" for warning in found.warnings)):
            print(f"  {each}")
        counts = ", ".join(f"{count} {kind}" for kind, count in found.summary.items())
        print(f"Drift: {counts}." if found.found else "No drift.")
    return DRIFTED if found.found else 0
