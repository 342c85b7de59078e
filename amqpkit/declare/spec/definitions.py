"""RabbitMQ's definitions (JSON) as the tree of a topology file: what of them is topology, each object at its place.

Pure. Only for judging and applying what the definitions say, word for word; `importing` makes a file to keep of them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from amqpkit.declare.spec.listings import Item, outermost
from amqpkit.declare.spec.tree import Entry, Fault, Node, Place

SECTIONS: Final = ("exchanges", "queues", "bindings", "policies")
_LISTING: Final = re.compile(rf'"(?:{"|".join(SECTIONS)})"\s*:\s*\[')
_VERSION: Final = re.compile(r"""\bversion["']?\s*:\s*1\b""")
_TYPES: Final = frozenset({"classic", "quorum", "stream"})
_OWN: Final = "amq."
"""Exchanges with such names are there in every vhost; bindings may start at them."""
_MOST_VHOSTS: Final = 5
_TABLES: Final = ("arguments", "definition")


def read(file: str, order: int, text: str) -> tuple[Node | None, list[Fault]] | None:
    """Read definitions of one vhost, without a tree when they cannot be read; None when the text is none.

    They are a JSON object with listings, where a topology file has mappings and `version: 1`.
    """
    if not text.lstrip().startswith("{") or not _LISTING.search(text):
        return None
    reader = _Reader(file, order)
    try:
        said = dict(outermost(text))
    except json.JSONDecodeError as error:
        if _VERSION.search(text):  # a topology file in YAML's braces, which need not be JSON
            return None
        return None, [reader.fault(error.lineno, error.colno, f"not JSON: {error.msg.lower()}")]
    except RecursionError:
        return None, [reader.fault(1, 1, "the file is nested too deeply")]
    if "version" in said or not any(isinstance(said.get(section), list) for section in SECTIONS):
        return None
    return reader.root(said), reader.faults


class _Reader:
    """Turns items into entries of a topology file, each at its item's place; their values are checked like a file's."""

    def __init__(self, file: str, order: int) -> None:
        self.file, self.order = file, order
        self.faults: list[Fault] = []

    def root(self, sections: Mapping[str, Any]) -> Node:
        begin = Place(self.order, 1, 1, self.file)
        listings = {section: list(self.objects(section, sections.get(section, []))) for section in SECTIONS}
        vhost = self.vhost(sections, listings)
        about = next((each for each in _vhosts(sections) if each.get("name") == vhost), sections)
        usual = default_type(about)
        entries: dict[str, Node] = {"version": Node(begin, 1)}
        if vhost is not None:
            entries["vhost"] = Node(begin, vhost)
        exchanges = self.named("exchange", listings["exchanges"], _exchange)
        queues = self.named("queue", listings["queues"], lambda given: _queue(given, usual))
        self.bind(listings["bindings"], {"exchange": exchanges, "queue": queues})
        policies = self.named("policy", listings["policies"], _policy)
        for section, found in (("exchanges", exchanges), ("queues", queues), ("policies", policies)):
            entries[section] = Node(begin, found)
        return Node(begin, {key: Entry(begin, key, node) for key, node in entries.items()})

    def objects(self, section: str, listing: Any) -> Iterator[Item]:
        if not isinstance(listing, list):
            self.fault(1, 1, f"{section}: expected a list")
            return
        for at, item in enumerate(listing):
            if isinstance(item.value, dict):
                yield item
            else:
                self.fault(item.line, item.column, f"{section}[{at}]: expected an object")

    def vhost(self, sections: Mapping[str, Any], listings: Mapping[str, list[Item]]) -> str | None:
        """Name the one vhost that the file is about; of several, none is chosen here."""
        named = {str(item.value["vhost"]) for items in listings.values() for item in items if "vhost" in item.value}
        there = sorted(named) or sorted(str(each["name"]) for each in _vhosts(sections) if "name" in each)
        if len(there) > 1:
            some = ", ".join(f'"{name}"' for name in there[:_MOST_VHOSTS]) + (", …" if there[_MOST_VHOSTS:] else "")
            self.fault(
                1, 1, f"definitions of several vhosts ({some}); take one: `amqpkit import {self.file} --vhost …`"
            )
            return None
        return there[0] if there else None

    def named(
        self, kind: str, items: list[Item], entry: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for item in items:
            place = self.at(item)
            name = item.value.get("name")
            if not isinstance(name, str):
                self.faults.append(Fault(place, f"this {kind} has no name"))
            elif name in found:
                first = found[name].key
                self.faults.append(Fault(place, f'{kind} "{name}" is already given at {first.line}:{first.column}'))
            elif not (kind == "exchange" and name.startswith(_OWN)):
                found[name] = Entry(place, name, _node(place, entry(item.value)))
        return found

    def bind(self, items: list[Item], ends: Mapping[str, dict[str, Entry]]) -> None:
        for item in items:
            place = self.at(item)
            given = item.value
            kind, name = given.get("destination_type", "queue"), given.get("destination")
            if given.get("source") == "":  # of the default exchange, which every queue has
                continue
            entry = ends.get(kind, {}).get(name) if isinstance(name, str) and isinstance(kind, str) else None
            if entry is None:
                source = given.get("source")
                text = f'the binding from "{source}" leads to the {kind} "{name}", which is not declared in the file'
                self.faults.append(Fault(place, text))
                continue
            bindings = entry.node.value.setdefault("bindings", Entry(place, "bindings", Node(place, [])))
            bindings.node.value.append(_node(place, _given(given, "source", "routing_key", "arguments")))

    def at(self, item: Item) -> Place:
        return Place(self.order, item.line, item.column, self.file)

    def fault(self, line: int, column: int, message: str) -> Fault:
        found = Fault(Place(self.order, line, column, self.file), message)
        self.faults.append(found)
        return found


def _given(item: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Take over what an item says; an empty table was a list in some old exports."""
    return {key: {} if key in _TABLES and not item[key] else item[key] for key in keys if key in item}


def _exchange(item: Mapping[str, Any]) -> dict[str, Any]:
    return _given(item, "type", "durable", "auto_delete", "internal", "arguments")


def _queue(item: Mapping[str, Any], usual: str) -> dict[str, Any]:
    given = _given(item, "durable", "auto_delete", "arguments")
    arguments = given.get("arguments", {})
    kind = item.get("type") or usual
    if isinstance(arguments, dict):
        kind = arguments.get("x-queue-type", kind)
        given["arguments"] = {key: value for key, value in arguments.items() if key != "x-queue-type"}
    return {"type": kind, **given}


def _policy(item: Mapping[str, Any]) -> dict[str, Any]:
    return _given(item, "pattern", "definition", "apply-to", "priority")


def _node(place: Place, value: Any) -> Node:
    """Make a tree of a plain value, all of it at one place."""
    if isinstance(value, dict):
        return Node(place, {key: Entry(place, key, _node(place, each)) for key, each in value.items()})
    if isinstance(value, list):
        return Node(place, [_node(place, each) for each in value])
    return Node(place, value)


def default_type(about: Mapping[str, Any]) -> str:
    """Say of which type a queue is that names none, from what definitions say about its vhost: else classic."""
    metadata = about.get("metadata")
    said = [about.get("default_queue_type"), metadata.get("default_queue_type") if isinstance(metadata, dict) else None]
    return next((kind for kind in said if isinstance(kind, str) and kind in _TYPES), "classic")


def _vhosts(sections: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    listing = sections.get("vhosts")
    for item in listing if isinstance(listing, list) else ():
        if isinstance(item.value, dict):
            yield item.value
