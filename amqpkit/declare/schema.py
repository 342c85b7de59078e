"""The JSON Schema of topology files, for editors and checkers.

Pure. It accepts what `validate` accepts, and refuses what has the wrong shape; what concerns more than
one key only `validate` knows.
"""

import re
from typing import Any, Final

from amqpkit.declare.spec.format import Spec

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE: Final = {"description": "a value with ${VARIABLE}", "type": "string", "pattern": r"\$\{"}
_ABOUT: Final = {
    "accepts": "Payload types; the first is assumed for messages that name none. Default: the queue's name.",
    "AlertSpec.age": "An alert from this age of a dead letter on.",
    "alert": "When a person is wanted: status fails, and Prometheus fires.",
    "alternate-exchange": "Takes the messages that this exchange cannot route.",
    "apply-to": "What the pattern is for. Default: all.",
    "arguments": "RabbitMQ's own, under their full names, as x-message-ttl.",
    "attempts": "How often a handler is called before the message is dead.",
    "auto_delete": "RabbitMQ deletes it when its last user is gone. Default: false.",
    "bindings": "From which exchanges messages come, under which keys.",
    "concurrency": "Handlers at the same time. Default: prefetch.",
    "consume": "How a worker reads the queue.",
    "consumer-timeout": "The broker's visibility timeout: a message not acked by then is redelivered.",
    "dead_letter": "Whose the dead letters are, and what to do with them.",
    "definition": "RabbitMQ's policy keys, as max-length.",
    "delays": "Waits between attempts, none shorter than the one before. Default: 10s, 1m, 10m.",
    "delivery-limit": "Crashes of workers after which a message is dead. Default: 20.",
    "depth": "Publishers wait or fail while the queue holds more.",
    "durable": "Survives a restart of RabbitMQ. Default: true.",
    "MessageSpec.exchange": "Where it is published; the empty name is the default exchange.",
    "Spec.exchanges": "Exchanges, by name.",
    "factor": "Each delay is this many times the one before. Default: 4.",
    "first": "The first delay. Default: 10s.",
    "internal": "No client may publish to it. Default: false.",
    "jitter": "Spreads each delay over three queues, so that a burst does not come back as one.",
    "limits": "Back-pressure: above it publishers wait or fail.",
    "max": "No delay is longer. Default: 1d.",
    "max-length": "The broker refuses messages above it; at least twice limits.depth.",
    "max-length-bytes": "The broker refuses messages above it; as 1GiB.",
    "max_replays": "A letter that was replayed so often stays. Default: no limit.",
    "Spec.messages": "Where a payload type is published. Default: the one work queue that accepts it.",
    "AlertSpec.messages": "An alert from so many dead letters on.",
    "on-remove": "What stays on the broker when its lines are gone, as NAME: retain; also all that is under the name.",
    "owner": "The team whose letters these are; shown wherever they are.",
    "owns": "Prefixes: only these names and those under them may be pruned. Default: the names in the file.",
    "pattern": "A regular expression (PCRE) for names of queues and exchanges.",
    "Spec.policies": "RabbitMQ's policies as they are, by name.",
    "prefetch": "Messages that a worker holds. Default: 10.",
    "priority": "The highest that matches rules. Default: 0.",
    "Spec.queues": "Plain queues: what RabbitMQ has, nothing added.",
    "rate": "As 50/s or 600/m.",
    "replay": "What amqpkit dlq replay keeps to.",
    "retry": "How failures are repeated, or none.",
    "MessageSpec.routing_key": "May hold fields of the payload, as email.{template}.",
    "routing_key": "Of this binding; in a topic exchange a pattern. Default: empty.",
    "runbook": "The address of what to do about them.",
    "source": "The exchange that messages come from.",
    "timeout": "How long a handler may take.",
    "ExchangeSpec.type": "direct, topic, fanout, headers, or a plugin's x-type. Default: direct.",
    "QueueSpec.type": "quorum, classic or stream. Default: quorum.",
    "version": "The format: 1.",
    "vhost": "Must agree with the connection's; leave it out to use that one.",
    "work_queues": "A queue with its delay queues, its dead-letter exchange and its dead-letter queue.",
}


def file_schema() -> dict[str, Any]:
    """Give the schema (JSON Schema 2020-12) of a topology file.

    Keys are known in both spellings, `-` and `_`; an editor offers the canonical one.
    """
    schema = _adapted(Spec.model_json_schema(by_alias=True, mode="validation"))
    schema["$defs"]["Variable"] = dict(_VARIABLE)
    return {"$schema": _DIALECT, **schema, "title": "amqpkit topology"}


def _adapted(schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        schema = {**schema, **_properties(schema["title"], schema["properties"])}
    adapted = {key: _adapted_part(key, value) for key, value in schema.items() if key not in {"title", "discriminator"}}
    if adapted.get("type") == "object" and not adapted.get("required"):
        adapted["type"] = ["object", "null"]  # `email.send:` is as good as `email.send: {}`
    return _or_variable(adapted) if _is_scalar(adapted) else adapted


def _or_variable(schema: dict[str, Any]) -> dict[str, Any]:
    outside = {key: value for key, value in schema.items() if key in {"description", "default"}}
    inside = {key: value for key, value in schema.items() if key not in outside}
    return {**outside, "anyOf": [inside, {"$ref": "#/$defs/Variable"}]}


def _adapted_part(key: str, value: Any) -> Any:
    match key:
        case "properties" | "patternProperties" | "$defs":
            return {name: _adapted(part) for name, part in value.items()}
        case "anyOf" | "oneOf":
            return [_adapted(part) for part in value]
        case "items" | "additionalProperties" if isinstance(value, dict):
            return _adapted(value)
        case _:
            return value


def _is_scalar(schema: dict[str, Any]) -> bool:
    typed = schema.get("type") in ("integer", "number", "boolean")
    return typed or bool(schema.keys() & {"pattern", "enum", "const"})


def _properties(part: str, properties: dict[str, Any]) -> dict[str, Any]:
    described = {key: _described(part, key, value) for key, value in properties.items()}
    either = {_other_spellings(key): value for key, value in described.items() if re.search("[-_]", key)}
    return {"properties": described, **({"patternProperties": either} if either else {})}


def _other_spellings(key: str) -> str:
    return f"^(?!{key}$){re.sub('[-_]', '[-_]', key)}$"


def _described(part: str, key: str, schema: dict[str, Any]) -> dict[str, Any]:
    about = _ABOUT.get(f"{part}.{key}") or _ABOUT.get(key)
    kept = {word: value for word, value in schema.items() if word != "default" or not _is_noise(value)}
    return {**kept, "description": about} if about else kept


def _is_noise(default: Any) -> bool:
    """Tell a default that an editor would insert for nothing."""
    return default is None or default in ("", {}, [])
