"""`amqpkit apply`: make the broker have what the files declare."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, Place, administered
from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.operate.apply import ApplyFailed, Conflicts, Report, perform, prepare
from amqpkit.operate.compare import Comparison, Step
from amqpkit.ports import BrokerInfo

FAILED: Final = 1
PARTLY: Final = 3


async def apply(
    *files: Path,
    connection: AdminOptions | None = None,
    yes: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Create on the broker what the topology declares and the broker lacks.

    Policies that differ are overwritten. Where a queue or an exchange differs, nothing at all is changed and you are
    told what can be done. Nothing is ever deleted; applying twice changes nothing.

    Exit codes: 0 the broker has it all; 1 refused, failed or declined with nothing changed; 3 stopped on the way: what
    was made stays, and applying again does the rest.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    yes
        Do not ask.
    json_
        Print one JSON document: format_version, broker {version, cluster_name, vhost}, outcome (applied, unchanged,
        declined, refused, failed, partly-applied), changes [{address, action (create, update), done, properties
        [{name, before, after}]}], unchanged, conflicts [{object, argument, wanted, actual, remedy}], warnings, errors.
    """
    topology = load_topology(*topology_files(files), environ=os.environ)
    place = (connection or AdminOptions()).place(topology.vhost)
    async with administered(place) as (admin, broker):
        face: _Face = _Json(place, broker) if json_ else _Text(place, broker)
        try:
            todo = await prepare(topology, admin)
        except Conflicts as error:
            return face.refused(error)
        face.plan(todo)
        if todo.steps and not yes and (reason := _declined()):
            return face.declined(reason)
        try:
            report = await perform(todo, topology, admin, on_step=face.step)
        except ApplyFailed as error:
            return face.failed(error)
        return face.applied(report)


def _declined() -> str:
    """Ask; return why not to go on, or nothing."""
    if not sys.stdin.isatty():
        return "nothing was changed: there is no terminal to ask at; say --yes to apply without a question"
    sys.stderr.write("Apply these changes? Only yes is accepted: ")
    sys.stderr.flush()
    return "" if sys.stdin.readline().strip() == "yes" else "nothing was changed"


class _Face(Protocol):
    """What an apply says, and the exit code of each end."""

    def plan(self, todo: Comparison) -> None: ...
    def step(self, step: Step) -> None: ...
    def refused(self, error: Conflicts) -> int: ...
    def declined(self, reason: str) -> int: ...
    def failed(self, error: ApplyFailed) -> int: ...
    def applied(self, report: Report) -> int: ...


class _Text:
    """For people: the plan and the result on stdout, progress and trouble on stderr."""

    def __init__(self, place: Place, broker: BrokerInfo) -> None:
        self._place = f"{place} ({broker.cluster_name}, RabbitMQ {broker.version})"
        self._total = self._done = 0

    def plan(self, todo: Comparison) -> None:
        self._total = len(todo.steps)
        if not todo.steps:
            return
        print(f"{self._place}:")
        for step in todo.steps:
            print(f"  {step.symbol} {step.address}")
            for name, before, after in step.changes:
                print(f"      {name}: {before} -> {after}")
        changed = sum(step.replaces is not None for step in todo.steps)
        print(f"{self._total - changed} to create, {changed} to change in place, {todo.unchanged} as declared.")

    def step(self, step: Step) -> None:
        self._done += 1
        if sys.stderr.isatty():
            end = "\n" if self._done == self._total else ""
            sys.stderr.write(f"\r\x1b[K{self._done}/{self._total} {step.address}{end}")
            sys.stderr.flush()

    def refused(self, error: Conflicts) -> int:
        return self._no(f"{error}\nnothing was changed in {self._place}")

    def declined(self, reason: str) -> int:
        return self._no(reason)

    def failed(self, error: ApplyFailed) -> int:
        if sys.stderr.isatty() and self._done:
            sys.stderr.write("\n")
        self._no(str(error))
        return _code(error)

    def applied(self, report: Report) -> int:
        for warning in report.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        if report.created or report.updated:
            print(f"Created {len(report.created)}, changed {len(report.updated)}; {report.unchanged} were as declared.")
        else:
            print(f"Nothing to change: all {report.unchanged} objects are as declared in {self._place}.")
        return 0

    def _no(self, text: str) -> int:
        print(text, file=sys.stderr)
        return FAILED


class _Json:
    """For programs: one document on stdout, whatever the end; its shape is in the command's help."""

    def __init__(self, place: Place, broker: BrokerInfo) -> None:
        self._document: dict[str, Any] = {
            "format_version": "1.0",
            "broker": {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": place.vhost},
            "outcome": "",
            "changes": [],
            "unchanged": 0,
            "conflicts": [],
            "warnings": [],
            "errors": [],
        }
        self._changes: dict[str, dict[str, Any]] = {}

    def plan(self, todo: Comparison) -> None:
        self._changes = {step.address: _change(step) for step in todo.steps}
        self._document |= {"changes": list(self._changes.values()), "unchanged": todo.unchanged}

    def step(self, step: Step) -> None:
        self._changes[step.address]["done"] = True

    def refused(self, error: Conflicts) -> int:
        facts = ("object", "argument", "wanted", "actual", "remedy")
        conflicts = [{fact: getattr(refusal, fact) for fact in facts} for refusal in error.refusals]
        return self._print("refused", FAILED, conflicts=conflicts, errors=[str(each) for each in error.refusals])

    def declined(self, reason: str) -> int:
        return self._print("declined", FAILED, errors=[reason])

    def failed(self, error: ApplyFailed) -> int:
        code = _code(error)
        return self._print("partly-applied" if code == PARTLY else "failed", code, errors=list(error.reasons))

    def applied(self, report: Report) -> int:
        changed = report.created or report.updated
        return self._print("applied" if changed else "unchanged", 0, warnings=list(report.warnings))

    def _print(self, outcome: str, code: int, **more: object) -> int:
        print(json.dumps({**self._document, "outcome": outcome, **more}, indent=2, ensure_ascii=False))
        return code


def _change(step: Step) -> dict[str, Any]:
    names = ("name", "before", "after")
    return {
        "address": step.address,
        "action": "create" if step.replaces is None else "update",
        "done": False,
        "properties": [dict(zip(names, change, strict=True)) for change in step.changes],
    }


def _code(error: ApplyFailed) -> int:
    """Tell "partly" from "nothing at all"; a request without an answer may have been carried out."""
    return PARTLY if error.touched else FAILED
