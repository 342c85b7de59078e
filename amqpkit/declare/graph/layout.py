"""Where the boxes of a picture stand: columns from publishers to queues, work queues in one piece. Pure.

Plain and stable rather than clever: the same topology gives the same picture, and a small change a small one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.graph.picture import Box, Key, Line, Picture, Shape

_LETTER: Final = 7.2
_PAD: Final = 24.0
_TALL: Final = 40.0
_LOW: Final = 24.0
_GAP: Final = 18.0
_COLUMN_GAP: Final = 150.0
_FRAME: Final = 14.0
_INSIDE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Spot:
    """A box's rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Its vertical middle."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Every box's place, the frames of work queues by name, and how large the whole is."""

    spots: Mapping[Key, Spot]
    frames: Mapping[str, Spot]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Piece:
    """What stands together: one box, or a work queue with its ladder."""

    name: Key
    boxes: tuple[Box, ...]

    @property
    def is_framed(self) -> bool:
        return bool(self.boxes[0].group)


def layout(picture: Picture) -> Layout:
    """Place every box of a picture."""
    pieces = _pieces(picture.boxes)
    columns = _columns(picture, pieces)
    spots: dict[Key, Spot] = {}
    frames: dict[str, Spot] = {}
    x, lowest = _GAP, 0.0
    for column in columns:
        y, widest = _GAP, 0.0
        for piece in column:
            placed, frame = _placed(piece, x, y)
            spots.update(placed)
            if piece.is_framed:
                frames[piece.boxes[0].group] = frame
            y += frame.height + _GAP
            widest = max(widest, frame.width)
        x += widest + _COLUMN_GAP
        lowest = max(lowest, y)
    return Layout(spots, frames, max(x - _COLUMN_GAP + _GAP, 2 * _GAP), max(lowest, 2 * _GAP))


def _pieces(boxes: Iterable[Box]) -> dict[Key, _Piece]:
    together: dict[Key, list[Box]] = defaultdict(list)
    for box in boxes:
        together[("queue", box.group) if box.group else box.key].append(box)
    return {name: _Piece(name, tuple(members)) for name, members in together.items()}


def _columns(picture: Picture, pieces: Mapping[Key, _Piece]) -> list[list[_Piece]]:
    """Put each piece right of what leads to it; plain queues and work queues share the last columns."""
    home = {box.key: name for name, piece in pieces.items() for box in piece.boxes}
    ahead: dict[Key, set[Key]] = defaultdict(set)
    for arrow in picture.arrows:
        source, target = home[arrow.source], home[arrow.target]
        if source != target and arrow.line is not Line.DEAD:
            ahead[source].add(target)
    depth = {name: _first_column(piece) for name, piece in pieces.items()}
    waiting = list(pieces)
    for name in waiting:  # a circle of exchanges stops at as many columns as there are pieces
        for target in sorted(ahead[name]):
            if depth[name] + 1 > depth[target] and depth[name] < len(pieces):
                depth[target] = depth[name] + 1
                waiting.append(target)
    columns: dict[int, list[_Piece]] = defaultdict(list)
    for name, piece in pieces.items():
        columns[depth[name]].append(piece)
    return [columns[number] for number in sorted(columns)]


def _first_column(piece: _Piece) -> int:
    return {Shape.MESSAGE: 0, Shape.EXCHANGE: 1}.get(piece.boxes[0].shape, 2)


def _placed(piece: _Piece, x: float, y: float) -> tuple[dict[Key, Spot], Spot]:
    if not piece.is_framed:
        box = piece.boxes[0]
        spot = Spot(x, y, width_of(box), _TALL)
        return {box.key: spot}, spot
    first, *others = piece.boxes
    right = x + _FRAME + width_of(first) + _INSIDE
    top = y + _FRAME
    spots: dict[Key, Spot] = {}
    for box in others:
        height = _TALL if box.shape is Shape.DEAD else _LOW
        spots[box.key] = Spot(right, top, width_of(box), height)
        top += height + _GAP / 2
    height = max(top - _GAP / 2 - y + _FRAME, _TALL + 2 * _FRAME)
    spots[first.key] = Spot(x + _FRAME, y + (height - _TALL) / 2, width_of(first), _TALL)
    far = max((spot.x + spot.width for spot in spots.values()), default=right)
    return spots, Spot(x, y, far - x + _FRAME, height)


def width_of(box: Box) -> float:
    """Give a width that holds the box's words."""
    return max(len(box.name), len(box.about)) * _LETTER + _PAD
