"""Reading the nodes of a JSON Schema as pydantic writes it: references, alternatives, values, and in words.

Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Node = Mapping[str, Any]

NOTES: Final = frozenset(
    {"$defs", "$schema", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"x-amqpkit", "discriminator", "$ref"}
)
"""What says nothing of which values are valid (references and discriminators are resolved before anybody asks)."""
FREE_FORMATS: Final = frozenset({"password", "binary", "path"})
"""Formats that every text has."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A whole document, in which references are looked up."""

    root: Node

    def resolved(self, node: object) -> Node:
        """Follow references; what stands beside one is added to what it means."""
        if not isinstance(node, Mapping):
            return {} if node is True else {"not": {}}
        while "$ref" in node:
            target = self._target(str(node["$ref"]))
            beside = {key: value for key, value in node.items() if key != "$ref"}
            required = {*target.get("required", ()), *beside.get("required", ())}
            node = {**target, **beside, **({"required": sorted(required)} if required else {})}
        return node

    def _target(self, reference: str) -> Node:
        target = self.root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        # a file that somebody edited: what it may mean is unknown, and fits nothing
        return target if isinstance(target, Mapping) else {"not": {"$ref": reference}}

    def branches(self, node: Node) -> tuple[Node, ...]:
        """The alternatives of a node, each as it stands in the document; a node without any is its own only one."""
        whole = self.resolved(node)
        name = "anyOf" if "anyOf" in whole else "oneOf"
        if name not in whole:
            return self._values(whole) or self._types(node, whole)
        beside = {key: value for key, value in whole.items() if key not in NOTES and key not in ("anyOf", "oneOf")}
        tag = whole.get("discriminator", {}).get("propertyName") if name == "oneOf" else None
        found = (each for branch in whole[name] for each in self.branches({**branch, **beside}))
        if tag is None:
            return tuple(found)
        # pydantic looks at the tag first: it must be there even if it has a default
        return tuple({**each, "required": sorted({*each.get("required", ()), tag})} for each in found)

    def _values(self, whole: Node) -> tuple[Node, ...]:
        if "enum" not in whole:
            return ()
        return tuple({"const": value} for value in whole["enum"])

    def _types(self, node: Node, whole: Node) -> tuple[Node, ...]:
        if not isinstance(whole.get("type"), list):
            return (node,)
        return tuple({**whole, "type": each} for each in whole["type"])

    def constrains(self, node: Node) -> bool:
        """Whether a resolved node refuses anything."""
        return bool(node.keys() - NOTES)

    def described(self, node: Node, depth: int = 0) -> str:
        """Say in words what a node takes."""
        words = [self._word(self.resolved(branch), depth) for branch in self.branches(node)]
        return " or ".join(dict.fromkeys(words))

    def _word(self, node: Node, depth: int) -> str:
        if "const" in node:
            return shown(node["const"])
        kind = node.get("type", "anything")
        if kind == "array":
            items = node.get("items")
            if depth > 1 or not isinstance(items, Mapping) or not items:
                return "array"  # an alias may be a list of itself
            return f"array of {self.described(items, depth + 1)}"
        if kind == "object" and "title" in node and "properties" in node:
            return str(node["title"])
        return f"{kind} ({node['format']})" if "format" in node else str(kind)


def shown(value: object) -> str:
    """A value of a schema, as JSON and not too long."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line of a terminal


def part(node: Node, key: str) -> Node:
    """A mapping of a node, empty when it is not there."""
    found = node.get(key, {})
    return found if isinstance(found, Mapping) else {}
