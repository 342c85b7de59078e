"""`amqpkit dlq groups`."""

from datetime import datetime
from pathlib import Path
from typing import Any

from amqpkit.cli.dlq.choosing import Choice, Count
from amqpkit.cli.dlq.credentials import hushed_error
from amqpkit.cli.dlq.desk import DeskOptions, desk
from amqpkit.cli.dlq.letters import error_text
from amqpkit.cli.dlq.wording import Paper, aged, counted, harmless, instant_json, note, print_document, sized
from amqpkit.model import Received
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.groups import Grouped, Grouping
from amqpkit.operate.dead_letters.letter import read_letter


async def groups(
    queue: str,
    *files: Path,
    connection: DeskOptions | None = None,
    choice: Choice | None = None,
    limit: Count = None,
    json_: bool = False,
) -> int:
    """Put letters together that died of the same thing: fate, error, payload type and version, origin.

    Numbers, ids, times, addresses, paths, quoted text and credentials do not make two messages different; credentials
    are hidden, as `dlq show --help` tells. Exit codes: 0, 1 when not all letters could be seen.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    limit
        Letters that are looked at, from the head (default: all).
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    grouping = Grouping()
    async with desk(files, connection, verb="groups") as here:
        now = here.clock.now()
        chosen, place = (choice or Choice()).filter(now), await here.find(queue)
        if not here.may_look(place.queue):
            return 1

        def visit(received: Received) -> None:
            letter = read_letter(received, work=place.work)
            if chosen.admits(letter):
                grouping.add(hushed_error(letter))

        browsed = await browse(here.transport, place.queue, visit, clock=here.clock, limit=limit)
    found = grouping.groups()
    if json_:
        told = [_as_json(each) for each in found]
        print_document({"queue": place.queue, "total": browsed.total, "seen": browsed.seen, "groups": told})
    else:
        paper = Paper()
        for group in found:
            _print(paper, group, now)
        letters = sum(group.count for group in found)
        note(f"{counted(letters, 'letter')} in {counted(len(found), 'group')}; {browsed.seen} seen in {place.queue}")
    if browsed.trouble:
        note(f"{place.queue}: {browsed.trouble}")
    return int(bool(browsed.trouble))


def _print(paper: Paper, group: Grouped, now: datetime) -> None:
    cause = group.cause
    why = error_text(cause.fate, cause.error, cause.message)
    paper.line(f"{group.count:>6}  {harmless(cause.fate)}  {harmless(why or '(no error told)', 300)}", "bold")
    type_ = f"{cause.type} v{cause.version}" if cause.type and cause.version else cause.type or "no type"
    origin = f'exchange "{harmless(cause.exchange)}", key "{harmless(cause.routing_key)}"'
    paper.line(f"        {harmless(type_, 100)}, from {origin}")
    ages = f"{aged(group.last, now)} to {aged(group.first, now)} old, " if group.last else ""
    replays = f", replayed up to {group.replays}x" if group.replays else ""
    paper.line(f"        {ages}{sized(group.bytes)}{replays}; one of them: {harmless(group.example, 300)}")


def _as_json(group: Grouped) -> dict[str, Any]:
    cause = group.cause
    return {
        "count": group.count,
        "fate": cause.fate,
        "error": {"type": cause.error, "message": cause.message},
        "type": cause.type,
        "version": cause.version,
        "exchange": cause.exchange,
        "routing_key": cause.routing_key,
        "first": instant_json(group.first),
        "last": instant_json(group.last),
        "most_replays": group.replays,
        "bytes": group.bytes,
        "example": group.example,
    }
