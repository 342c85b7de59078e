"""`amqpkit lint`."""

import json
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

import amqpkit
from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.cli.waiting import reading
from amqpkit.declare.lint import formats
from amqpkit.declare.lint.catalogue import LIVE_RULES, REFUSED, RULES
from amqpkit.declare.lint.findings import Placed, Severity
from amqpkit.declare.lint.guide import explained
from amqpkit.declare.lint.live import Check, checks
from amqpkit.declare.lint.run import Report
from amqpkit.declare.lint.run import lint as run_lint
from amqpkit.declare.load import read_texts
from amqpkit.declare.spec.parsing import read
from amqpkit.declare.spec.tree import Place
from amqpkit.errors import BrokerError, TopologyError

Level = Literal["error", "warning", "info"]
Format = Literal["text", "json", "github", "sarif"]
_LEVELS: Final = {severity.word: severity for severity in Severity}


async def lint(  # noqa: PLR0913 - the command's options
    *files: Path,
    format: Format = "text",  # noqa: A002 - the command's word
    json_: Annotated[bool, Parameter(negative=())] = False,
    fail_on: Level = "error",
    target: str = "4.3",
    allow: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    explain: str | None = None,
    live: Annotated[bool, Parameter(negative=())] = False,
    connection: AdminOptions | None = None,
) -> int:
    """Find what RabbitMQ would refuse, ignore or lose.

    A comment `# amqpkit: ignore[AK102] reason` silences a rule for its line, or for all that stands below a name.

    Exit codes: 0 nothing at or above --fail-on; 1 something is, or the broker of --live cannot be asked; 64 the command
    line is wrong.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    format
        How to print the findings; github is for annotations in a pull request.
    json_
        Short for --format json: format_version, ok, findings [{code, name, severity, file, line, column, address,
        message, remedy}], summary.
    fail_on
        The lowest severity that makes it fail. Advice (info) is shown only with --fail-on info.
    target
        The RabbitMQ that the files are for, as 4.0 or 4.3.
    allow
        An argument that a plugin of yours reads and RabbitMQ's core does not know; may be repeated.
    explain
        Say what a rule is about, with examples, and read no file.
    live
        Also look at a broker, unless the files are refused: policies that rule over ours, what it denies, what it
        lacks. --target is its version.
    connection
        Which broker, with --live; a user with the tag management is enough.
    """
    if explain is not None:
        print(_explanation(explain), end="")
        return 0
    paths = topology_files(files)
    version = _version(target)
    lowest = _LEVELS[fail_on]
    looks: tuple[Check, ...] = ()
    trouble: BrokerError | None = None
    try:
        texts = read_texts(*paths)
        if live and not (found := read(texts, os.environ)).faults:
            try:
                version, looks = await _look(connection or AdminOptions(), found.vhost)
            except BrokerError as error:  # what the files alone say is shown all the same
                trouble = error
        with reading(paths):
            report = run_lint(texts, os.environ, version=version, allowed=allow, live=looks)
    except TopologyError as error:
        report = _unreadable(error)
    _print(report, paths, "json" if json_ else format, lowest)
    if trouble is not None:
        print(f"amqpkit: {trouble}", file=sys.stderr)
    return 1 if trouble is not None or report.at_least(lowest) else 0


async def _look(connection: AdminOptions, vhost: str | None) -> tuple[tuple[int, int], tuple[Check, ...]]:
    async with administered(connection.place(vhost)) as (admin, broker):
        return _version(broker.version), checks(await admin.read(), await admin.surroundings())


def _print(report: Report, paths: Sequence[Path], how: Format, lowest: Severity) -> None:
    shown = min(lowest, Severity.WARNING)
    match how:
        case "json":
            print(json.dumps(formats.json_document(report, lowest), indent=2, ensure_ascii=False))
        case "sarif":
            print(json.dumps(formats.sarif_document(report, amqpkit.__version__), indent=2, ensure_ascii=False))
        case "github":
            _lines(formats.github_lines(report.at_least(shown)))
        case _:
            _lines(formats.text_lines(report.at_least(shown)))
            print(f"{' + '.join(map(str, paths))}: {formats.summary(report, shown)}", file=sys.stderr)


def _lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


def _explanation(code: str) -> str:
    rules = {**RULES, **LIVE_RULES}
    names = {rule.name: rule for rule in rules.values()}
    rule = rules.get(code.upper()) or names.get(code)
    if rule is None:
        close = get_close_matches(code, [*rules, *names], n=1)
        advice = f' (did you mean "{close[0]}"?)' if close else f"; there are {', '.join(sorted(rules))}"
        msg = f'no rule is called "{code}"{advice}'
        raise UsageError(msg)
    return explained(rule)


def _version(text: str) -> tuple[int, int]:
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):  # noqa: PLR2004 - major and minor
        msg = f'--target "{text}" is no version; write 4.0 or 4.3'
        raise UsageError(msg)
    return int(parts[0]), int(parts[1])


def _unreadable(error: TopologyError) -> Report:
    """Files that cannot be opened are findings like any other, so that every format can show them."""
    placed = (Placed(REFUSED, _place(problem.place), "", problem.message, "") for problem in error.problems)
    return Report(tuple(placed))


def _place(text: str) -> Place:
    file, _, rest = text.partition(":") if text.count(":") == 2 else (text, "", "")  # noqa: PLR2004 - file:line:column
    line, _, column = rest.partition(":")
    return Place(0, int(line or 0), int(column or 0), file)
