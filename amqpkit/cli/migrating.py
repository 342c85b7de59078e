"""What a migration says before, on its way and in the end, to people and to programs, and the exit code of each end."""

import json
import sys
import time
from dataclasses import asdict
from typing import Any, Final, Protocol

from amqpkit.cli.connect import Place
from amqpkit.cli.told import told
from amqpkit.declare.migration.foresight import steps_ahead
from amqpkit.declare.migration.steps import Move, Seen, Step, Write
from amqpkit.declare.plan.document import FORMAT
from amqpkit.operate.migrate.prepare import Prospect
from amqpkit.operate.migrate.report import CannotMigrate, MigrationStopped, Report
from amqpkit.ports import BrokerInfo

FAILED: Final = 1
STOPPED: Final = 3
_WIDTH: Final = 30
_OFTEN: Final = 0.1


class Face(Protocol):
    """What a migration says, and the exit code of each end."""

    def prospect(self, prospect: Prospect) -> None:
        """Show what will be done."""

    def step(self, step: Step, seen: Seen) -> None:
        """A step begins."""

    def moved(self) -> None:
        """A message was moved."""

    def planned(self) -> int:
        """That was all that was asked."""

    def unchanged(self) -> int:
        """There is nothing to do."""

    def refused(self, error: CannotMigrate) -> int:
        """It cannot be done."""

    def declined(self, reason: str) -> int:
        """Nobody said yes."""

    def stopped(self, error: MigrationStopped) -> int:
        """It stopped half-way."""

    def migrated(self, report: Report) -> int:
        """It is done."""


class Bar:
    """Progress on stderr, where somebody watches: how many of how many, and how many a second."""

    def __init__(self) -> None:
        self._watched = sys.stderr.isatty()
        self._total = self._done = 0
        self._began = self._shown = 0.0

    def begin(self, total: int) -> None:
        """Begin to count to `total`."""
        self._total, self._done, self._began, self._shown = total, 0, time.monotonic(), 0.0

    def count(self) -> None:
        """Count one."""
        self._done += 1
        now = time.monotonic()
        if self._watched and now - self._shown >= _OFTEN:
            self._shown = now
            total = max(self._total, self._done)
            full = _WIDTH * self._done // total
            rate = self._done / max(now - self._began, 0.001)
            bar = "#" * full + "." * (_WIDTH - full)
            sys.stderr.write(f"\r\x1b[K  [{bar}] {self._done:,}/{total:,}  {rate:,.0f}/s")
            sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._watched and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = 0.0


class TextFace:
    """For people: what is done and the result on stdout, progress and trouble on stderr."""

    def __init__(self, place: Place, broker: BrokerInfo, queue: str) -> None:
        self._place, self._queue = f"{place} ({broker.cluster_name}, RabbitMQ {broker.version})", queue
        self._prospect: Prospect | None = None
        self._bar = Bar()

    def prospect(self, prospect: Prospect) -> None:
        """Print what changes, the steps, and what to know."""
        self._prospect = prospect
        holding, migration = prospect.holding, prospect.migration
        print(f"{self._place}:")
        print(f"  queue {self._queue}, {holding.messages:,} messages, {holding.consumers} consumers")
        for difference in migration.differences:
            print(f"      {difference}")
        if not migration.differences:
            print("      an earlier run was interrupted: this one goes on")
        for number, step in enumerate(steps_ahead(prospect.seen), 1):
            print(f"  {number:2}. {told(step, migration)}")
        for caution in prospect.cautions:
            print(f"  note: {caution}")

    def step(self, step: Step, seen: Seen) -> None:
        """Print the step."""
        del seen
        self._bar.end()
        if self._prospect and not isinstance(step, Write):
            print(told(step, self._prospect.migration), flush=True)
        self._bar.begin(step.messages if isinstance(step, Move) else 0)

    def moved(self) -> None:
        """Count."""
        self._bar.count()

    def planned(self) -> int:
        """Say that nothing was changed."""
        print("Nothing was changed.")
        return 0

    def unchanged(self) -> int:
        """Say that it is as declared."""
        print(f"Nothing to do: queue {self._queue} is as declared in {self._place}.")
        return 0

    def refused(self, error: CannotMigrate) -> int:
        """Say what stands in the way."""
        return self._no(f"{error}\nnothing was changed in {self._place}", FAILED)

    def declined(self, reason: str) -> int:
        """Say why nothing happens."""
        return self._no(reason, FAILED)

    def stopped(self, error: MigrationStopped) -> int:
        """Say how far it came."""
        self._bar.end()
        print(_summary(error.report))
        return self._no(str(error), STOPPED)

    def migrated(self, report: Report) -> int:
        """Say what was done."""
        self._bar.end()
        print(f"Migrated queue {self._queue}. {_summary(report)}")
        return 0

    def _no(self, text: str, code: int) -> int:
        print(text, file=sys.stderr)
        return code


def _summary(report: Report) -> str:
    again = f" ({report.runs - 1} runs before this one were interrupted)" if report.runs > 1 else ""
    return (
        f"Moved {report.moved_in:,} in and {report.moved_back:,} back, {report.left:,} left; "
        f"at most {report.duplicates:,} may be there twice{again}."
    )


class JsonFace:
    """For programs: one document on stdout, whatever the end; its shape is in the command's help."""

    def __init__(self, place: Place, broker: BrokerInfo, queue: str) -> None:
        self._document: dict[str, Any] = {
            "format_version": FORMAT,
            "broker": {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": place.vhost},
            "queue": queue,
            "outcome": "",
            "differences": [],
            "steps": [],
            "cautions": [],
            "report": None,
            "errors": [],
        }
        self._bar = Bar()

    def prospect(self, prospect: Prospect) -> None:
        """Keep it for the end."""
        self._document["differences"] = [asdict(each) for each in prospect.migration.differences]
        self._document["steps"] = [told(step, prospect.migration) for step in steps_ahead(prospect.seen)]
        self._document["cautions"] = list(prospect.cautions)

    def step(self, step: Step, seen: Seen) -> None:
        """Count anew."""
        del seen
        self._bar.end()
        self._bar.begin(step.messages if isinstance(step, Move) else 0)

    def moved(self) -> None:
        """Count."""
        self._bar.count()

    def planned(self) -> int:
        """Print what would be done."""
        return self._print("planned", 0)

    def unchanged(self) -> int:
        """Print that there is nothing to do."""
        return self._print("unchanged", 0)

    def refused(self, error: CannotMigrate) -> int:
        """Print what stands in the way."""
        return self._print("refused", FAILED, errors=list(error.reasons))

    def declined(self, reason: str) -> int:
        """Print why nothing happens."""
        return self._print("declined", FAILED, errors=[reason])

    def stopped(self, error: MigrationStopped) -> int:
        """Print how far it came."""
        return self._print("stopped", STOPPED, report=_report(error.report), errors=[error.reason])

    def migrated(self, report: Report) -> int:
        """Print what was done."""
        return self._print("migrated", 0, report=_report(report))

    def _print(self, outcome: str, code: int, **more: object) -> int:
        self._bar.end()
        print(json.dumps({**self._document, "outcome": outcome, **more}, indent=2, ensure_ascii=False))
        return code


def _report(report: Report) -> dict[str, int]:
    return {
        "moved_in": report.moved_in,
        "moved_back": report.moved_back,
        "duplicates_at_most": report.duplicates,
        "left": report.left,
        "runs": report.runs,
    }
