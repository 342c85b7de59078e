"""`amqpkit export definitions`."""

import json
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.cli.written import deliver, refuse_to_overwrite
from amqpkit.declare.export.definitions import definitions as exported
from amqpkit.declare.load import load_topology
from amqpkit.model import Topology


async def definitions(
    *files: Path,
    cluster: Annotated[bool, Parameter(negative=())] = False,
    live: Annotated[bool, Parameter(negative=())] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], show_default=False)] = None,
    force: Annotated[bool, Parameter(negative=())] = False,
    connection: AdminOptions | None = None,
) -> int:
    """Write RabbitMQ's definitions, sorted: exchanges, queues, bindings, policies, and nothing secret.

    For `POST /api/definitions/VHOST` or, with --cluster, `rabbitmqctl import_definitions` and a broker's start.
    RabbitMQ imports into an empty vhost what is written here; over existing objects it changes nothing and says that
    all is well, which is what `amqpkit apply` is for.

    Exit codes: 0 written; 1 failed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    cluster
        Name the vhost with every object, as in a whole cluster's definitions: --vhost, else the file's or the URL's.
    live
        Write what a broker has instead of files; unlike RabbitMQ's own export it has internal exchanges and no user.
    out
        Write there instead of to stdout.
    force
        Let --out replace a file.
    connection
        Which broker, with --live.
    """
    if live and files:
        msg = "export definitions writes the files or, with --live, the broker's: give one of the two"
        raise UsageError(msg)
    refuse_to_overwrite(out, force=force)
    options = connection or AdminOptions()
    topology = await _read(options) if live else load_topology(*topology_files(files), environ=os.environ)
    vhost = options.vhost or topology.vhost or options.named_vhost if cluster else None
    document = exported(topology, vhost)
    deliver(json.dumps(document, indent=2, ensure_ascii=False, default=dict) + "\n", out)
    return 0


async def _read(options: AdminOptions) -> Topology:
    async with administered(options.place()) as (admin, _):
        return await admin.read()
