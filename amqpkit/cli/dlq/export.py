"""`amqpkit dlq export`."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.desk import DeskOptions, desk
from amqpkit.cli.dlq.progress import STOPPED, Bar, stopping
from amqpkit.cli.dlq.wording import counted, note
from amqpkit.errors import AmqpkitError
from amqpkit.operate.dead_letters.exports import export_letters, new_file

_IN_MEMORY: Final = 16 * 1024 * 1024
_NAMED = 20


async def export(
    queue: str,
    *files: Path,
    connection: DeskOptions | None = None,
    choice: Choice | None = None,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    limit: Count = None,
) -> int:
    """Write letters as JSON lines, byte for byte and type for type; they stay in the queue.

    The lines are on standard output, or in a file that only its owner can read. Nothing in them is redacted. Exit
    codes: 0 all that were meant are written, 1 some are not, 130 stopped.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    files
        Topology files, merged in order.
    out
        A new file; without it standard output.
    limit
        How many to write.
    """
    async with desk(files, connection, verb="export") as here:
        found, chosen = await here.find(queue), (choice or Choice()).filter(here.clock.now())
        if not here.may_look(found.queue):
            return 1
        depth = await here.transport.depth(found.queue)
        with _open(out) as write, stopping() as stop, Bar("Exporting") as bar:
            done = await export_letters(
                here.transport,
                found.queue,
                write,
                filter=chosen,
                limit=limit,
                work=found.work,
                clock=here.clock,
                stop=stop,
                on_progress=lambda seen: bar.at(seen, depth),
            )
            stopped = stop.is_set()
    note(f"{counted(done.written, 'letter')} written to {out or 'standard output'} ({done.seen} seen in {found.queue})")
    for name, why in done.unwritable[:_NAMED]:
        note(f"not written: {name}: {why}")
    if done.trouble:
        note(f"{found.queue}: {done.trouble}")
    return STOPPED if stopped else int(not done.complete)


@contextmanager
def _open(out: Path | None) -> Iterator[Callable[[str], object]]:
    """Give what writes a line. A pipe may be slow, and the broker does not wait: it gets them in the end."""
    if out is None:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii", newline="\n") as kept:
            yield lambda line: kept.write(f"{line}\n")
            kept.seek(0)
            shutil.copyfileobj(kept, sys.stdout)
        return
    try:
        with new_file(out) as write:
            yield write
    except OSError as error:
        msg = f"the letters cannot be written to {out}: {error.strerror or error}"
        raise AmqpkitError(msg) from error
