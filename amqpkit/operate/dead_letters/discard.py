"""Discarding: a letter is written down whole, with who, when and why, before it is acked."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from amqpkit.deliver.headers import format_instant
from amqpkit.errors import AmqpkitError
from amqpkit.model import WorkQueue
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.holding import Look, looking
from amqpkit.operate.dead_letters.letter import Letter, read_letter
from amqpkit.operate.dead_letters.lines import to_line
from amqpkit.operate.dead_letters.page import Taken
from amqpkit.ports import Clock, Transport

BATCH: Final = 100
BATCH_BYTES: Final = 8 * 1024 * 1024
"""What is written, and waited for, at once."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Who discards, and why."""

    who: str
    why: str

    def __post_init__(self) -> None:
        """Refuse to be empty; raises AmqpkitError."""
        for word, value in (("who", self.who), ("a reason", self.why)):
            if not value.strip():
                msg = f"a letter is not discarded without {word}: it stands in the audit file"
                raise AmqpkitError(msg)


@dataclass(frozen=True, slots=True)
class Discarded:
    """What a discarding came to.

    `total` letters were there and `seen` of them were looked at; `discarded` are gone (of a dry run: would be),
    `stayed` were not asked for. `unwritable` could not be written down and stay. `uncertain` ones are written down,
    but their ack could not be sent: they come back. `trouble` says why it ended before the end.
    """

    total: int
    seen: int
    discarded: int
    stayed: int
    unwritable: tuple[tuple[str, str], ...] = ()
    uncertain: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def complete(self) -> bool:
        """Whether every letter that was meant is gone."""
        return not (self.trouble or self.unwritable or self.uncertain)


async def discard(  # noqa: PLR0913 - keyword-only settings, each with its default
    transport: Transport,
    queue: str,
    grounds: Grounds,
    write: Callable[[list[str]], None],
    *,
    filter: Filter | None = None,  # noqa: A002 - what it is
    limit: int | None = None,
    dry_run: bool = False,
    work: WorkQueue | None = None,
    clock: Clock,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Discarded:
    """Discard letters; `write` must have the lines on disk when it returns (`AuditFile.append`), or raise OSError.

    Each line holds a whole letter and `who`, `when` and `why`, so importing it undoes the discard. A process that is
    killed between line and ack leaves the letter in its queue as well. Raises QueueMissing and AccessRefused.
    """
    stop = stop or asyncio.Event()
    run = _Run(grounds, write, filter or Filter(), limit, dry_run, work, clock)
    async with looking(transport, queue, clock=clock, stop=stop) as look:
        try:
            while not run.over and (taken := await look.take()) is not None:
                run.treat(taken)
                if run.is_batch_full or not look.at_hand:
                    run.settle()
                on_progress(*run.progress(look))
        finally:
            run.settle()
    return run.report(look)


@dataclass(slots=True)
class _Run:
    """One discarding on its way; `batch` is taken and not written yet."""

    grounds: Grounds
    write: Callable[[list[str]], None]
    filter: Filter
    limit: int | None
    dry_run: bool
    work: WorkQueue | None
    clock: Clock
    batch: list[tuple[Taken, Letter, str]] = field(default_factory=list)
    batch_bytes: int = 0
    discarded: int = 0
    stayed: int = 0
    unwritable: list[tuple[str, str]] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)
    trouble: str = ""

    @property
    def over(self) -> bool:
        return bool(self.trouble) or (self.limit is not None and self.discarded + len(self.batch) >= self.limit)

    def progress(self, look: Look) -> tuple[int, int]:
        """How many are done, of how many: of those that are there or, when fewer are meant, of those."""
        if self.limit is None or self.limit >= look.total:
            return look.seen, look.total
        return self.discarded + len(self.batch), self.limit

    @property
    def is_batch_full(self) -> bool:
        return len(self.batch) >= BATCH or self.batch_bytes >= BATCH_BYTES

    def treat(self, taken: Taken) -> None:
        letter = read_letter(taken.delivery, work=self.work)
        if not self.filter.admits(letter):
            self.stayed += 1
            taken.keep()
        elif self.dry_run:
            self.discarded += 1
            taken.keep()
        else:
            self._note(taken, letter)

    def _note(self, taken: Taken, letter: Letter) -> None:
        try:
            line = to_line(taken.delivery, **self._extra())
        except ValueError as error:
            self.unwritable.append((letter.id, str(error)))
            taken.keep()
            return
        self.batch.append((taken, letter, line))
        self.batch_bytes += len(line)

    def _extra(self) -> dict[str, Any]:
        return {"who": self.grounds.who, "when": format_instant(self.clock.now()), "why": self.grounds.why}

    def settle(self) -> None:
        """Write the batch down, then ack it."""
        batch, self.batch, self.batch_bytes = self.batch, [], 0
        try:
            if batch:
                self.write([line for _, _, line in batch])
        except OSError as error:
            self.trouble = f"nothing more is discarded, because it cannot be written down: {error}"
            for taken, _, _ in batch:
                taken.keep()
            return
        for taken, letter, _ in batch:
            self.discarded += 1
            if not taken.ack():
                self.uncertain.append(letter.id)

    def report(self, look: Look) -> Discarded:
        return Discarded(
            total=look.total,
            seen=look.seen,
            discarded=self.discarded,
            stayed=self.stayed,
            unwritable=tuple(self.unwritable),
            uncertain=tuple(self.uncertain),
            trouble=self.trouble or look.trouble,
        )
