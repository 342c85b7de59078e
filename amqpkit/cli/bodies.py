"""What the command line is given to publish, checked before anything connects."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from amqpkit.cli.lockfiles import read_lock
from amqpkit.cli.modules import find_payloads
from amqpkit.deliver.evolution import business_key
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.schemas.lock import versions
from amqpkit.deliver.schemas.values import faults
from amqpkit.errors import AmqpkitError

SHOWN = 3
"""Faults that are told of one body: enough to act on."""


@dataclass(frozen=True, slots=True)
class Body:
    """A valid body: its bytes, its fields for the routing key, and its business key if a class says which."""

    content: bytes
    fields: dict[str, Any]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Checker:
    """What bodies are checked against; `by` says it in a sentence, `version` is what the messages will say."""

    version: int
    by: str
    fit: Callable[[str, Any], str | None]
    """Raises AmqpkitError for a text (and what it decodes to) that does not fit; gives the business key."""

    def body(self, text: str) -> Body:
        """Check one text; raises AmqpkitError saying where and why."""
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            msg = "the body is not UTF-8"
            raise AmqpkitError(msg) from error
        document = decoded(text)
        key = self.fit(text, document)
        return Body(content, document if isinstance(document, dict) else {}, key)


def checker_of(type: str, version: int | None, *, modules: tuple[str, ...], lock: Path) -> Checker:  # noqa: A002 - AMQP's word
    """Choose: the class in `modules`, else the locked schema, else that it is JSON; raises AmqpkitError."""
    if modules:
        return _by_class(type, version, modules)
    locked = {number: schema for (name, number), schema in read_lock(lock).items() if name == type}
    number = version or max(locked, default=1)
    if number in locked:
        document = locked[number]
        return Checker(
            number,
            f"checked against the schema of version {number} in {lock}",
            lambda _text, value: _by_schema(value, document),
        )
    return Checker(
        number,
        "checked only that the body is JSON: name its class with --payloads MODULE, or lock its schema",
        _anything,
    )


def _by_class(type: str, version: int | None, modules: tuple[str, ...]) -> Checker:  # noqa: A002 - AMQP's word
    found = versions(cls for module in modules for cls in find_payloads(module))
    numbers = [number for name, number in found if name == type]
    number = version or max(numbers, default=0)
    if number not in numbers:
        known = ", ".join(map(str, sorted(numbers))) or ", ".join(sorted({name for name, _ in found}))
        what = f'version {version} of "{type}"' if numbers else f'type "{type}"'
        msg = f"{', '.join(modules)} has no {what}; there is {known}"
        raise AmqpkitError(msg)
    cls = found[type, number]

    def fit(text: str, _value: object) -> str | None:
        return business_key(_made(cls, text))

    return Checker(number, f"checked against {cls.__name__} of {cls.__module__}", fit)


def _made(cls: type[Payload], text: str) -> Payload:
    try:
        return cls.model_validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise AmqpkitError(_told([(".".join(map(str, each["loc"])), each["msg"]) for each in found])) from error


def _by_schema(value: object, document: Any) -> None:
    if found := faults(value, document):
        raise AmqpkitError(_told([(each.path, each.reason) for each in found]))


def _anything(_text: str, _value: object) -> None:
    """Let it pass."""


def _told(found: list[tuple[str, str]]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(f"{place}: {reason}" if place else reason for place, reason in found[:SHOWN]) + more


def text_of(body: str) -> str:
    """Give the text that is meant: `-` is standard input, `@path` a file; raises AmqpkitError."""
    try:
        if body == "-":
            return sys.stdin.read()
        return Path(body[1:]).read_text(encoding="utf-8") if body.startswith("@") else body
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the body cannot be read: {error}"
        raise AmqpkitError(msg) from error


def decoded(text: str) -> Any:
    """Decode strict JSON; raises AmqpkitError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        msg = f"the body is not JSON: {error}"
        raise AmqpkitError(msg) from error
    except RecursionError as error:
        msg = "the body is not JSON that anybody could read: it is nested too deep"
        raise AmqpkitError(msg) from error


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
