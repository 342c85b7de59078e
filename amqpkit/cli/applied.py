"""What an apply says on its way, to people and to programs, and the exit code of each end."""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

from amqpkit.cli.connect import Place
from amqpkit.cli.planned import lines
from amqpkit.cli.usage import UsageError
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import Change
from amqpkit.declare.plan.document import FORMAT, change_document, document
from amqpkit.declare.plan.planning import Plan
from amqpkit.errors import AmqpkitError, TopologyError
from amqpkit.operate.refusals import ApplyFailed, Conflicts
from amqpkit.operate.report import Report
from amqpkit.ports import BrokerInfo

FAILED: Final = 1
PARTLY: Final = 3


class Face(Protocol):
    """What an apply says, and the exit code of each end."""

    def ending(self) -> AbstractContextManager[None]:
        """Surround the whole run: an error that ends it is told as this face tells, and raised on."""

    def meet(self, place: Place, broker: BrokerInfo) -> None:
        """The broker has answered."""

    def plan(self, planned: Plan) -> None:
        """Show what will be done."""

    def step(self, change: Change) -> None:
        """A change is done."""

    def refused(self, planned: Plan, error: Conflicts) -> int:
        """The plan is blocked."""

    def declined(self, reason: str) -> int:
        """Nobody said yes."""

    def failed(self, error: ApplyFailed) -> int:
        """It stopped on the way."""

    def applied(self, report: Report) -> int:
        """It is done."""


class TextFace:
    """For people: the plan and the result on stdout, progress and trouble on stderr."""

    def __init__(self) -> None:
        self._place = ""
        self._total = self._done = 0

    def ending(self) -> AbstractContextManager[None]:
        """Leave the error to the command line, which says it on stderr."""
        return nullcontext()

    def meet(self, place: Place, broker: BrokerInfo) -> None:
        """Know what to call the place."""
        self._place = f"{place} ({broker.cluster_name}, RabbitMQ {broker.version})"

    def plan(self, planned: Plan) -> None:
        """Print the plan, unless there is nothing to do."""
        self._total = len(planned.steps)
        if planned.steps:
            print(f"{self._place}:")
            for line in lines(planned):
                print(line)

    def step(self, change: Change) -> None:
        """Count on stderr, where somebody watches."""
        self._done += 1
        if sys.stderr.isatty():
            end = "\n" if self._done == self._total else ""
            sys.stderr.write(f"\r\x1b[K{self._done}/{self._total} {judged.address(change)}{end}")
            sys.stderr.flush()

    def refused(self, planned: Plan, error: Conflicts) -> int:
        """Say what stands in the way."""
        del planned
        return self._no(f"{error}\nnothing was changed in {self._place}")

    def declined(self, reason: str) -> int:
        """Say why nothing happens."""
        return self._no(reason)

    def failed(self, error: ApplyFailed) -> int:
        """Say what is done and what is not."""
        if sys.stderr.isatty() and self._done:
            sys.stderr.write("\n")
        self._no(str(error))
        return _code(error)

    def applied(self, report: Report) -> int:
        """Say what was done."""
        for warning in report.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        for kept in report.kept:
            print(f"kept: {kept.address}: {kept.reason}", file=sys.stderr)
        if not report.changed:
            print(f"Nothing to change: all {report.unchanged} objects are as declared in {self._place}.")
            return 0
        deleted = f", deleted {len(report.deleted)}" if report.deleted else ""
        created, updated = len(report.created), len(report.updated)
        print(f"Created {created}, changed {updated}{deleted}; {report.unchanged} were as declared.")
        return 0

    def _no(self, text: str) -> int:
        print(text, file=sys.stderr)
        return FAILED


class JsonFace:
    """For programs: one document on stdout, whatever the end; its shape is in the command's help."""

    def __init__(self) -> None:
        self._document: dict[str, Any] = {
            "format_version": FORMAT,
            "broker": None,
            "outcome": "",
            "changes": [],
            "unchanged": 0,
            "conflicts": [],
            "warnings": [],
            "errors": [],
        }
        self._changes: dict[str, dict[str, Any]] = {}
        self._told = False

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Print an error that no other end has told; a wrong command line has no document."""
        try:
            yield
        except UsageError:
            raise
        except AmqpkitError as error:
            if not self._told:
                done = any(change["done"] for change in self._changes.values())
                self._print("partly-applied" if done else "failed", FAILED, errors=_sentences(error))
            raise

    def meet(self, place: Place, broker: BrokerInfo) -> None:
        """Name the broker in the document."""
        self._document["broker"] = {
            "version": broker.version,
            "cluster_name": broker.cluster_name,
            "vhost": place.vhost,
        }

    def plan(self, planned: Plan) -> None:
        """Keep the plan for the end."""
        self._changes = {judged.address(each): {**change_document(each), "done": False} for each in planned.steps}
        rest = {key: value for key, value in document(planned).items() if key not in {"changes", "summary"}}
        self._document |= {**rest, "changes": list(self._changes.values()), "unchanged": planned.unchanged}

    def step(self, change: Change) -> None:
        """Mark a change as done."""
        self._changes[judged.address(change)]["done"] = True

    def refused(self, planned: Plan, error: Conflicts) -> int:
        """Print every conflict."""
        self._document |= document(planned)
        facts = ("object", "argument", "wanted", "actual", "remedy")
        conflicts = [{fact: getattr(refusal, fact) for fact in facts} for refusal in error.refusals]
        return self._print("refused", FAILED, conflicts=conflicts, errors=[str(each) for each in error.refusals])

    def declined(self, reason: str) -> int:
        """Print why nothing happens."""
        return self._print("declined", FAILED, errors=[reason])

    def failed(self, error: ApplyFailed) -> int:
        """Print what is done and what went wrong."""
        code = _code(error)
        return self._print("partly-applied" if code == PARTLY else "failed", code, errors=list(error.reasons))

    def applied(self, report: Report) -> int:
        """Print what was done."""
        return self._print("applied" if report.changed else "unchanged", 0, warnings=list(report.warnings))

    def _print(self, outcome: str, code: int, **more: object) -> int:
        self._told = True
        print(json.dumps({**self._document, "outcome": outcome, **more}, indent=2, ensure_ascii=False))
        return code


def _sentences(error: AmqpkitError) -> list[str]:
    return [str(each) for each in error.problems] if isinstance(error, TopologyError) else [str(error)]


def _code(error: ApplyFailed) -> int:
    """Tell "partly" from "nothing at all"; a request without an answer may have been carried out."""
    return PARTLY if error.touched else FAILED
