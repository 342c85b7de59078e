"""The JSON Schema of one version of a payload, as it is kept in a file.

Pure. Beside what pydantic says it holds what pydantic leaves out and a comparison must know: a decimal in a string
is not any string, a dictionary's keys may be numbers, and some limits have no word in JSON Schema (`x-limits`).
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from amqpkit.deliver.payload import Payload

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ABOUT: Final = "x-amqpkit"

_UNSAID: Final[Mapping[str, frozenset[str]]] = {
    "str": frozenset({"strip_whitespace", "to_lower", "to_upper"}),
    "url": frozenset({"allowed_schemes", "host_required"}),
    "multi-host-url": frozenset({"allowed_schemes", "host_required"}),
    "decimal": frozenset({"max_digits", "decimal_places"}),
    "uuid": frozenset({"version"}),
    **dict.fromkeys(("date", "time", "datetime", "timedelta"), frozenset({"le", "ge", "lt", "gt", "now_op"})),
    **dict.fromkeys(("datetime-aware", "datetime"), frozenset({"le", "ge", "lt", "gt", "now_op", "tz_constraint"})),
}


class Generator(GenerateJsonSchema):
    """Pydantic's generator, saying more."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Add the limits that JSON Schema has no word for."""
        generated = super().generate_inner(schema)
        unsaid = _UNSAID.get(schema["type"], frozenset()) & schema.keys()
        limits = {name: str(schema[name]) for name in sorted(unsaid) if schema[name] is not None}
        return {**generated, "x-limits": limits} if limits else generated

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Tell a decimal from a float and from a text."""
        generated = super().decimal_schema(schema)
        branches = generated.get("anyOf", [generated])
        return {**generated, "anyOf": [{**branch, "format": "decimal"} for branch in branches]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Tell what the keys are when they are not texts."""
        generated = super().dict_schema(schema)
        keys = schema.get("keys_schema", {"type": "str"})["type"]
        if keys in ("int", "float", "decimal", "bool", "date", "datetime", "uuid") and "propertyNames" not in generated:
            generated["propertyNames"] = {"format": keys, "type": "string"}
        return generated


def schema_document(cls: type[Payload]) -> dict[str, Any]:
    """Give the schema of what a version's messages may hold, the same however often it is asked for."""
    schema = cls.model_json_schema(by_alias=True, mode="validation", schema_generator=Generator)
    about = {"type": cls.payload_type, "version": cls.payload_version}
    # not the class's name: today's EmailSend is tomorrow's EmailSendV1, and nothing has changed
    return {"$schema": DIALECT, ABOUT: about, **_sorted(schema), "title": cls.payload_type}


def file_name(type: str, version: int) -> str:  # noqa: A002 - AMQP's word
    """Name the file of a version: `email.send.v2.json`."""
    return f"{quote(type, safe='')}.v{version}.json"


def text_of(document: Mapping[str, Any]) -> str:
    """Write a document so that equal ones are equal bytes."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _sorted(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: sorted(part) if key == "required" and isinstance(part, list) else _sorted(part)
                for key, part in value.items()
            }
        case list():
            return [_sorted(part) for part in value]
        case _:
            return value
