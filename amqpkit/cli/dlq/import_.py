"""`amqpkit dlq import`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from cyclopts import Parameter

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.cli.connect import BrokerOptions
from amqpkit.cli.dlq.progress import STOPPED, Bar, stopping
from amqpkit.cli.dlq.wording import Paper, counted, note, print_document
from amqpkit.cli.rates import Rate, rate_of
from amqpkit.errors import AmqpkitError
from amqpkit.operate.dead_letters.imports import Imported, import_letters

_NAMED: Final = 20


async def import_(  # noqa: PLR0913 - a command's options
    file: Path,
    *,
    connection: BrokerOptions | None = None,
    to: Annotated[str | None, Parameter(show_default=False)] = None,
    skip: int = 0,
    rate: Rate = None,
    json_: bool = False,
) -> int:
    """Publish the letters of an export or an audit file, confirmed, to the queues that they were in.

    A line that is broken is named and stops nothing. Nothing tells whether a letter is there already: importing twice
    makes two. Exit codes: 0 every line is stored, 1 some are not, 130 stopped.

    Parameters
    ----------
    file
        JSON lines of `amqpkit dlq export` or `discard`; - reads standard input.
    to
        To this queue instead of the one that each letter was in.
    skip
        Lines to pass over, to go on where an import ended.
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    speed, url = rate_of(rate), (connection or BrokerOptions()).broker()
    transport = AioTransport(url, name="amqpkit dlq import")
    with _open(file) as lines:
        await transport.open()
        try:
            with stopping() as stop, Bar("Importing") as bar:
                done = await import_letters(
                    transport,
                    lines,
                    to=to,
                    skip=skip,
                    rate=speed,
                    clock=SystemClock(),
                    stop=stop,
                    on_progress=lambda standing: bar.at(standing.read, None, f"{standing.stored} stored"),
                )
                stopped = stop.is_set()
        finally:
            await transport.close()
    if json_:
        print_document(_as_json(done))
    else:
        _print(done, stopped=stopped)
    return STOPPED if stopped else int(not done.complete)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise AmqpkitError(msg) from error
    with file:
        yield file


def _print(done: Imported, *, stopped: bool) -> None:
    Paper().line(f"{counted(done.stored, 'letter')} stored of {counted(done.read, 'line')}")
    for fault in done.faults[:_NAMED]:
        note(f"line {fault.line}: {'perhaps stored: ' if fault.uncertain else ''}{fault.reason}")
    if len(done.faults) > _NAMED:
        note(f"and {len(done.faults) - _NAMED} lines more")
    if done.changed:
        note(f"{counted(done.changed, 'letter')} lost the user id or the CC header, which no broker takes from another")
    if done.trouble:
        note(done.trouble)
    if done.trouble or stopped:
        note(f"to go on: --skip {done.read}")


def _as_json(done: Imported) -> dict[str, Any]:
    faults = [{"line": fault.line, "error": fault.reason, "uncertain": fault.uncertain} for fault in done.faults]
    return {
        "read": done.read,
        "stored": done.stored,
        "faults": faults,
        "changed": done.changed,
        "trouble": done.trouble or None,
    }
