"""How a payload class follows the version before it, which business key it has, and the walk from old to new.

Pure. What is wrong with a class is a ConsumerError when it is defined, not a dead letter later.
"""

import inspect
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amqpkit.deliver.credentials import is_telling
from amqpkit.deliver.headers import text_of
from amqpkit.errors import ConsumerError, PublishError

if TYPE_CHECKING:
    from amqpkit.deliver.payload import Payload

KEY_MAX: Final = 1024
"""Characters of a business key; stores index it."""


# --- versions --------------------------------------------------------------------------------------


def version_of(name: str, version: object, previous: "type[Payload] | None") -> int:
    """The version that a class has by what it says, else by the one before it; raises ConsumerError."""
    if previous is not None and not hasattr(previous, "payload_versions"):
        msg = f"the previous of {name} is {previous!r}; name the Payload class of the version before"
        raise ConsumerError(msg)
    if version is None:
        return previous.payload_version + 1 if previous else 1
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**63:
        msg = f"the version of {name} is {version!r}; write a whole number from 1"
        raise ConsumerError(msg)
    return version


def check_previous(cls: "type[Payload]", previous: "type[Payload]", *, gap: bool) -> None:
    """Raise ConsumerError unless `previous` is an earlier version of the same type that leads to `cls`."""
    name, older = cls.__name__, previous.__name__
    if previous.payload_type != cls.payload_type:
        msg = f'{name} has type "{cls.payload_type}", but its previous {older} has "{previous.payload_type}"'
        raise ConsumerError(msg)
    if previous.payload_version >= cls.payload_version:
        msg = f"{name} has version {cls.payload_version}, its previous {older} {previous.payload_version}: not lower"
        raise ConsumerError(msg)
    upgrade = getattr(previous, "upgrade", None)
    if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
        msg = f"{older} needs a plain method upgrade(self) that returns a {name}"
        raise ConsumerError(msg)
    if not gap and previous.payload_version + 1 != cls.payload_version:
        msg = (
            f"{name} has version {cls.payload_version} and its previous {older} {previous.payload_version}: if there "
            "never was one between them, say gap=True"
        )
        raise ConsumerError(msg)


def known_versions(cls: "type[Payload]") -> str:
    """The versions that a class can read, as a person writes them: `1-3` or `1, 4`."""
    versions = sorted(cls.payload_versions)
    if len(versions) > 1 and versions[-1] - versions[0] == len(versions) - 1:
        return f"{versions[0]}-{versions[-1]}"
    return ", ".join(map(str, versions))


class UpgradeError(Exception):
    """A payload could not be taken to the next version; its text names the step."""


def upgraded(payload: "Payload", newest: "type[Payload]") -> "Payload":
    """Walk a payload up the chain to the newest version; raises UpgradeError naming the step that failed."""
    steps = sorted(version for version in newest.payload_versions if version > payload.payload_version)
    for version in steps:
        target = newest.payload_versions[version]
        step = f'the upgrade of "{newest.payload_type}" from version {payload.payload_version} to {version}'
        try:
            result = payload.upgrade()  # type: ignore[attr-defined] # checked when the class was defined
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            msg = f"{step} failed: {type(error).__name__}: {text_of(error)}"[:500]
            raise UpgradeError(msg) from error
        if not isinstance(result, target):
            if inspect.iscoroutine(result):
                result.close()
            msg = f"{step} gave a {type(result).__name__}, not a {target.__name__}"
            raise UpgradeError(msg)
        payload = result
    return payload


# --- business keys ---------------------------------------------------------------------------------


def check_key(cls: "type[Payload]") -> None:
    """Raise ConsumerError unless the class's key is made of its fields, can differ, and gives no secret away."""
    name, template = cls.__name__, cls.payload_key
    if template is None:
        return
    if not isinstance(template, str):
        msg = f'the key of {name} is {template!r}; write it as "{{field}}:{{field}}"'
        raise ConsumerError(msg)
    parts = _parts_of(name, template)
    fields = [field for _, field in parts if field is not None]
    if not fields:
        msg = f'the key "{template}" of {name} has no {{field}}: all its messages would be one'
        raise ConsumerError(msg)
    for (literal, field), (_, before) in zip(parts[1:], parts, strict=False):
        if not literal and field is not None and before is not None:
            msg = f'the key "{template}" of {name} needs something between {{{before}}} and {{{field}}}'
            raise ConsumerError(msg)
    if missing := [field for field in fields if field not in cls.model_fields]:
        msg = f'the key "{template}" of {name} names {", ".join(missing)}; its fields are {", ".join(cls.model_fields)}'
        raise ConsumerError(msg)
    if hidden := [field for field in fields if field in cls.payload_hidden or is_telling(field)]:
        msg = f'the key "{template}" of {name} would write {", ".join(hidden)} into a header that everybody can read'
        raise ConsumerError(msg)


def business_key(payload: "Payload") -> str | None:
    """Fill the class's key from the payload; raises PublishError when a field has nothing to say.

    What could be taken for the text between two fields is escaped as `%3A`, so that no two payloads share a key
    unless all of its fields are equal.
    """
    template = payload.payload_key
    if template is None:
        return None
    values: Mapping[str, Any] = payload.model_dump(mode="json", by_alias=False)
    parts = _parts_of(type(payload).__name__, template)
    between = frozenset("%").union(*(literal for literal, _ in parts))
    key = "".join(literal + (_word(payload, field, values, between) if field else "") for literal, field in parts)
    if len(key) > KEY_MAX:
        msg = f'the key "{template}" of {type(payload).__name__} is over {KEY_MAX} characters here; pass a shorter key='
        raise PublishError(msg)
    return key


def _parts_of(name: str, template: str) -> list[tuple[str, str | None]]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        msg = f'the key "{template}" of {name} cannot be read: {error}'
        raise ConsumerError(msg) from error
    for _, field, form, conversion in parts:
        if field is not None and (not field.isidentifier() or form or conversion):
            msg = f'the key "{template}" of {name} may hold plain {{field}} names only'
            raise ConsumerError(msg)
    return [(literal, field) for literal, field, _, _ in parts]


def _word(payload: "Payload", field: str, values: Mapping[str, Any], between: frozenset[str]) -> str:
    value = values.get(field)
    if value is None or value == "" or isinstance(value, list | dict):
        msg = f'the key "{payload.payload_key}" of {type(payload).__name__} needs a {field}, and this one has none'
        raise PublishError(msg)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(f"%{ord(letter):02X}" if letter in between else letter for letter in text)
