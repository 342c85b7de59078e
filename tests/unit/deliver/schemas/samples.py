"""Values that a schema allows, as a strategy: what the locked side may have written."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from amqpkit.deliver.schemas.nodes import Node, Schema, part

ZONES = [UTC, timezone(timedelta(hours=-5, minutes=30))]
FORMATS: dict[str, st.SearchStrategy[Any]] = {
    "date": st.dates().map(str),
    "date-time": st.datetimes(timezones=st.sampled_from(ZONES)).map(lambda when: when.isoformat()),
    "time": st.times().map(str),
    "duration": st.sampled_from(["P1D", "PT1H", "P3DT2S", "PT0S"]),
    "uuid": st.uuids().map(str),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9, max_value=9).map(str),
    "uri": st.sampled_from(["https://example.com/", "http://a.example:81/x?y=z", "ftp://b.example/"]),
    "binary": st.text(),
    "password": st.text(),
    "int": st.integers().filter(lambda n: abs(n) < 10**4000).map(str),
}


def rust(pattern: str) -> str:
    """A pattern as pydantic's engine reads it: there the end is the end, not the newline before it."""
    return pattern.replace("$", r"\Z")


def samples(document: Node) -> st.SearchStrategy[Any]:
    """Values that the document allows."""
    return _Sampler(Schema(document)).of(document, 0)


class _Sampler:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def of(self, node: object, depth: int) -> st.SearchStrategy[Any]:
        node = node if isinstance(node, dict) else self._schema.resolved(node)
        return st.one_of([self._one(self._schema.resolved(branch), depth) for branch in self._schema.branches(node)])

    def _one(self, node: Node, depth: int) -> st.SearchStrategy[Any]:
        if "const" in node:
            return st.just(node["const"])
        match node.get("type"):
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                return self._integers(node)
            case "number":
                return self._numbers(node)
            case "string":
                return self._strings(node)
            case "array":
                return self._arrays(node, depth)
            case "object":
                return self._objects(node, depth)
            case _:
                return st.sampled_from([None, True, 0, 2**64, 1.5, "", "x", [], [1], {}, {"a": "b"}])

    def _integers(self, node: Node) -> st.SearchStrategy[int]:
        low, high = node.get("minimum"), node.get("maximum")
        low = node["exclusiveMinimum"] + 1 if "exclusiveMinimum" in node else low
        high = node["exclusiveMaximum"] - 1 if "exclusiveMaximum" in node else high
        step = node.get("multipleOf", 1)
        huge = [] if low is not None or high is not None else [st.sampled_from([2**53 + 1, 10**400, -(2**63)])]
        plain = st.integers(None if low is None else -(-low // step), None if high is None else high // step)
        return st.one_of([plain, *huge]).map(lambda n: n * step)

    def _numbers(self, node: Node) -> st.SearchStrategy[float]:
        if "multipleOf" in node:
            return st.integers(-5, 5).map(lambda n: n * node["multipleOf"])
        if node.get("format") == "decimal":
            return st.floats(-9, 9).map(lambda x: round(x, 1))
        low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum", node.get("exclusiveMaximum"))
        return st.floats(
            low,
            high,
            allow_nan=False,
            allow_infinity=False,
            exclude_min="exclusiveMinimum" in node,
            exclude_max="exclusiveMaximum" in node,
        )

    def _strings(self, node: Node) -> st.SearchStrategy[str]:
        if "pattern" in node:
            return st.from_regex(rust(node["pattern"]), alphabet=st.characters(codec="ascii", categories=["L", "N"]))
        if "format" in node:
            return FORMATS[node["format"]]
        return st.text(st.characters(codec="utf-8"), min_size=node.get("minLength", 0), max_size=node.get("maxLength"))

    def _arrays(self, node: Node, depth: int) -> st.SearchStrategy[list[Any]]:
        if prefix := node.get("prefixItems"):
            return st.tuples(*[self.of(each, depth + 1) for each in prefix]).map(list)
        low = node.get("minItems", 0)
        high = min(node.get("maxItems", low + 3), low + (3 if depth < 4 else 0))
        items = self.of(node.get("items", True), depth + 1) if high else st.nothing()
        unique = repr if node.get("uniqueItems") else None
        return st.lists(items, min_size=low, max_size=high, unique_by=unique)

    def _objects(self, node: Node, depth: int) -> st.SearchStrategy[dict[str, Any]]:
        required, fields = set(node.get("required", ())), part(node, "properties")
        declared = st.fixed_dictionaries(
            {name: self.of(each, depth + 1) for name, each in fields.items() if name in required},
            optional={
                name: self.of(each, depth + 1) for name, each in fields.items() if name not in required and depth < 4
            },
        )
        others = [self._others(node, rest, names, depth) for rest, names in self._open(node)]
        return st.tuples(declared, *others).map(
            lambda parts: {**{k: v for d in parts[1:] for k, v in d.items()}, **parts[0]}
        )

    def _open(self, node: Node) -> list[tuple[object, st.SearchStrategy[str]]]:
        found = [
            (each, st.from_regex(rust(pattern), alphabet=st.characters(codec="ascii", categories=["L"])))
            for pattern, each in part(node, "patternProperties").items()
        ]
        rest = node.get("additionalProperties")
        if rest is not None and rest is not False:
            names = self.of({"type": "string", **part(node, "propertyNames")}, 0)
            found.append(
                (rest, st.one_of(names, st.sampled_from(["a", "b", "n"])) if "propertyNames" not in node else names)
            )
        return found

    def _others(
        self, node: Node, rest: object, names: st.SearchStrategy[str], depth: int
    ) -> st.SearchStrategy[dict[str, Any]]:
        low = node.get("minProperties", 0)
        high = min(node.get("maxProperties", low + 2), low + (2 if depth < 3 else 0))
        return st.dictionaries(names, self.of(rest, depth + 1) if high else st.none(), min_size=low, max_size=high)
