"""`amqpkit compile`."""

import json
import os
from pathlib import Path
from typing import Literal

from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.declare.rendering import rendered
from amqpkit.declare.spec.document import to_yaml


def compile(*files: Path, format: Literal["yaml", "json"] = "yaml", json_: bool = False) -> int:  # noqa: A001, A002 - the command's words
    """Print what RabbitMQ will be asked for, and what the work queues mean.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    format
        How to print it.
    json_
        Short for --format json.
    """
    document = rendered(load_topology(*topology_files(files), environ=os.environ))
    if json_ or format == "json":
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(to_yaml(document), end="")
    return 0
