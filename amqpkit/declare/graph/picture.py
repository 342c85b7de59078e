"""What a picture of a topology shows: boxes, arrows, and which boxes belong together. Pure.

A work queue is known by its names, so a broker is drawn as its file is: with its ladder of delays and its dead letters,
without the two exchanges between them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from amqpkit.declare import naming
from amqpkit.declare.policies import PolicyIndex
from amqpkit.model import Binding, Queue, Topology
from amqpkit.units import format_duration

Key = tuple[str, str]
"""What a box is (`message`, `exchange`, `queue`) and its name."""


class Shape(Enum):
    """What a box is."""

    MESSAGE = "message"
    EXCHANGE = "exchange"
    QUEUE = "queue"
    WORK = "work queue"
    DELAY = "delay queue"
    DEAD = "dead-letter queue"
    MISSING = "not declared here"


class Line(Enum):
    """What an arrow is."""

    PUBLISH = "publish"
    BINDING = "binding"
    ALTERNATE = "alternate"
    RETRY = "retry"
    """There and, when the delay is over, back."""
    DEAD = "dead letters"


@dataclass(frozen=True, slots=True)
class Box:
    """One thing: a key that is unique, its name, and a few words about it."""

    key: Key
    shape: Shape
    name: str
    about: str = ""
    group: str = ""
    """The work queue that it belongs to, if any."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another, with a label."""

    source: Key
    target: Key
    line: Line
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows in a fixed order."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


@dataclass(frozen=True, slots=True)
class _Ladder:
    """A work queue's parts, as far as they are there."""

    name: str
    dead: str
    delays: tuple[str, ...]
    hidden: frozenset[str]


_EXCHANGE, _QUEUE, _MESSAGE = "exchange", "queue", "message"
_LONGEST_LABEL: Final = 60


def picture(topology: Topology) -> Picture:
    """Draw a topology, compiled from files or read from a broker."""
    ladders = {ladder.name: ladder for ladder in _ladders(topology)}
    hidden = frozenset[str]().union(*(ladder.hidden for ladder in ladders.values()))
    boxes = {box.key: box for box in _boxes(topology, ladders, hidden)}
    arrows = _joined(_arrows(topology, ladders, hidden))
    for arrow in arrows:
        for key in (arrow.source, arrow.target):
            boxes.setdefault(key, Box(key, _shape_of_missing(key), key[1] or "(default exchange)"))
    return Picture(tuple(boxes.values()), arrows)


def _joined(arrows: Iterable[Arrow]) -> tuple[Arrow, ...]:
    """Draw several bindings between the same two as one arrow with all their labels."""
    labels: dict[tuple[Key, Key, Line], list[str]] = defaultdict(list)
    for arrow in arrows:
        labels[arrow.source, arrow.target, arrow.line].append(arrow.label)
    return tuple(
        Arrow(source, target, line, _short(", ".join(filter(None, dict.fromkeys(found)))))
        for (source, target, line), found in labels.items()
    )


def _shape_of_missing(key: Key) -> Shape:
    own = key[0] == _EXCHANGE and (not key[1] or key[1].startswith("amq."))
    return Shape.EXCHANGE if own else Shape.MISSING


def _ladders(topology: Topology) -> Iterator[_Ladder]:
    exchanges = {exchange.name for exchange in topology.exchanges}
    queues = {queue.name for queue in topology.queues}
    delays: dict[str, list[Queue]] = defaultdict(list)
    for queue in topology.queues:
        owner, found, _ = queue.name.rpartition(".retry.")
        if found:
            delays[owner].append(queue)
    for name in sorted(queues):
        parts = {naming.retry_exchange(name), naming.dead_exchange(name)}
        if parts <= exchanges and naming.dead_queue(name) in queues:
            ladder = sorted(delays[name], key=_wait)
            yield _Ladder(name, naming.dead_queue(name), tuple(queue.name for queue in ladder), frozenset(parts))


def _wait(queue: Queue) -> tuple[int, str]:
    wait = queue.arguments.get("x-message-ttl")
    return (wait if isinstance(wait, int) else 0), queue.name


def _boxes(topology: Topology, ladders: Mapping[str, _Ladder], hidden: frozenset[str]) -> Iterator[Box]:
    for name in topology.routes:
        yield Box((_MESSAGE, name), Shape.MESSAGE, name)
    for exchange in topology.exchanges:
        if exchange.name not in hidden:
            yield Box((_EXCHANGE, exchange.name), Shape.EXCHANGE, exchange.name, exchange.type)
    inside = {part for ladder in ladders.values() for part in (ladder.name, ladder.dead, *ladder.delays)}
    queues = {queue.name: queue for queue in topology.queues}
    for ladder in ladders.values():
        yield Box((_QUEUE, ladder.name), Shape.WORK, ladder.name, queues[ladder.name].type, group=ladder.name)
        for delay in ladder.delays:
            yield Box((_QUEUE, delay), Shape.DELAY, delay.removeprefix(f"{ladder.name}.retry."), group=ladder.name)
        yield Box((_QUEUE, ladder.dead), Shape.DEAD, ladder.dead, _owner(topology, ladder.name), group=ladder.name)
    for queue in topology.queues:
        if queue.name not in inside:
            about = ", ".join(filter(None, (queue.type, _waits(queue))))
            yield Box((_QUEUE, queue.name), Shape.QUEUE, queue.name, about)


def _owner(topology: Topology, name: str) -> str:
    queue = topology.work_queues.get(name)
    return queue.owner or "" if queue else ""


def _waits(queue: Queue) -> str:
    wait = queue.arguments.get("x-message-ttl")
    return f"waits {format_duration(wait)}" if isinstance(wait, int) else ""


def _arrows(topology: Topology, ladders: Mapping[str, _Ladder], hidden: frozenset[str]) -> Iterator[Arrow]:
    for name, route in topology.routes.items():
        target = (_EXCHANGE, route.exchange) if route.exchange else (_QUEUE, route.routing_key)
        yield Arrow((_MESSAGE, name), target, Line.PUBLISH, route.routing_key if route.exchange else "")
    for binding in topology.bindings:
        if binding.source not in hidden:
            target = (binding.destination_type, binding.destination)
            yield Arrow((_EXCHANGE, binding.source), target, Line.BINDING, label_of(binding))
    index = PolicyIndex(topology.policies)
    for exchange in topology.exchanges:
        ruling = index.ruling(exchange).winner
        alternate = _text(exchange.arguments, ruling.definition if ruling else {}, "alternate-exchange")
        if alternate:
            yield Arrow((_EXCHANGE, exchange.name), (_EXCHANGE, alternate), Line.ALTERNATE, "unroutable")
    inside = {part for ladder in ladders.values() for part in (ladder.name, ladder.dead, *ladder.delays)}
    for ladder in ladders.values():
        yield from _ladder_arrows(ladder)
    for queue in topology.queues:
        if queue.name not in inside:
            ruling = index.ruling(queue).winner
            yield from _dead_arrows(queue, ruling.definition if ruling else {})


def _ladder_arrows(ladder: _Ladder) -> Iterator[Arrow]:
    work = (_QUEUE, ladder.name)
    for delay in ladder.delays:
        yield Arrow(work, (_QUEUE, delay), Line.RETRY)
    yield Arrow(work, (_QUEUE, ladder.dead), Line.DEAD, "dead")


def _dead_arrows(queue: Queue, ruled: Mapping[str, Any]) -> Iterator[Arrow]:
    exchange = _text(queue.arguments, ruled, "dead-letter-exchange")
    if exchange is None:
        return
    key = _text(queue.arguments, ruled, "dead-letter-routing-key")
    label = "expired, dead" if "x-message-ttl" in queue.arguments else "dead"
    if exchange:
        yield Arrow((_QUEUE, queue.name), (_EXCHANGE, exchange), Line.DEAD, f"{label}: {key}" if key else label)
    else:
        yield Arrow((_QUEUE, queue.name), (_QUEUE, key or queue.name), Line.DEAD, label)


def _text(arguments: Mapping[str, Any], ruled: Mapping[str, Any], key: str) -> str | None:
    """Read a setting of which the argument wins; exchanges spell it without `x-`."""
    found = arguments.get(f"x-{key}", arguments.get(key, ruled.get(key)))
    return found if isinstance(found, str) else None


def label_of(binding: Binding) -> str:
    """Say in a few words what a binding takes."""
    words = [binding.routing_key] if binding.routing_key else []
    words += [f"{name}={value}" for name, value in binding.arguments.items()]
    return " ".join(words)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
