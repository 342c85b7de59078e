"""`amqpkit validate`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from amqpkit.cli.files import topology_files
from amqpkit.cli.problems import listed
from amqpkit.cli.waiting import reading
from amqpkit.declare.lint.catalogue import REFUSED
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint
from amqpkit.declare.load import read_texts
from amqpkit.errors import TopologyError
from amqpkit.model import Topology


def validate(*files: Path, json_: bool = False) -> int:
    """Check topology files and name every problem with its place.

    These are the errors of `lint`: what RabbitMQ would refuse, and what would certainly lose messages.

    Exit codes: 0 none; 1 problems.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    json_
        Print one JSON document: format_version, ok, problems [{place, message, code}], and when there are none, how
        many work_queues, queues, exchanges, bindings and policies there are.
    """
    paths = topology_files(files)
    try:
        with reading(paths):
            report = lint(read_texts(*paths), os.environ)
        problems = [
            {"place": str(each.place), "message": each.text, "code": each.rule.code}
            for each in report.at_least(Severity.ERROR)
        ]
    except TopologyError as error:
        report = None
        problems = [{"place": each.place, "message": each.message, "code": REFUSED.code} for each in error.problems]
    if problems or report is None or report.topology is None:
        return _failed(problems, json_=json_)
    counts = _counts(report.topology)
    if json_:
        _print_json({"ok": True, **counts, "problems": []})
    else:
        counted = ", ".join(_counted(word, number) for word, number in counts.items())
        print(f"{' + '.join(map(str, paths))}: ok, {counted}")
    return 0


def _failed(problems: list[dict[str, str]], *, json_: bool) -> int:
    if json_:
        _print_json({"ok": False, "problems": problems})
    else:
        print(listed([_line(problem) for problem in problems]), file=sys.stderr)
    return 1


def _line(problem: dict[str, str]) -> str:
    rule = "" if problem["code"] == REFUSED.code else f" ({problem['code']})"
    return f"{problem['place']}: {problem['message']}{rule}"


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


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps({"format_version": "1.0", **data}, indent=2, ensure_ascii=False))
