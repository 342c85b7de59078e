"""In what two objects of one name differ, once everything that RabbitMQ calls equal is equal. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from amqpkit.declare.identity import canonical
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue

_AGE: Final = re.compile(r"(\d+)([YMDhms])")
_SECONDS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One property and its two values, as they are shown."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after}"


def differences(found: DeclaredObject, wanted: DeclaredObject) -> tuple[Difference, ...]:
    """Name every property in which what is there differs from what is wanted; absent means RabbitMQ's default."""
    before, after = _properties(found), _properties(wanted)
    return tuple(_compared(before, after))


def _compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old is not new and _value(name, old) != _value(name, new):
            yield Difference(name, *_spelled_apart(old, new))


def _properties(declared: DeclaredObject) -> Mapping[str, Any]:
    """Give all that can differ between two objects of one identity, RabbitMQ's defaults filled in."""
    match declared:
        case Queue():
            return {
                "x-queue-type": declared.type,
                "durable": declared.durable,
                "auto_delete": declared.auto_delete,
                "exclusive": declared.exclusive,
                **declared.arguments,
            }
        case Exchange():
            return {
                "type": declared.type,
                "durable": declared.durable,
                "auto_delete": declared.auto_delete,
                "internal": declared.internal,
                **declared.arguments,
            }
        case Policy():
            # The definition's keys cannot collide with these three: RabbitMQ knows none of them as a setting.
            about = {"pattern": declared.pattern, "apply-to": declared.apply_to, "priority": declared.priority}
            return {**about, **declared.definition}
        case Binding():
            return {}  # all that a binding has is its identity
        case _:
            assert_never(declared)


def _value(name: str, value: Any) -> object:
    """Bring a property to the form in which it is compared."""
    if name in {"x-max-age", "max-age"} and isinstance(value, str) and (age := seconds_of_age(value)) is not None:
        # 4.3 calls 1h and 60m the same, 4.0 does not (measured); either way nothing needs to change.
        return age
    return canonical(value)


def seconds_of_age(value: str) -> int | None:
    """Read a `max-age` such as `7D`; None when it is not one."""
    age = _AGE.fullmatch(value)
    return int(age[1]) * _SECONDS[age[2]] if age else None


def _spelled_apart(one: Any, other: Any) -> tuple[str, str]:
    """Spell two different values differently: 1 and "1" would look alike without the quotes."""
    if _spelled(one) != _spelled(other):
        return _spelled(one), _spelled(other)
    return json.dumps(one, default=str), json.dumps(other, default=str)


def _spelled(value: Any) -> str:
    if value is _ABSENT:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, default=str)
