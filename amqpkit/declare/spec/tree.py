"""A parsed file as a tree in which every key and value knows its place.

Pure: knows neither YAML nor what the keys mean.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = str | int
Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A spot in one of the files; `order` is the file's rank on the command line, line and column count from 1."""

    order: int
    line: int
    column: int
    file: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Something wrong at a place."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value at its place: a scalar, a list of nodes or a mapping of entries."""

    place: Place
    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping: where it stands, how it was written, and its value."""

    key: Place
    written: str
    node: Node


def plain(node: Node) -> Any:
    """Strip the places: dicts, lists and scalars."""
    match node.value:
        case dict():
            return {key: plain(entry.node) for key, entry in node.value.items()}
        case list():
            return [plain(item) for item in node.value]
        case scalar:
            return scalar


def merged(base: Node, overlay: Node) -> Node:
    """Lay one tree over another: mappings merge key by key, anything else replaces.

    An empty mapping entry (`email.send:`) says nothing and so removes nothing.
    """
    if not isinstance(base.value, dict) or not isinstance(overlay.value, dict):
        return base if isinstance(base.value, dict) and overlay.value is None else overlay
    entries = dict(base.value)
    for key, entry in overlay.value.items():
        below = entries.get(key)
        entries[key] = Entry(entry.key, entry.written, merged(below.node, entry.node)) if below else entry
    return Node(overlay.place if not base.value else base.place, entries)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Which keys are words of the format, and their canonical spelling by the spelling with underscores."""

    words: Mapping[str, str]
    named: Collection[str]
    """Root keys whose children are the user's own names."""
    raw: Collection[str]
    """Keys below which nothing is ours to spell."""
    hyphened: Collection[str]
    """Keys whose children are RabbitMQ's own words with hyphens."""


def spelled(root: Node, spelling: Spelling) -> tuple[Node, list[Fault]]:
    """Bring every key of the format to its canonical spelling; a key given in both spellings is a fault."""
    faults: list[Fault] = []

    def visit(node: Node, parents: tuple[str, ...]) -> Node:
        if isinstance(node.value, list):
            return Node(node.place, [visit(item, parents) for item in node.value])
        if not isinstance(node.value, dict):
            return node
        entries: dict[str, Entry] = {}
        for written, entry in node.value.items():
            key = _canonical(written, parents, spelling)
            if first := entries.get(key):
                text = f'"{written}" is the same key as "{first.written}" on line {first.key.line}'
                faults.append(Fault(entry.key, text))
            else:
                entries[key] = Entry(entry.key, entry.written, visit(entry.node, (*parents, key)))
        return Node(node.place, entries)

    return visit(root, ()), faults


def _canonical(key: str, parents: tuple[str, ...], spelling: Spelling) -> str:
    match parents:
        case (section,) if section in spelling.named:
            return key
        case (_, _, *below) if any(parent in spelling.raw for parent in below):
            return key
        case (_, _, *below) if any(parent in spelling.hyphened for parent in below):
            return key.replace("_", "-")
        case _:
            return spelling.words.get(key.replace("-", "_"), key)


def walk(root: Node, loc: Sequence[Step]) -> Iterator[tuple[Step, Place, Node]]:
    """Follow `loc` from the root, passing over steps that the tree does not have (a missing key, a union's tag)."""
    node = root
    for step in loc:
        if isinstance(node.value, dict) and step in node.value:
            entry = node.value[step]
            node = entry.node
            yield step, entry.key, node
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            yield step, node.place, node


def place_of(root: Node, loc: Sequence[Step], *, key: bool = False) -> Place:
    """Say where `loc` stands: a scalar at itself; mappings, lists and nothing at their key (with `key`, all do)."""
    at, node = root.place, root
    for _, at, node in walk(root, loc):  # noqa: B007 - the last one counts
        pass
    return at if key or node.value is None or isinstance(node.value, dict | list) else node.place


def path_of(root: Node, loc: Sequence[Step]) -> Path:
    """Keep of `loc` what the tree has."""
    return tuple(step for step, _, _ in walk(root, loc))


def pruned(root: Node, cuts: Collection[Path], emptied: Collection[Path]) -> Node:
    """Leave out the values at `cuts`, and make those at `emptied` empty mappings."""

    def visit(node: Node, path: Path) -> Node:
        if path in emptied:
            return Node(node.place, {})
        match node.value:
            case dict():
                kept = {
                    key: Entry(entry.key, entry.written, visit(entry.node, (*path, key)))
                    for key, entry in node.value.items()
                    if (*path, key) not in cuts
                }
                return Node(node.place, kept)
            case list():
                items = enumerate(node.value)
                return Node(node.place, [visit(item, (*path, i)) for i, item in items if (*path, i) not in cuts])
            case _:
                return node

    return visit(root, ())
