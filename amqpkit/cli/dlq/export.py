"""`amqpkit dlq export`."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Final, Protocol

from cyclopts import Parameter

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.desk import DeskOptions, desk
from amqpkit.cli.dlq.progress import STOPPED, Bar, stopping
from amqpkit.cli.dlq.wording import counted, note
from amqpkit.errors import AmqpkitError
from amqpkit.operate.dead_letters.exports import export_letters, new_file, part_of

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

    The lines are on standard output, or in a file that only its owner can read. Nothing in them is redacted. The file
    gets its name when it is complete: what an export has written that was stopped, or lost the broker, or filled the
    disk, is in FILE.part, which the next try begins anew. Exit codes: 0 all that were meant are written, 1 some are
    not, 130 stopped.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
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
        with stopping() as stop, _target(out, found.queue) as target, Bar("Exporting") as bar:
            done = await export_letters(
                here.transport,
                found.queue,
                target.write,
                filter=chosen,
                limit=limit,
                work=found.work,
                clock=here.clock,
                stop=stop,
                on_progress=lambda seen: bar.at(seen, depth),
            )
            if not done.trouble:
                target.finish()
            stopped = stop.is_set() and bool(done.trouble)
    written = part_of(out) if out and done.trouble else out or "standard output"
    note(f"{counted(done.written, 'letter')} written to {written} ({done.seen} seen in {found.queue})")
    for name, why in done.unwritable[:_NAMED]:
        note(f"not written: {name}: {why}")
    if done.trouble:
        note(f"{found.queue}: {done.trouble}")
    return STOPPED if stopped else int(not done.complete)


class _Target(Protocol):
    """What lines are written to; unless it is finished, it is said that they are not all."""

    def write(self, line: str) -> None: ...
    def finish(self) -> None: ...


class _Output:
    """Standard output. A pipe may be slow, and the broker does not wait: it gets the lines in the end."""

    def __init__(self, kept: IO[str]) -> None:
        self._kept, self.finished = kept, False

    def write(self, line: str) -> None:
        self._kept.write(f"{line}\n")

    def finish(self) -> None:
        self.finished = True


@contextmanager
def _target(out: Path | None, queue: str) -> Iterator[_Target]:
    anew = f'no letter has left "{queue}": run it again'
    if out is None:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii", newline="\n") as kept:
            yield (output := _Output(kept))
            kept.seek(0)
            shutil.copyfileobj(kept, sys.stdout)
        if not output.finished:
            note(f"not complete: {anew}")
        return
    try:
        with new_file(out) as file:
            try:
                yield file
            finally:
                if not file.finished:
                    note(f"not complete: {out} was not made; what was written so far is in {part_of(out)}. {anew}")
    except OSError as error:
        msg = f"the letters cannot be written to {out}: {error.strerror or error}"
        raise AmqpkitError(msg) from error
