"""A picture as DOT, the language of Graphviz. Pure."""

from itertools import groupby
from operator import attrgetter
from typing import Final

from amqpkit.declare.graph.picture import Arrow, Box, Line, Picture, Shape

_BOXES: Final = {
    Shape.MESSAGE: 'shape=box style="rounded" color="#6b7280"',
    Shape.EXCHANGE: 'shape=hexagon style=filled fillcolor="#dbeafe" color="#1d4ed8"',
    Shape.QUEUE: 'shape=box style=filled fillcolor="#f3f4f6" color="#374151"',
    Shape.WORK: 'shape=box style=filled fillcolor="#dcfce7" color="#15803d"',
    Shape.DELAY: 'shape=box style="filled,rounded" fillcolor="#fef9c3" color="#a16207"',
    Shape.DEAD: 'shape=cylinder style=filled fillcolor="#fee2e2" color="#b91c1c"',
    Shape.MISSING: 'shape=box style=dashed color="#b91c1c" fontcolor="#b91c1c"',
}
_ARROWS: Final = {
    Line.PUBLISH: 'color="#6b7280"',
    Line.BINDING: 'color="#1d4ed8"',
    Line.ALTERNATE: 'color="#1d4ed8" style=dashed',
    Line.RETRY: 'color="#a16207" dir=both',
    Line.DEAD: 'color="#b91c1c" style=bold',
}


def dot(picture: Picture) -> str:
    """Write a picture as a directed graph; names can hold anything."""
    names = {box.key: f"n{number}" for number, box in enumerate(picture.boxes)}
    lines = [
        "digraph topology {",
        "  rankdir=LR",
        '  node [fontname="Helvetica" fontsize=11 margin="0.15,0.07"]',
        '  edge [fontname="Helvetica" fontsize=9 arrowsize=0.7]',
    ]
    grouped = sorted(picture.boxes, key=attrgetter("group"))
    for number, (group, boxes) in enumerate(groupby(grouped, key=attrgetter("group"))):
        inside = [f"{names[box.key]} [label={_label(box)} {_BOXES[box.shape]}]" for box in boxes]
        if group:
            opening = f"  subgraph cluster_{number} {{"
            frame = f'    label={quoted(group)} style=rounded color="#d1d5db" fontname="Helvetica" fontsize=10'
            lines += [opening, frame, *(f"    {line}" for line in inside), "  }"]
        else:
            lines += [f"  {line}" for line in inside]
    lines += [f"  {names[arrow.source]} -> {names[arrow.target]} [{_arrow(arrow)}]" for arrow in picture.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def quoted(text: str) -> str:
    """Quote text: a backslash would begin an escape, of which DOT has many."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _label(box: Box) -> str:
    name = quoted(box.name)
    return f"{name[:-1]}\\n{quoted(box.about)[1:]}" if box.about else name


def _arrow(arrow: Arrow) -> str:
    label = f"label={quoted(arrow.label)} " if arrow.label else ""
    return f"{label}{_ARROWS[arrow.line]}"
