"""`amqpkit import`: a topology file from what is there."""

import json
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.written import deliver, refuse_to_overwrite
from amqpkit.declare.importing.definitions import read
from amqpkit.declare.importing.found import Found, Imported, Note
from amqpkit.declare.importing.live import found as found_live
from amqpkit.declare.importing.outline import outline
from amqpkit.declare.importing.text import comment, to_text
from amqpkit.errors import Problem, TopologyError

_ORDER: Final = ("secret", "left-out", "changed", "raw", "guess", "unmanaged")


async def import_(
    definitions: Annotated[Path | None, Parameter(show_default=False)] = None,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], show_default=False)] = None,
    force: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
    connection: AdminOptions | None = None,
) -> int:
    """Write a topology file from a vhost, or from a definitions file of RabbitMQ. Its first plan is empty.

    Queues that compile from a few lines of `work_queues` become those lines; everything else stays as it is. What a
    topology file does not hold (users, shovels, operator policies) is listed on stderr, as is everything that was left
    out or guessed. No secret is written: an object that holds one is left out. Queues of a single connection and
    RabbitMQ's own objects are no topology.

    Exit codes: 0 written; 1 failed.

    Parameters
    ----------
    definitions
        A definitions file instead of a broker: of one vhost, or of a cluster (then --vhost says which).
    out
        Write there instead of to stdout.
    force
        Let --out replace a file.
    json_
        Print one JSON document: format_version, topology, notes [{kind, subject, message}].
    connection
        Which broker; a user with the tag management and a permission of `^$` is enough.
    """
    refuse_to_overwrite(out, force=force)
    options = connection or AdminOptions()
    if definitions is not None:
        found, source = _read(definitions, options.vhost), str(definitions)
    else:
        found, source = await _live(options)
    imported = outline(found)
    text = _json(imported) if json_ else _text(imported, source)
    deliver(text, out)
    for note in _sorted(imported):
        print(f"amqpkit: {note}", file=sys.stderr)
    print(f"amqpkit: {_summary(imported, source)}", file=sys.stderr)
    return 0


async def _live(options: AdminOptions) -> tuple[Found, str]:
    place = options.place()
    async with administered(place) as (admin, broker):
        found = found_live(await admin.read(), await admin.surroundings(), await admin.beyond())
    return found, f'vhost "{place.vhost}" of {broker.cluster_name} (RabbitMQ {broker.version})'


def _read(path: Path, vhost: str | None) -> Found:
    try:
        content = path.read_bytes()
        document = json.loads(content)
        if b"\\ud" in content.lower():  # halves of characters, which no text may hold
            json.dumps(document, ensure_ascii=False).encode()
    except OSError as error:
        raise TopologyError(
            [Problem(str(path), f"cannot be read: {(error.strerror or str(error)).lower()}")]
        ) from error
    except UnicodeError as error:
        raise TopologyError([Problem(str(path), "not a definitions file: it is not text in UTF-8")]) from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise TopologyError([Problem(place, f"not JSON: {error.msg.lower()}")]) from error
    except RecursionError as error:
        raise TopologyError([Problem(str(path), "not a definitions file: it is nested too deeply")]) from error
    return read(document, str(path), vhost)


def _text(imported: Imported, source: str) -> str:
    return f"# Imported by amqpkit from {comment(source)}\n{to_text(imported.document)}"


def _json(imported: Imported) -> str:
    notes = [{"kind": note.kind, "subject": note.subject, "message": note.message} for note in _sorted(imported)]
    document = {"format_version": "1.0", "topology": imported.document, "notes": notes}
    return json.dumps(document, indent=2, ensure_ascii=False, default=dict) + "\n"


def _sorted(imported: Imported) -> list[Note]:
    return sorted(imported.notes, key=lambda note: (_ORDER.index(note.kind), note.subject))


def _summary(imported: Imported, source: str) -> str:
    made = imported.topology
    left = sum(note.kind == "left-out" for note in imported.notes)
    plain = {section: len(imported.document.get(section, ())) for section in ("queues", "exchanges", "policies")}
    parts = [
        _count(len(made.work_queues), "work queue", "work queues"),
        _count(plain["queues"], "plain queue", "plain queues"),
        _count(plain["exchanges"], "exchange", "exchanges"),
        _count(plain["policies"], "policy", "policies"),
    ]
    gone = f"; {_count(left, 'object', 'objects')} left out" if left else ""
    return f"{source}: {', '.join(parts)}{gone}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
