"""`amqpkit route`."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.declare.compiler import delay_queues
from amqpkit.declare.load import load_topology
from amqpkit.declare.route import Hop, Itinerary, Sent, itinerary
from amqpkit.declare.spec.checks import nearest
from amqpkit.model import Binding, Topology

FORMAT_VERSION: Final = "1.0"
_SHOWN: Final = 10
_WORDS: Final = 2


async def route(  # noqa: PLR0913 - the command's options
    *message: str,
    type_: Annotated[str | None, Parameter(name="--type")] = None,
    field: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    header: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    live: Annotated[bool, Parameter(negative=())] = False,
    connection: AdminOptions | None = None,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Say which queues a message reaches, by which way, and why not the others.

    `amqpkit route EXCHANGE KEY [FILES]`, or `amqpkit route --type TYPE [FILES]`; the default exchange is `""`.

    Exit codes: 0 it reaches a queue; 1 it reaches none; 64 the command line is wrong.

    Parameters
    ----------
    message
        Exchange and routing key (neither with --type), then topology files (default: topology.yaml, or the one in
        topology/).
    type_
        A payload type: exchange and key are those that the files give it.
    field
        A field of the payload for a placeholder of the key, as template=welcome; may be repeated.
    header
        A header, as name=value; may be repeated. 1 is a number and true a truth value; put "1" in quotes for text.
    live
        Ask the broker instead of files; --type still needs the files.
    connection
        Which broker, with --live.
    json_
        Print JSON: format_version, exchange, routing_key, headers, reached [{queue, certain, way}], missed [{binding,
        reason}], others, notes.
    """
    words, files = (message[:0], message) if type_ is not None else (message[:_WORDS], message[_WORDS:])
    if type_ is None and len(words) < _WORDS:
        msg = 'route needs an exchange ("" is the default one) and a key, as `amqpkit route shop a.b`, or --type'
        raise UsageError(msg)
    declared = None
    if type_ is not None or not live:
        declared = load_topology(*topology_files([Path(name) for name in files]), environ=os.environ)
    exchange, key = _of_type(declared, type_, field) if declared and type_ is not None else (words[0], words[1])
    topology = await _read(connection or AdminOptions(), declared) if live or declared is None else declared
    found = itinerary(topology, Sent(exchange, key, _headers(header)))
    if json_:
        print(json.dumps(_document(found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_text(found, _parts(topology))))
    return 0 if found.reached else 1


async def _read(connection: AdminOptions, declared: Topology | None) -> Topology:
    async with administered(connection.place(declared.vhost if declared else None)) as (admin, _):
        return await admin.read()


def _of_type(topology: Topology, name: str, fields: Sequence[str]) -> tuple[str, str]:
    route = topology.routes.get(name)
    if route is None:
        msg = f'no message of type "{name}" is in the files{nearest(name, topology.routes)}'
        raise UsageError(msg)
    values = dict(_pair(text, "--field") for text in fields)
    key = re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), route.routing_key)
    return route.exchange, key


def _headers(texts: Sequence[str]) -> dict[str, Any]:
    return {name: _value(value) for name, value in (_pair(text, "--header") for text in texts)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pair(text: str, option: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        msg = f'{option} "{text}": write name=value'
        raise UsageError(msg)
    return name, value


def _parts(topology: Topology) -> frozenset[str]:
    """Name the delay and dead-letter queues, which nobody expects a message of theirs to reach."""
    work = topology.work_queues.values()
    return frozenset(
        part for queue in work for part in (queue.dead_queue, *(each.queue for each in delay_queues(queue)))
    )


def _text(found: Itinerary, parts: frozenset[str]) -> list[str]:
    sent = found.sent
    place = f'exchange "{sent.exchange}"' if sent.exchange else "the default exchange"
    count = len(found.reached)
    verdict = f"reaches {count} queue{'' if count == 1 else 's'}" if count else "reaches no queue"
    lines = [f'a message to {place} with key "{sent.routing_key}" {verdict}', *(f"  {note}" for note in found.notes)]
    width = max((len(each.queue) for each in found.reached), default=0)
    for each in found.reached:
        doubt = "" if each.certain else "  (perhaps)"
        lines.append(f"  {each.queue:{width}}  {_way(each.way)}{doubt}")
    if found.missed:
        lines.append("not")
        lines += [f"  {_binding(miss.binding)}: {miss.reason}" for miss in found.missed[:_SHOWN]]
        if (left := len(found.missed) - _SHOWN) > 0:
            lines.append(f"  and {left} more binding{'' if left == 1 else 's'}")
    others = [name for name in found.others if name not in parts]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        lines.append(f"no way from there to {', '.join(others[:_SHOWN])}{more}")
    return lines


def _way(way: Sequence[Hop]) -> str:
    text = way[0].source or '""'
    for hop in way:
        text += f" {_arrow(hop)} {hop.destination}"
    return text


def _arrow(hop: Hop) -> str:
    match hop.by:
        case "alternate":
            return "=alternate=>"
        case "name":
            return "->"
        case _:
            return f"-{_label(hop.binding.routing_key, hop.binding.arguments)}->" if hop.binding else "->"


def _binding(binding: Binding) -> str:
    return f"{binding.source} -{_label(binding.routing_key, binding.arguments)}-> {binding.destination}"


def _label(key: str, arguments: Mapping[str, Any]) -> str:
    words = [key] if key else []
    words += [f"{name}={value}" for name, value in arguments.items()]
    return " ".join(words)


def _document(found: Itinerary) -> dict[str, Any]:
    sent = found.sent
    return {
        "format_version": FORMAT_VERSION,
        "exchange": sent.exchange,
        "routing_key": sent.routing_key,
        "headers": dict(sent.headers),
        "reached": [
            {"queue": each.queue, "certain": each.certain, "way": [_hop(hop) for hop in each.way]}
            for each in found.reached
        ],
        "missed": [{"binding": _json_binding(miss.binding), "reason": miss.reason} for miss in found.missed],
        "others": list(found.others),
        "notes": list(found.notes),
    }


def _hop(hop: Hop) -> dict[str, Any]:
    ends = {"source": hop.source, "destination": hop.destination, "destination_type": hop.destination_type}
    base = {**ends, "by": hop.by}
    return {**base, **({"binding": _json_binding(hop.binding)} if hop.binding else {})}


def _json_binding(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
    }
