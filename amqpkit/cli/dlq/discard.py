"""`amqpkit dlq discard`."""

import asyncio
import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.desk import Desk, DeskOptions, Found, agreed, desk
from amqpkit.cli.dlq.progress import STOPPED, Bar, stopping
from amqpkit.cli.dlq.wording import Paper, counted, harmless, note, print_document
from amqpkit.errors import AmqpkitError
from amqpkit.operate.dead_letters.audit import AuditFile
from amqpkit.operate.dead_letters.discard import Discarded, Grounds
from amqpkit.operate.dead_letters.discard import discard as discard_letters
from amqpkit.operate.dead_letters.filters import Filter

AUDIT: Final = Path("amqpkit-discarded.jsonl")
_NAMED = 20


async def discard(  # noqa: PLR0913 - a command's options
    queue: str,
    *files: Path,
    reason: str,
    connection: DeskOptions | None = None,
    choice: Choice | None = None,
    audit: Path = AUDIT,
    limit: Count = None,
    dry_run: bool = False,
    json_: bool = False,
) -> int:
    """Throw letters away. Each is on disk in the audit file, whole, with who, when and why, before it is taken away.

    `amqpkit dlq import` brings letters back from an audit file. Exit codes: 0 all that were meant are gone, 1 some are
    not or nothing was done, 130 stopped.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    reason
        Why; stands in the audit file.
    audit
        The audit file, which is only appended to; its owner alone can read it.
    limit
        How many to discard.
    dry_run
        Only say how many would go.
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    grounds = Grounds(f"{_user()}@{socket.gethostname()}", reason)
    async with desk(files, connection, verb="discard") as here:
        found, chosen = await here.find(queue), (choice or Choice()).filter(here.clock.now())
        if not here.may_look(found.queue):
            return 1
        if not dry_run and not here.options.yes:
            would = await _run(here, found, grounds, chosen, limit, None)
            asked = f"Discard {counted(would.discarded, 'letter')} of {harmless(found.queue)}, kept in {audit}?"
            if not would.discarded:
                note(would.trouble or f"no letter in {found.queue} is meant")
                return int(bool(would.trouble))
            if not agreed(asked, without="nothing was discarded"):
                return 1
        with stopping() as stop:
            done = await _run(here, found, grounds, chosen, limit, None if dry_run else audit, stop)
            stopped = stop.is_set()
    if json_:
        print_document(_as_json(done, found.queue, audit, dry_run=dry_run))
    else:
        _print(done, found.queue, audit, dry_run=dry_run)
    return STOPPED if stopped else int(not done.complete)


async def _run(  # noqa: PLR0913, PLR0917 - what a discard needs
    here: Desk,
    found: Found,
    grounds: Grounds,
    chosen: Filter,
    limit: int | None,
    audit: Path | None,
    stop: asyncio.Event | None = None,
) -> Discarded:
    with _audit_file(audit) as file, Bar("Discarding" if file else "Counting") as bar:
        return await discard_letters(
            here.transport,
            found.queue,
            grounds,
            file.append if file else lambda _lines: None,
            filter=chosen,
            limit=limit,
            dry_run=file is None,
            work=found.work,
            clock=here.clock,
            stop=stop,
            on_progress=bar.at,
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"


@contextmanager
def _audit_file(path: Path | None) -> Iterator[AuditFile | None]:
    if path is None:
        yield None
        return
    try:
        file = AuditFile(path)
    except OSError as error:
        msg = f"nothing was discarded: the audit file {path} cannot be written: {error.strerror or error}"
        raise AmqpkitError(msg) from error
    try:
        yield file
    finally:
        file.close()


def _print(done: Discarded, queue: str, audit: Path, *, dry_run: bool) -> None:
    what = "would be discarded" if dry_run else f"discarded, and kept in {os.fspath(audit)}"
    Paper().line(harmless(f"{counted(done.discarded, 'letter')} {what} (of {done.total} in {queue})"))
    for name, why in done.unwritable[:_NAMED]:
        note(f"stayed, because it cannot be written down: {name}: {why}")
    if done.uncertain:
        note(f"written down, and still in the queue: {', '.join(done.uncertain[:_NAMED])}")
    if done.trouble:
        note(f"{queue}: {done.trouble}")


def _as_json(done: Discarded, queue: str, audit: Path, *, dry_run: bool) -> dict[str, Any]:
    return {
        "queue": queue,
        "dry_run": dry_run,
        "audit": None if dry_run else os.fspath(audit),
        "total": done.total,
        "seen": done.seen,
        "discarded": done.discarded,
        "stayed": done.stayed,
        "unwritable": [{"id": name, "error": why} for name, why in done.unwritable],
        "uncertain": list(done.uncertain),
        "trouble": done.trouble or None,
    }
