"""`amqpkit export runbook`."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.declare.load import load_topology
from amqpkit.operate.runbook import runbook as written


def runbook(
    *files: Path,
    queue: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
) -> int:
    """Write a runbook for each dead-letter queue, as Markdown: owner, what each fate means, the commands to type.

    Exit codes: 0 written; 1 failed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    queue
        Only this work queue's, once for each (default: all).
    """
    paths = topology_files(files)
    topology = load_topology(*paths, environ=os.environ)
    if unknown := [name for name in queue if name not in topology.work_queues]:
        known = ", ".join(sorted(topology.work_queues)) or "none"
        msg = f"no work queue {', '.join(unknown)} in {' + '.join(map(str, paths))} (there is {known})"
        raise UsageError(msg)
    # without files the commands find them as this one did
    print(written(topology, queue, files=[str(path) for path in files]), end="")
    return 0
