"""`amqpkit lint`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from amqpkit.cli.files import topology_files
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import Report
from amqpkit.declare.lint.run import lint as run_lint
from amqpkit.declare.load import read_texts

Level = Literal["error", "warning", "info"]
_LEVELS: Final = {severity.word: severity for severity in Severity}


def lint(
    *files: Path,
    fail_on: Level = "error",
    allow: Annotated[tuple[str, ...], Parameter(negative=())] = (),
) -> int:
    """Find what RabbitMQ would refuse, ignore or lose.

    Exit codes: 0 nothing at or above --fail-on; 1 something is; 64 the command line is wrong.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    fail_on
        The lowest severity that makes it fail.
    allow
        An argument of a plugin's that RabbitMQ's core does not know; may be repeated.
    """
    paths = topology_files(files)
    lowest = _LEVELS[fail_on]
    report = run_lint(read_texts(*paths), os.environ, allowed=allow)
    _print_text(report, paths, min(lowest, Severity.WARNING))
    return 1 if report.at_least(lowest) else 0


def _print_text(report: Report, paths: Sequence[Path], shown: Severity) -> None:
    for finding in report.at_least(shown):
        print(f"{finding.place}: {finding.severity.word} {finding.rule.code} {finding.text}")
    print(f"{' + '.join(map(str, paths))}: {_summary(report, shown)}", file=sys.stderr)


def _summary(report: Report, shown: Severity) -> str:
    counts = [
        f"{number} {severity.word}{'s' if number > 1 and severity is not Severity.INFO else ''}"
        for severity in sorted(Severity, reverse=True)
        if (number := report.count(severity))
    ]
    hidden = report.count(Severity.INFO) if shown > Severity.INFO else 0
    notes = [f"{report.suppressed} silenced"] if report.suppressed else []
    notes += ["--fail-on info shows all"] if hidden else []
    return (", ".join(counts) or "clean") + (f" ({'; '.join(notes)})" if notes else "")
