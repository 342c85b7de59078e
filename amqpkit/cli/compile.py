"""`amqpkit compile`."""

import json
import os
from pathlib import Path
from typing import Literal

from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.declare.rendering import effective_settings, rendered
from amqpkit.declare.spec.document import to_yaml


def compile(  # noqa: A001 - the command's word
    *files: Path,
    format: Literal["yaml", "json"] = "yaml",  # noqa: A002 - the command's word
    json_: bool = False,
    effective: bool = False,
) -> int:
    """Print what RabbitMQ will be asked for, and what the work queues mean.

    Exit codes: 0 printed; 1 the files have problems.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    format
        How to print it.
    json_
        Short for --format json.
    effective
        Print instead what each queue will obey, key by key, and whether an argument or which policy says so.
    """
    topology = load_topology(*topology_files(files), environ=os.environ)
    document = effective_settings(topology) if effective else rendered(topology)
    if json_ or format == "json":
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(to_yaml(document), end="")
    return 0
