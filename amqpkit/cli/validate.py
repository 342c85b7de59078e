"""`amqpkit validate`."""

import json
import os
import sys
from pathlib import Path

from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.errors import TopologyError
from amqpkit.model import Topology


def validate(*files: Path, json_: bool = False) -> int:
    """Check topology files and name every problem with its place.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    json_
        Print the result as JSON.
    """
    paths = topology_files(files)
    try:
        topology = load_topology(*paths, environ=os.environ)
    except TopologyError as error:
        if json_:
            _print_json({"ok": False, "problems": [{"place": p.place, "message": p.message} for p in error.problems]})
        else:
            print(error, file=sys.stderr)
        return 1
    if json_:
        _print_json({"ok": True, **_counts(topology), "problems": []})
    else:
        counts = ", ".join(_counted(word, number) for word, number in _counts(topology).items())
        print(f"{' + '.join(map(str, paths))}: ok, {counts}")
    return 0


def _counts(topology: Topology) -> dict[str, int]:
    return {
        "work_queues": len(topology.work_queues),
        "queues": len(topology.queues),
        "exchanges": len(topology.exchanges),
        "bindings": len(topology.bindings),
        "policies": len(topology.policies),
    }


def _counted(word: str, number: int) -> str:
    plural = word.replace("_", " ")
    singular = "policy" if plural == "policies" else plural.removesuffix("s")
    return f"{number} {singular if number == 1 else plural}"


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))
