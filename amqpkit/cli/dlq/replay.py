"""`amqpkit dlq replay`."""

import secrets
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.desk import Desk, DeskOptions, Found, agreed, desk
from amqpkit.cli.dlq.progress import STOPPED, Bar, stopping
from amqpkit.cli.dlq.wording import Paper, counted, harmless, note, print_document
from amqpkit.cli.rates import Rate, rate_of
from amqpkit.cli.usage import UsageError
from amqpkit.operate.dead_letters.letter import Letter
from amqpkit.operate.dead_letters.reach import reached
from amqpkit.operate.dead_letters.replay import Progress, Replayed
from amqpkit.operate.dead_letters.replay import replay as replay_letters
from amqpkit.operate.dead_letters.verdicts import Go, Order, Reason

_NAMED = 20
_REMEDIES = {
    Reason.TOO_OFTEN: "--force replays them all the same",
    Reason.NO_TARGET: "name the queue with --to",
    Reason.ITSELF: "name another queue with --to",
}


async def replay(  # noqa: PLR0913 - a command's options
    queue: str,
    *files: Path,
    connection: DeskOptions | None = None,
    choice: Choice | None = None,
    dry_run: bool = False,
    rate: Rate = None,
    limit: Count = None,
    max_replays: Count = None,
    force: bool = False,
    to: Annotated[str | None, Parameter(show_default=False)] = None,
    to_exchange: bool = False,
    json_: bool = False,
) -> int:
    """Send letters back to the queue that each failed in, with all their attempts; each is confirmed, then taken away.

    At most as many go as are there at the start: one that dies again meanwhile waits for the next run. Without --rate
    they go at the file's replay rate, else as fast as it goes. Ctrl-C ends it between two letters; run it again to go
    on. Exit codes: 0 all that were meant went, 1 some did not, 130 stopped.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    dry_run
        Only say what would go where.
    limit
        How many to replay.
    max_replays
        Leave letters that were replayed so often (default: the file's).
    force
        Replay those too.
    to
        To this queue instead of each letter's own.
    to_exchange
        To the exchange and key of the first publish, where every queue that is bound gets it again.
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    if to is not None and to_exchange:
        msg = "--to and --to-exchange are two places: give one"
        raise UsageError(msg)
    speed, run = rate_of(rate), f"run-{secrets.token_hex(4)}"
    async with desk(files, connection, verb="replay") as here:
        found = await here.find(queue)
        if not here.may_look(found.queue):
            return 1
        order = Order(
            run,
            (choice or Choice()).filter(here.clock.now()),
            to=to,
            to_exchange=to_exchange,
            limit=limit,
            rate=speed,
            max_replays=max_replays,
            force=force,
            dry_run=dry_run,
        )
        if to_exchange and not await _is_wanted(here, found, order):
            return 1
        done, tally, stopped = await _run(here, found, order)
    if json_:
        print_document(_as_json(done, tally, dry_run=dry_run))
    else:
        _print(done, tally, dry_run=dry_run)
    if stopped:
        return STOPPED
    return int(not done.complete or any(done.stayed.get(reason) for reason in (Reason.NO_TARGET, Reason.ITSELF)))


@dataclass(slots=True)
class _Tally:
    """Where letters went, or would."""

    targets: Counter[Go] = field(default_factory=Counter)

    def __call__(self, _letter: Letter, verdict: Go | Reason) -> None:
        if isinstance(verdict, Go):
            self.targets[verdict] += 1


async def _run(here: Desk, found: Found, order: Order) -> tuple[Replayed, _Tally, bool]:
    tally = _Tally()
    with stopping() as stop, Bar("Counting" if order.dry_run else "Replaying") as bar:

        def show(progress: Progress) -> None:
            bar.at(*progress.towards(order.limit), f"{progress.failed} failed" if progress.failed else "")

        done = await replay_letters(
            here.transport,
            found.queue,
            order,
            work=found.work,
            clock=here.clock,
            stop=stop,
            on_progress=show,
            on_letter=tally,
        )
        return done, tally, stop.is_set()


async def _is_wanted(here: Desk, found: Found, order: Order) -> bool:
    """Name the queues that would get the letters by their exchange, and ask."""
    _, tally, stopped = await _run(here, found, replace(order, dry_run=True))
    for go, count in tally.targets.items():
        where = f'{counted(count, "letter")} to exchange "{go.exchange}" with key "{go.routing_key}"'
        if here.actual is None:
            note(f"warning: {where}: which queues get them is not known without the management API")
        else:
            queues = reached(here.actual, go.exchange, go.routing_key)
            note(f"warning: {where}: {', '.join(queues) or 'no queue'} would get {'it' if count == 1 else 'them'}")
    if stopped:
        return False
    if not tally.targets or order.dry_run or here.options.yes:
        return True
    return agreed("Replay to the exchange?", without="nothing was replayed")


def _print(done: Replayed, tally: _Tally, *, dry_run: bool) -> None:
    paper, verb = Paper(), "would be replayed" if dry_run else "replayed"
    targets = [
        f'"{go.routing_key}"' if not go.exchange else f'exchange "{go.exchange}", key "{go.routing_key}"'
        for go in tally.targets
    ]
    more = f" and {len(targets) - _NAMED} more places" if len(targets) > _NAMED else ""
    where = f" to {', '.join(targets[:_NAMED])}{more}" if done.replayed and targets else ""
    paper.line(harmless(f"{counted(done.replayed, 'letter')} {verb}{where} (of {done.total} in {done.queue})"))
    if not dry_run and done.replayed:
        paper.line(f"run {done.run}")
    for reason, count in done.stayed.items():
        remedy = f": {_REMEDIES[reason]}" if reason in _REMEDIES else ""
        note(f"{counted(count, 'letter')} stayed, {reason.value}{remedy}")
    for failure in done.failures[:_NAMED]:
        note(f"failed: {failure.id}: {failure.error}")
    if done.failed > _NAMED:
        note(f"and {done.failed - _NAMED} more failed")
    if done.uncertain:
        note(f"perhaps here and there: {_some(done.uncertain)}")
    if done.again:
        note(f"were out before, with a look, or with a replay that was killed and sent them: {_some(done.again)}")
    if done.trouble:
        note(f"{done.queue}: {done.trouble}")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _as_json(done: Replayed, tally: _Tally, *, dry_run: bool) -> dict[str, Any]:
    return {
        "run": done.run,
        "dry_run": dry_run,
        "queue": done.queue,
        "total": done.total,
        "seen": done.seen,
        "replayed": done.replayed,
        "targets": [
            {"exchange": go.exchange, "routing_key": go.routing_key, "letters": count}
            for go, count in tally.targets.items()
        ],
        "stayed": {reason.name.lower(): count for reason, count in done.stayed.items()},
        "failed": done.failed,
        "failures": [{"id": failure.id, "error": failure.error} for failure in done.failures],
        "uncertain": list(done.uncertain),
        "again": list(done.again),
        "seconds": round(done.seconds, 3),
        "trouble": done.trouble or None,
    }
