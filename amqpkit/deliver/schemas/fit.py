"""Whether whatever is written under one schema can be read under another, and where and why not.

Pure. It may say no where a person sees yes, never yes where some value would be refused. A writer writes the fields
that its schema declares, and others only if the schema says so (`additionalProperties`). What a validator of the
user's own refuses, no schema shows.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from amqpkit.deliver.schemas.nodes import FREE_FORMATS, NOTES, Node, Schema, part, shown

_EXACT: Final = 2**53
_COMPARED: Final = frozenset(
    {"type", "const", "enum", "anyOf", "oneOf", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items", "prefixItems", "minItems", "maxItems"}
    | {"uniqueItems", "properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
    | {"minProperties", "maxProperties"}
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A place at which something may be written that cannot be read."""

    path: str
    reason: str


def misfits(written: Node, read: Node) -> tuple[Misfit, ...]:
    """Every way in which a value that `written` allows is refused by `read`; none if all fit."""
    return tuple(dict.fromkeys(_Comparison(Schema(written), Schema(read)).fit(written, read, "$")))


class _Comparison:
    def __init__(self, written: Schema, read: Schema) -> None:
        self._w, self._r = written, read
        self._under_way: set[tuple[str, str]] = set()

    def fit(self, written: object, read: object, path: str) -> Iterator[Misfit]:
        """Compare two nodes, alternative by alternative."""
        w = written if isinstance(written, dict) else self._w.resolved(written)
        r = read if isinstance(read, dict) else self._r.resolved(read)
        whole = self._r.resolved(r)
        if not self._r.constrains(whole):
            return
        if "oneOf" in whole and "discriminator" not in whole and self._w.root != self._r.root:
            yield Misfit(path, "which alternative is read is decided by a function, which cannot be compared")
            return
        choices = self._r.branches(r)
        for branch in self._w.branches(w):
            tries = [self._pair(branch, choice, path) for choice in choices]
            if all(tries):
                yield from tries[0] if len(choices) == 1 else self._nearest(branch, r, choices, tries, path)

    def _pair(self, branch: Node, choice: Node, path: str) -> list[Misfit]:
        pair = (json.dumps(branch, sort_keys=True), json.dumps(choice, sort_keys=True))
        if pair in self._under_way:
            return []  # a model inside itself: fits if the rest of it does
        self._under_way.add(pair)
        try:
            return list(self._one(self._w.resolved(branch), self._r.resolved(choice), path))
        finally:
            self._under_way.discard(pair)

    def _nearest(
        self, branch: Node, r: Node, choices: tuple[Node, ...], tries: list[list[Misfit]], path: str
    ) -> list[Misfit]:
        """What is wrong with the one alternative that was meant, if that can be told."""
        kind = self._w.resolved(branch).get("type")
        alike = [
            found
            for choice, found in zip(choices, tries, strict=True)
            if kind is not None and self._r.resolved(choice).get("type") == kind
        ]
        if len(alike) == 1:
            return alike[0]
        return [Misfit(path, f"{self._w.described(branch)} may be written, {self._r.described(r)} is read")]

    # --- one alternative against one ---------------------------------------------------------------

    def _one(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        for key in sorted(r.keys() - NOTES - _COMPARED):
            if w.get(key) != r[key]:
                yield Misfit(path, f"{key} {shown(r[key])} is asked for, which cannot be compared")
        if "const" in w:
            if not _takes(r, w["const"]):
                yield Misfit(path, f"{shown(w['const'])} may be written, {self._r.described(r)} is read")
            return
        if "const" in r:
            yield Misfit(path, f"{self._w.described(w)} may be written, only {shown(r['const'])} is read")
            return
        kind, wanted = w.get("type"), r.get("type")
        if wanted is None and r.keys() & _COMPARED and w != r:
            yield Misfit(path, f"{', '.join(sorted(r.keys() & _COMPARED))} without a type cannot be compared")
            return
        if wanted is not None and kind != wanted:
            if (kind, wanted) == ("integer", "number"):
                yield from _widened(w, r, path)
            else:
                yield Misfit(path, f"{self._w.described(w)} may be written, {self._r.described(r)} is read")
            return
        yield from _text(w, r, path)
        yield from _number(w, r, path)
        yield from self._array(w, r, path)
        yield from self._object(w, r, path)

    # --- arrays --------------------------------------------------------------------------------------

    def _array(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        if r.get("type") != "array":
            return
        yield from _at_least(w, r, "minItems", path)
        yield from _at_most(w, r, "maxItems", path)
        if r.get("uniqueItems") and not w.get("uniqueItems"):
            yield Misfit(path, "items may repeat, and repeated ones are lost when read")
        fixed, longest = max(len(w.get("prefixItems", ())), len(r.get("prefixItems", ()))), w.get("maxItems")
        for at in range(fixed if longest is None else min(fixed, longest)):
            yield from self.fit(_item(w, at), _item(r, at), f"{path}[{at}]")
        if longest is None or longest > fixed:
            yield from self.fit(_item(w, fixed), _item(r, fixed), f"{path}[*]")

    # --- objects -------------------------------------------------------------------------------------

    def _object(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        if r.get("type") != "object":
            return
        yield from self._declared(w, r, path)
        yield from self._required(w, r, path)
        yield from self._others(w, r, path)
        yield from self._names(w, r, path)
        known = len(w.get("required", ()))
        if r.get("minProperties", 0) > max(w.get("minProperties", 0), known):
            yield from _at_least(w, r, "minProperties", path)
        closed = not w.get("additionalProperties") and "patternProperties" not in w
        if not (closed and len(part(w, "properties")) <= r.get("maxProperties", float("inf"))):
            yield from _at_most(w, r, "maxProperties", path)

    def _declared(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        theirs, rest, patterns = part(r, "properties"), r.get("additionalProperties"), part(r, "patternProperties")
        for name, node in sorted(part(w, "properties").items()):
            if name in theirs:
                yield from self.fit(node, theirs[name], f"{path}.{name}")
            elif patterns:
                yield Misfit(f"{path}.{name}", f"may be written, and only names like {', '.join(patterns)} are read")
            elif rest is False:
                yield Misfit(f"{path}.{name}", "may be written, and unknown fields are refused")
            elif rest is not None:
                yield from self.fit(node, rest, f"{path}.{name}")

    def _required(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        ours = part(w, "properties")
        for name in sorted(set(r.get("required", ())) - set(w.get("required", ()))):
            if name in ours:
                yield Misfit(f"{path}.{name}", "may be left out, and is required")
            else:
                hint = self._renamed(ours, r, name)
                yield Misfit(f"{path}.{name}", f"is required, and is not always written{hint}")

    def _renamed(self, ours: Node, r: Node, name: str) -> str:
        theirs = part(r, "properties")
        wanted = _bare(theirs.get(name))
        names = [each for each, node in ours.items() if each not in theirs and _bare(node) == wanted]
        return f" (was {names[0]} renamed?)" if len(names) == 1 else ""

    def _others(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        """What a writer may add to its declared fields."""
        yield from self._patterned(w, r, path)
        open_, rest = w.get("additionalProperties"), r.get("additionalProperties")
        if open_ is None or open_ is False:
            return
        if patterns := part(r, "patternProperties"):
            yield Misfit(path, f"any fields may be written, and only names like {', '.join(patterns)} are read")
        for name, node in sorted(part(r, "properties").items()):
            if name not in part(w, "properties"):
                yield from self.fit(open_, node, f"{path}.{name}")
        if rest is False:
            yield Misfit(path, "fields that are not declared may be written, and are refused")
        elif rest is not None:
            yield from self.fit(open_, rest, f"{path}.*")

    def _patterned(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        patterns, rest = part(r, "patternProperties"), r.get("additionalProperties")
        for pattern, node in sorted(part(w, "patternProperties").items()):
            if pattern in patterns:
                yield from self.fit(node, patterns[pattern], f"{path}./{pattern}/")
            elif part(r, "properties") or patterns or rest is False:
                yield Misfit(path, f"names like {pattern} may be written, which cannot be compared")
            elif rest is not None:
                yield from self.fit(node, rest, f"{path}./{pattern}/")

    def _names(self, w: Node, r: Node, path: str) -> Iterator[Misfit]:
        names = r.get("propertyNames")
        if names is None:
            return
        for name in sorted(part(w, "properties")):
            yield from self.fit({"const": name}, {"type": "string", **names}, f"{path}.{name}")
        if w.get("additionalProperties") or "patternProperties" in w:
            written = {"type": "string", **part(w, "propertyNames")}
            yield from self.fit(written, {"type": "string", **names}, f"{path}.*")


# --- values ------------------------------------------------------------------------------------------


def _takes(r: Node, value: Any) -> bool:
    if "const" in r:
        return type(r["const"]) is type(value) and bool(r["const"] == value)
    match value, r.get("type"):
        case _, None:
            return not r.keys() & _COMPARED
        case (None, "null") | (bool(), "boolean"):
            return True
        case (bool(), _):
            return False
        case (int(), "integer") | (int() | float(), "number"):
            point = {"minimum": value, "maximum": value, "multipleOf": value, "type": "number"}
            exact = isinstance(value, float) or r["type"] == "integer" or abs(value) <= _EXACT
            return exact and not any(_number(point, r, ""))
        case (str(), "string"):
            point = {"minLength": len(value), "maxLength": len(value)}
            kept = {"pattern": r["pattern"]} if "pattern" in r and _has_form(value, r["pattern"]) else {}
            return not any(_text({**point, **kept}, r, ""))
        case _:
            return False


def _has_form(value: str, pattern: str) -> bool:
    try:
        return "\n" not in value and re.search(pattern, value) is not None
    except re.error:
        return False  # pydantic's patterns are Rust's, where `$` is the very end, and some Python does not know


def _text(w: Node, r: Node, path: str) -> Iterator[Misfit]:
    yield from _at_least(w, r, "minLength", path)
    yield from _at_most(w, r, "maxLength", path)
    form, wanted = w.get("format"), r.get("format")
    if r.get("type") == "string" and wanted is not None and wanted not in FREE_FORMATS and form != wanted:
        yield Misfit(path, f"{'any text' if form is None else f'format {form}'} may be written, {wanted} is read")
    if "pattern" in r and w.get("pattern") != r["pattern"]:
        yield Misfit(path, f"pattern {r['pattern']} is asked for, and not known to be kept")


def _widened(w: Node, r: Node, path: str) -> Iterator[Misfit]:
    low, high = _low(w), _high(w)
    exact = low is not None and high is not None and low[0] >= -_EXACT and high[0] <= _EXACT
    if not exact and r.get("format") != "decimal":
        yield Misfit(path, "whole numbers beyond 2**53 may be written, and are rounded when read as number")
    yield from _number(w, r, path)


def _number(w: Node, r: Node, path: str) -> Iterator[Misfit]:
    low, high = _low(r), _high(r)
    ours = _low(w)
    if low is not None and (ours is None or ours < low):
        yield Misfit(path, f"{_bound(ours, 'more')} may be written, {_bound(low, 'more')} is the least that is read")
    ours = _high(w)
    if high is not None and (ours is None or ours > high):
        yield Misfit(path, f"{_bound(ours, 'less')} may be written, {_bound(high, 'less')} is the most that is read")
    if (step := r.get("multipleOf")) is not None and not _is_multiple(w.get("multipleOf"), step):
        yield Misfit(path, f"only multiples of {step} are read")


Bound = tuple[float | Decimal, int]


def _low(node: Node) -> Bound | None:
    """The least value, and 1 if it is itself excluded; of whole numbers it never is."""
    bounds = [(node[key], int(key == "exclusiveMinimum")) for key in ("minimum", "exclusiveMinimum") if key in node]
    if not bounds:
        return None
    value, excluded = max(bounds)
    return (
        (value + 1, 0) if excluded and node.get("type") == "integer" and isinstance(value, int) else (value, excluded)
    )


def _high(node: Node) -> Bound | None:
    """The greatest value, and -1 if it is itself excluded."""
    bounds = [(node[key], -int(key == "exclusiveMaximum")) for key in ("maximum", "exclusiveMaximum") if key in node]
    if not bounds:
        return None
    value, excluded = min(bounds)
    return (
        (value - 1, 0) if excluded and node.get("type") == "integer" and isinstance(value, int) else (value, excluded)
    )


def _bound(bound: Bound | None, word: str) -> str:
    if bound is None:
        return "any number"
    return f"{word} than {bound[0]}" if bound[1] else f"{bound[0]}"


def _is_multiple(ours: float | None, step: float) -> bool:
    return ours is not None and (Fraction(str(ours)) / Fraction(str(step))).denominator == 1


# --- sizes -------------------------------------------------------------------------------------------


def _at_least(w: Node, r: Node, key: str, path: str) -> Iterator[Misfit]:
    if w.get(key, 0) < r.get(key, 0):
        yield Misfit(path, f"{key} {w.get(key, 0)} is written, {r[key]} is asked for")


def _at_most(w: Node, r: Node, key: str, path: str) -> Iterator[Misfit]:
    if key in r and w.get(key, float("inf")) > r[key]:
        ours = f"{key} {w[key]}" if key in w else f"no {key}"
        yield Misfit(path, f"{ours} is written, {r[key]} is allowed")


def _item(node: Node, at: int) -> object:
    prefix = node.get("prefixItems", ())
    return prefix[at] if at < len(prefix) else node.get("items", True)


def _bare(node: object) -> object:
    if not isinstance(node, dict):
        return node
    return {key: value for key, value in node.items() if key not in NOTES or key == "$ref"}
