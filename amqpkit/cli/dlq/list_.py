"""`amqpkit dlq list`."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.credentials import hushed_error
from amqpkit.cli.dlq.desk import Desk, DeskOptions, desk
from amqpkit.cli.dlq.letters import letter_json, letter_table
from amqpkit.cli.dlq.wording import Paper, aged, counted, instant_json, note, print_document
from amqpkit.cli.usage import UsageError
from amqpkit.errors import AccessRefused, QueueMissing
from amqpkit.model import Received, WorkQueue
from amqpkit.operate.dead_letters.alerts import held
from amqpkit.operate.dead_letters.browse import Browsed, browse
from amqpkit.operate.dead_letters.costs import Price
from amqpkit.operate.dead_letters.letter import Letter, read_letter

SAMPLE: Final = 200
"""Letters of each queue that are looked at, from its head."""


async def list_(
    *files: Path,
    connection: DeskOptions | None = None,
    letters: Annotated[str | None, Parameter(show_default=False)] = None,
    choice: Choice | None = None,
    limit: Count = None,
    json_: bool = False,
) -> int:
    """List every dead-letter queue of the file: owner, depth, oldest letter, reasons, and whether its alert holds.

    Depths are the broker's own and exact. Reasons and ages are those of the first 200 letters; "of the first 200" says
    that there are more. An alert holds when its `messages` or its `age` is reached. In errors credentials are hidden,
    as `dlq show --help` tells. Exit codes: 0, and 1 when a queue could not be asked.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    letters
        List the letters of this queue instead, one a line: a work queue of the file, or any queue on the broker. The
        filters are for this. On a terminal the lines are cut to its width; in a pipe and with --json they are whole.
    limit
        Letters that are looked at (default: 200 of each queue; of one queue's letters all).
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    async with desk(files, connection, verb="list") as here:
        if letters is not None:
            return await _letters(here, letters, choice or Choice(), limit, as_json=json_)
        if here.topology is None:
            msg = "which dead-letter queues? name the topology files, or one queue: amqpkit dlq list --letters QUEUE"
            raise UsageError(msg)
        if choice not in (None, Choice()):
            msg = "the filters choose letters, not queues: say whose, with --letters QUEUE"
            raise UsageError(msg)
        works = sorted(here.topology.work_queues.values(), key=lambda work: work.name)
        lines = [await _line(here, work, SAMPLE if limit is None else limit) for work in works]
    if json_:
        print_document({"queues": [line.as_json() for line in lines]})
    else:
        _print(lines)
    return int(any(line.is_closed for line in lines))


class _Line:
    """What is known of one dead-letter queue."""

    def __init__(self, work: WorkQueue, now: datetime) -> None:
        self.work, self._now = work, now
        self.depth: int | None = None
        self.trouble = ""
        self.is_closed = False
        self.browsed = Browsed(0, 0)
        self.fates: Counter[str] = Counter()
        self.oldest: datetime | None = None
        self.replayed = self.replays = 0

    def visit(self, received: Received) -> None:
        letter = read_letter(received, work=self.work)
        self.fates[letter.fate] += 1
        self.oldest = min(filter(None, (self.oldest, letter.at)), default=None)
        self.replayed += bool(letter.replays)
        self.replays = max(self.replays, letter.replays)

    @property
    def alerts(self) -> tuple[str, ...]:
        return held(self.work.alert, depth=self.depth or 0, oldest=self.oldest, now=self._now)

    @property
    def more(self) -> bool:
        return self.depth is not None and self.browsed.seen < self.depth

    def row(self) -> tuple[str, ...]:
        reasons = ", ".join(f"{count} {fate}" for fate, count in self.fates.most_common())
        if self.fates and self.more:
            reasons += f" (of the first {self.browsed.seen})"
        replayed = f"{self.replayed}, up to {self.replays}x" if self.replayed else ""
        return (
            self.work.dead_queue,
            self.work.owner or "",
            "?" if self.depth is None else str(self.depth),
            aged(self.oldest, self._now),
            reasons or self.trouble,
            replayed,
            "; ".join(self.alerts),
        )

    def as_json(self) -> dict[str, Any]:
        alert = self.work.alert
        return {
            "queue": self.work.dead_queue,
            "work_queue": self.work.name,
            "owner": self.work.owner,
            "runbook": self.work.runbook,
            "depth": self.depth,
            "seen": self.browsed.seen,
            "oldest": instant_json(self.oldest),
            "reasons": dict(self.fates),
            "replayed": self.replayed,
            "most_replays": self.replays,
            "alert": {"messages": alert.messages, "age_seconds": alert.age, "holds": bool(self.alerts)}
            | {"because": list(self.alerts)},
            "trouble": self.trouble or None,
        }


async def _line(here: Desk, work: WorkQueue, sample: int) -> _Line:
    line = _Line(work, here.clock.now())
    try:
        line.depth = await here.transport.depth(work.dead_queue)
    except (QueueMissing, AccessRefused) as error:  # of one queue; the others are listed
        line.trouble = "is not on the broker" if isinstance(error, QueueMissing) else "may not be asked"
        line.is_closed = True
        note(str(error))
        return line
    cost = here.cost(work.dead_queue)
    if cost.price in (Price.EACH_TIME, Price.REFUSED) and not (here.options.yes and cost.price is Price.EACH_TIME):
        note(f"warning: {cost.warning}; it was not looked into" + (" (--yes looks)" if cost.limit is not None else ""))
        line.trouble = "not looked into"
        return line
    if cost.warning:
        note(f"warning: {cost.warning}")
    if line.depth and sample > 0:
        try:
            line.browsed = await browse(here.transport, work.dead_queue, line.visit, clock=here.clock, limit=sample)
        except AccessRefused as refusal:  # somebody has it for himself, or we may not read
            line.trouble, line.is_closed = "may not be looked into", True
            note(str(refusal))
        if line.browsed.trouble:
            note(f"{work.dead_queue}: {line.browsed.trouble}")
    return line


def _print(lines: list[_Line]) -> None:
    paper = Paper()
    head = ("QUEUE", "OWNER", "DEPTH", "OLDEST", "REASONS", "REPLAYED", "ALERT")
    paper.table(head, [line.row() for line in lines], ["red" if line.alerts else "" for line in lines])
    for line in lines:
        if line.alerts and line.work.runbook:
            paper.line(f"{line.work.dead_queue}: {line.work.runbook}")


async def _letters(here: Desk, name: str, choice: Choice, limit: int | None, *, as_json: bool) -> int:
    now = here.clock.now()
    chosen, found, kept = choice.filter(now), await here.find(name), list[Letter]()
    if not here.may_look(found.queue):
        return 1

    def visit(received: Received) -> None:
        letter = read_letter(received, work=found.work)
        if chosen.admits(letter):
            kept.append(hushed_error(letter))

    browsed = await browse(here.transport, found.queue, visit, clock=here.clock, limit=limit)
    if as_json:
        told = [letter_json(letter) for letter in kept]
        print_document({"queue": found.queue, "total": browsed.total, "seen": browsed.seen, "letters": told})
    else:
        letter_table(kept, now)
        note(f"{counted(len(kept), 'letter')} of {browsed.seen} seen")
    if browsed.trouble:
        note(f"{found.queue}: {browsed.trouble}")
    return int(bool(browsed.trouble))
