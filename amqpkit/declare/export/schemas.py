"""A JSON Schema of 2020-12 as AsyncAPI's Schema Object, which is a superset of draft 7. Pure.

Definitions within a schema become schemas of their own: a reference inside an AsyncAPI document starts at its root.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

_DEFS: Final = "#/$defs/"
_OF_NAMES: Final = frozenset({"properties", "patternProperties"})
_LITERAL: Final = frozenset({"const", "enum", "default", "examples", "required"})
_DROPPED: Final = frozenset({"$schema", "$defs", "$id"})


def adapted(schema: Mapping[str, Any], key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the schema, and those that it had within itself by their keys, all of which begin with `key`."""
    inner = {_inner_key(key, name): _schema(each, key) for name, each in schema.get("$defs", {}).items()}
    return _schema(schema, key), inner


def _inner_key(key: str, name: str) -> str:
    return f"{key}.{re.sub(r'[^A-Za-z0-9._-]', '_', name)}"


def _schema(schema: Any, key: str) -> Any:
    if isinstance(schema, list):
        return [_schema(each, key) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _DROPPED:
            continue
        if word in _OF_NAMES:
            made[word] = {name: _schema(each, key) for name, each in value.items()}
        elif word == "$ref" and str(value).startswith(_DEFS):
            made[word] = f"#/components/schemas/{_inner_key(key, _name(value))}"
        elif word == "discriminator" and isinstance(value, Mapping):
            made[word] = value["propertyName"]  # AsyncAPI has the name alone
        elif word in _LITERAL or word.startswith("x-"):
            made[word] = value
        else:
            made[word] = _schema(value, key)
    return _tuple_of_draft_7(made)


def _name(reference: str) -> str:
    return unquote(reference.removeprefix(_DEFS)).replace("~1", "/").replace("~0", "~")


def _tuple_of_draft_7(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a tuple as draft 7 does: there `items` are the first ones, and `additionalItems` the rest."""
    first = schema.pop("prefixItems", None)
    if first is not None:
        if "items" in schema:
            schema["additionalItems"] = schema.pop("items")
        schema["items"] = first
    return schema
