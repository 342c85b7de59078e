"""A picture as Mermaid, which GitHub and GitLab draw in Markdown. Pure."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

from amqpkit.declare.graph.picture import Box, Line, Picture, Shape

_SHAPES: Final = {
    Shape.MESSAGE: ("([", "])"),
    Shape.EXCHANGE: ("{{", "}}"),
    Shape.QUEUE: ("[", "]"),
    Shape.WORK: ("[", "]"),
    Shape.DELAY: ("[/", "/]"),
    Shape.DEAD: ("[(", ")]"),
    Shape.MISSING: ("[", "]"),
}
_ARROWS: Final = {
    Line.PUBLISH: "-->",
    Line.BINDING: "-->",
    Line.ALTERNATE: "-.->",
    Line.RETRY: "<-->",
    Line.DEAD: "==>",
}
_CLASSES: Final = (
    "classDef exchange fill:#dbeafe,stroke:#1d4ed8,color:#111",
    "classDef queue fill:#f3f4f6,stroke:#374151,color:#111",
    "classDef work fill:#dcfce7,stroke:#15803d,color:#111",
    "classDef delay fill:#fef9c3,stroke:#a16207,color:#111",
    "classDef dead fill:#fee2e2,stroke:#b91c1c,color:#111",
    "classDef message fill:#fff,stroke:#6b7280,color:#111",
    "classDef missing fill:#fff,stroke:#b91c1c,color:#b91c1c,stroke-dasharray:4",
)
_PLAIN: Final = frozenset(" .-_:/=+*,")


def mermaid(picture: Picture) -> str:
    """Write a picture as a Mermaid flowchart; names can hold anything."""
    names = {box.key: f"n{number}" for number, box in enumerate(picture.boxes)}
    lines = ["flowchart LR"]
    grouped = sorted(picture.boxes, key=attrgetter("group"))
    for number, (group, boxes) in enumerate(groupby(grouped, key=attrgetter("group"))):
        inside = [f"{names[box.key]}{_box(box)}" for box in boxes]
        if group:
            lines += [f'  subgraph g{number}["{_escaped(group)}"]', *(f"    {line}" for line in inside), "  end"]
        else:
            lines += [f"  {line}" for line in inside]
    for arrow in picture.arrows:
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {names[arrow.source]} {_ARROWS[arrow.line]}{label} {names[arrow.target]}")
    lines += [f"  {line}" for line in (*_CLASSES, *_members(picture, names))]
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    opening, closing = _SHAPES[box.shape]
    about = f"<br/><i>{_escaped(box.about)}</i>" if box.about else ""
    return f'{opening}"{_escaped(box.name)}{about}"{closing}'


def _members(picture: Picture, names: dict[tuple[str, str], str]) -> Iterator[str]:
    for shape in Shape:
        members = [names[box.key] for box in picture.boxes if box.shape is shape]
        if members:
            yield f"class {','.join(members)} {shape.name.lower()}"


def _escaped(text: str) -> str:
    """Write all but letters, digits and a few harmless signs by their number: nothing of a name is markup."""
    return "".join(
        character if character.isalnum() or character in _PLAIN else f"#{ord(character)};" for character in text
    )
