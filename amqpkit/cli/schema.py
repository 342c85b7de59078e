"""`amqpkit schema`: of topology files; `export` locks those of payloads, `check` compares the code with the lock."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Group, Parameter

from amqpkit.cli.lockfiles import read_lock, write_lock
from amqpkit.cli.modules import find_payloads
from amqpkit.cli.usage import UsageError
from amqpkit.declare.schema import file_schema
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.schemas.lock import Finding, Key, check, versions

LOCK: Final = Path("topology/schemas")

schema = App(
    name="schema",
    help="Print the JSON Schema of topology files, for editors; lock the schemas of payloads, and check them.",
    help_format="markdown",
    version_flags=(),
    group_commands=Group("payloads"),
    default_parameter=Parameter(negative=()),
    exit_on_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


@schema.default
def of_files() -> int:
    """Print the JSON Schema of topology files, for editors.

    With the YAML language server: `# yaml-language-server: $schema=amqpkit.schema.json` as a file's first line.
    """
    print(json.dumps(file_schema(), indent=2, ensure_ascii=False))
    return 0


@schema.command(name="export")
def export(*modules: str, out: Path = LOCK, force: bool = False) -> int:
    """Write the JSON Schema of every version of every payload, one sorted file each.

    What is locked already is replaced only by what breaks nobody. Exit codes: 0 written, 1 refused.

    Parameters
    ----------
    modules
        Modules with Payload or Consumer classes, as in an import: package.module.
    out
        The folder of the files.
    force
        Replace a locked schema by one that breaks consumers or producers.
    """
    code = _code(modules)
    locked = read_lock(out)
    breaking = [each for each in check(locked, code) if each.change.breaks and (each.type, each.version) in code]
    if breaking and not force:
        _print(breaking)
        print(
            "nothing was written: give what has changed a new version, or replace the lock with --force",
            file=sys.stderr,
        )
        return 1
    written = write_lock(out, code)
    print(f"{out}: {_count(len(code), 'schema')}, {written} written")
    return 0


@schema.command(name="check")
def compare(*modules: str, lock: Path = LOCK, json_: Annotated[bool, Parameter(name="--json")] = False) -> int:
    """Compare the payloads of the code with the locked schemas, change by change.

    Consumers: can new code read messages written under the locked schema? Producers: can old code read what new code
    writes? (An older version that the code still reads is no longer written, and asked only the first.) What a
    validator of your own refuses, no schema shows. Exit codes: 0 nothing is broken, 1 a change is breaking and has no
    new version.

    Parameters
    ----------
    modules
        Modules with Payload or Consumer classes, as in an import: package.module.
    lock
        The folder of the locked schemas.
    json_
        Print one JSON document: format_version, ok, changes [{type, version, path, what, consumers, producers}], the
        last two as {verdict, reason}.
    """
    code = _code(modules)
    findings = check(read_lock(lock), code)
    broken = any(finding.change.breaks for finding in findings)
    if json_:
        found = [finding.as_json() for finding in findings]
        print(json.dumps({"format_version": "1.0", "ok": not broken, "changes": found}, indent=2, ensure_ascii=False))
    elif findings:
        _print(findings)
    else:
        print(f"{lock}: {_count(len(code), 'schema')}, as locked")
    if broken:
        print("a breaking change needs a new version: leave the old class as it was, as `previous`", file=sys.stderr)
    elif findings:
        print(f"nothing is broken; lock it: amqpkit schema export {' '.join(modules)} --out {lock}", file=sys.stderr)
    return int(broken)


def _code(modules: tuple[str, ...]) -> dict[Key, type[Payload]]:
    if not modules:
        msg = "whose payloads? name the modules, as in an import: package.module"
        raise UsageError(msg)
    return versions(cls for module in modules for cls in find_payloads(module))


def _print(findings: Iterable[Finding]) -> None:
    for finding in findings:
        change = finding.change
        print(f"{finding.type} v{finding.version} {change.path}: {change.what}")
        for side, reason in (("consumers", change.consumers), ("producers", change.producers)):
            print(f"  {side}: {f'breaking: {reason}' if reason else 'compatible'}")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
