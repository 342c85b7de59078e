"""What differs between two schemas of one version, and whom each difference breaks.

Pure.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.deliver.schemas.fit import misfits
from amqpkit.deliver.schemas.nodes import Node, Schema, part, shown

_SHOWN: Final = (
    *("const", "format", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum"),
    *("exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    *("default", "propertyNames", "contentSchema", "x-limits"),
)
ABSENT: Final = object()
_UNKNOWN: Final = {"None": "ignored", "True": "kept", "False": "refused"}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `consumers` and `producers` say why it breaks them, or nothing when it does not.

    Consumers: can new code read what was written under the locked schema? Producers: can old code read what new
    code writes?
    """

    path: str
    what: str
    consumers: str = ""
    producers: str = ""

    @property
    def breaks(self) -> bool:
        """Whether somebody is broken."""
        return bool(self.consumers or self.producers)


def changes(locked: Node, code: Node, *, produced: bool = True) -> tuple[Change, ...]:
    """Name every change of a version's schema, by path; `produced`: whether new code still writes this version."""
    told: dict[str, list[str]] = {}
    for path, what in _differences(locked, code):
        told.setdefault(path, []).append(what)
    consumers = _by_path(misfits(locked, code))
    producers = _by_path(misfits(code, locked)) if produced else {}
    paths = sorted({*told, *consumers, *producers})
    return tuple(
        Change(
            path,
            "; ".join(dict.fromkeys(told.get(path, ["changed"]))),
            "; ".join(consumers.get(path, ())),
            "; ".join(producers.get(path, ())),
        )
        for path in paths
    )


def _by_path(found: Any) -> Mapping[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for misfit in found:
        reasons.setdefault(misfit.path, []).append(misfit.reason)
    return reasons


def _differences(locked: Node, code: Node) -> Iterator[tuple[str, str]]:
    return _Differences(Schema(locked), Schema(code)).between(locked, code, "$")


class _Differences:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str]] = set()

    def between(self, before: object, after: object, path: str) -> Iterator[tuple[str, str]]:
        """Every difference between two nodes and what lies below them."""
        pair = (json.dumps(before, sort_keys=True), json.dumps(after, sort_keys=True))
        if pair in self._seen:
            return
        if "$ref" in pair[0] or "$ref" in pair[1]:
            self._seen.add(pair)
        old, new = self._old.resolved(before), self._new.resolved(after)
        several = len(self._old.branches(old)) > 1 or len(self._new.branches(new)) > 1
        yield from self._alternatives(old, new, path) if several else self._kinds(old, new, path)
        for key in ("default",) if several else _SHOWN:
            if old.get(key, ABSENT) != new.get(key, ABSENT):
                yield path, f"{key} {_value(old, key)} → {_value(new, key)}"
        yield from self._fields(old, new, path)
        yield from self._inner(old, new, path)

    def _alternatives(self, old: Node, new: Node, path: str) -> Iterator[tuple[str, str]]:
        olds = {self._old.described(branch): branch for branch in self._old.branches(old)}
        news = {self._new.described(branch): branch for branch in self._new.branches(new)}
        for word in (word for word in olds if word not in news):
            yield path, f"no longer {word}"
        for word in (word for word in news if word not in olds):
            yield path, f"now also {word}"
        for word in (word for word in olds if word in news):
            if olds[word] is not old and news[word] is not new:
                yield from self.between(olds[word], news[word], path)

    def _kinds(self, old: Node, new: Node, path: str) -> Iterator[tuple[str, str]]:
        if old.get("type") != new.get("type"):
            yield path, f"{self._old.described(old)} → {self._new.described(new)}"

    def _fields(self, old: Node, new: Node, path: str) -> Iterator[tuple[str, str]]:
        before, after = part(old, "properties"), part(new, "properties")
        for name in sorted({*before, *after}):
            place, was, is_ = f"{path}.{name}", name in old.get("required", ()), name in new.get("required", ())
            if name not in after:
                yield place, f"field removed ({'required' if was else 'optional'}, {self._old.described(before[name])})"
            elif name not in before:
                yield place, f"field added ({'required' if is_ else 'optional'}, {self._new.described(after[name])})"
            else:
                if was != is_:
                    yield place, "now required" if is_ else "now optional"
                yield from self.between(before[name], after[name], place)

    def _inner(self, old: Node, new: Node, path: str) -> Iterator[tuple[str, str]]:
        rest = "additionalProperties"
        for key, place in (("items", f"{path}[*]"), (rest, f"{path}.*")):
            if isinstance(old.get(key), Mapping) and isinstance(new.get(key), Mapping):
                yield from self.between(old[key], new[key], place)
        if (
            isinstance(old.get(rest), bool | None)
            and isinstance(new.get(rest), bool | None)
            and old.get(rest) != new.get(rest)
        ):
            words = {None: "ignored", True: "kept", False: "refused"}
            yield path, f"unknown fields {words[old.get(rest)]} → {words[new.get(rest)]}"
        before, after = old.get("prefixItems", ()), new.get("prefixItems", ())
        for at, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from self.between(one, other, f"{path}[{at}]")
        olds, news = part(old, "patternProperties"), part(new, "patternProperties")
        if olds.keys() != news.keys():
            yield path, f"names like {', '.join(olds) or 'any'} → {', '.join(news) or 'any'}"
        for pattern in sorted(olds.keys() & news.keys()):
            yield from self.between(olds[pattern], news[pattern], f"{path}./{pattern}/")


def _value(node: Node, key: str) -> str:
    return shown(node[key]) if key in node else "none"
