"""Whether a JSON value fits a schema, and where and why not: for whoever has a locked schema and not its class.

Pure. Strict where pydantic would convert: `"1"` is no integer. A pattern that Python's `re` cannot read, and a format
that is not known here, refuse nothing; what a validator of the user's own refuses, no schema shows.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import AnyUrl, StringConstraints, TypeAdapter, ValidationError

from amqpkit.deliver.schemas.fit import Misfit
from amqpkit.deliver.schemas.nodes import Node, Schema, part, shown

_KNOWN: Final[Mapping[str, Any]] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$")],
    "uri": AnyUrl,
    "decimal": Decimal,
}
_FORMATS: Final[Mapping[str, TypeAdapter[Any]]] = {name: TypeAdapter(kind) for name, kind in _KNOWN.items()}


def faults(value: object, document: Node) -> tuple[Misfit, ...]:
    """Every place at which a value (as `json.loads` gives it) does not fit; none if it fits."""
    return tuple(_Check(Schema(document)).fit(value, document, "$"))


class _Check:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def fit(self, value: object, node: object, path: str) -> Iterator[Misfit]:
        whole = self._schema.resolved(node)
        for each in whole.get("allOf", ()):
            yield from self.fit(value, each, path)
        if "anyOf" in whole or "oneOf" in whole:
            tries = [list(self.fit(value, branch, path)) for branch in self._schema.branches(whole)]
            if all(tries):
                wanted = self._schema.described(whole)
                yield from tries[0] if len(tries) == 1 else [Misfit(path, f"is {shown(value)}, not {wanted}")]
            return
        if "not" in whole:
            yield Misfit(path, "nothing fits here")
        if not _is_one_of(value, whole):
            yield Misfit(path, f"is {shown(value)}, not {self._schema.described(whole)}")
            return
        for holds, reason in _limits(value, whole):
            if not holds:
                yield Misfit(path, reason)
        if isinstance(value, dict):
            yield from self._object(value, whole, path)
        if isinstance(value, list):
            yield from self._array(value, whole, path)

    def _object(self, value: dict[str, object], whole: Node, path: str) -> Iterator[Misfit]:
        for name in whole.get("required", ()):
            if name not in value:
                yield Misfit(f"{path}.{name}", "is missing")
        named, patterns = part(whole, "properties"), part(whole, "patternProperties")
        for name, each in value.items():
            nodes = [named[name]] if name in named else []
            nodes += [node for pattern, node in patterns.items() if _matches(pattern, name)]
            if not nodes:
                nodes = [whole.get("additionalProperties", True)]
            if "propertyNames" in whole:
                yield from self.fit(name, whole["propertyNames"], f"{path}.{name}")
            for node in nodes:
                if node is False:
                    yield Misfit(f"{path}.{name}", "is not a field of this schema")
                else:
                    yield from self.fit(each, node, f"{path}.{name}")

    def _array(self, value: list[object], whole: Node, path: str) -> Iterator[Misfit]:
        first = whole.get("prefixItems", [])
        for at, each in enumerate(value):
            node = first[at] if at < len(first) else whole.get("items", True)
            yield from self.fit(each, node, f"{path}[{at}]")


_KINDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
}


def _any(_value: object) -> bool:
    return True


def _is_one_of(value: object, whole: Node) -> bool:
    if "const" in whole:
        return _same(value, whole["const"])
    if "enum" in whole:
        return any(_same(value, each) for each in whole["enum"])
    kinds = whole.get("type")
    if kinds is None:
        return True
    return any(_KINDS.get(kind, _any)(value) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _limits(value: object, whole: Node) -> Iterator[tuple[bool, str]]:
    """Each limit that the node sets to such a value: whether it holds, and what to say if not."""
    size: int | float | None = None
    names: tuple[str, str] = ("", "")
    match value:
        case str():
            size, names = len(value), ("minLength", "maxLength")
            if "pattern" in whole:
                yield _matches(whole["pattern"], value), f"is {shown(value)}, which does not match {whole['pattern']}"
            if "format" in whole:
                yield _has_format(whole["format"], value), f"is {shown(value)}, which is no {whole['format']}"
        case list():
            size, names = len(value), ("minItems", "maxItems")
            if whole.get("uniqueItems"):
                yield len({shown(each) for each in value}) == len(value), "has an item twice"
        case dict():
            size, names = len(value), ("minProperties", "maxProperties")
        case int() | float() if not isinstance(value, bool):
            size, names = value, ("minimum", "maximum")
            yield value > whole.get("exclusiveMinimum", float("-inf")), f"is {value}, not more than the limit"
            yield value < whole.get("exclusiveMaximum", float("inf")), f"is {value}, not less than the limit"
            step = whole.get("multipleOf")
            yield not step or Decimal(str(value)) % Decimal(str(step)) == 0, f"is {value}, no multiple of {step}"
        case _:
            pass
    if size is not None:
        least, most = whole.get(names[0]), whole.get(names[1])
        yield least is None or size >= least, f"is {shown(value)}: {names[0]} is {least}"
        yield most is None or size <= most, f"is {shown(value)}: {names[1]} is {most}"


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # pydantic's patterns are Rust's
        return True


def _has_format(name: str, text: str) -> bool:
    adapter = _FORMATS.get(name)
    if adapter is None:
        return True
    try:
        adapter.validate_json(json.dumps(text))
    except ValidationError:
        return False
    return True
