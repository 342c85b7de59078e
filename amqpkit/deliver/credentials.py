"""Which fields hold credentials, by their names and by their types; and how to show a document without them.

Pure: knows classes and values, no message.
"""

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

HIDDEN: Final = "**********"
DEPTH_MAX: Final = 100
"""Levels of a document that are shown."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TELLING: Final = frozenset(
    {
        ("password",),
        ("secret",),
        ("api", "key"),
        ("access", "token"),
        ("refresh", "token"),
        ("private", "key"),
        ("card", "number"),
        ("cvv",),
    }
)
_TELLING_TOO: Final = _TELLING | {("".join(words),) for words in _TELLING}
_KEEPERS: Final = (SecretStr, SecretBytes, Secret)


def is_telling(name: str) -> bool:
    """Whether a name says that its value is a credential: by whole words, in snake_case or camelCase, plural too."""
    words = [word.lower() for word in _WORDS.findall(name)]
    for at in range(len(words)):
        for phrase in (words[at : at + 1], words[at : at + 2]):
            if {tuple(phrase), (*phrase[:-1], phrase[-1].removesuffix("s"))} & _TELLING_TOO:
                return True
    return False


class Hidden:
    """What is shown in a credential's place."""

    def __repr__(self) -> str:
        return HIDDEN


def redacted(document: object, depth: int = 0) -> object:
    """Copy a JSON document with every value under a telling name hidden, and what is nested too deeply left out."""
    if depth > DEPTH_MAX:
        return "…"
    match document:
        case Mapping():
            return {
                name: HIDDEN if is_telling(str(name)) else redacted(value, depth + 1)
                for name, value in document.items()
            }
        case list() | tuple():
            return [redacted(value, depth + 1) for value in document]
        case _:
            return document


# --- in classes ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Find:
    """One credential: its path from the payload, and whether its type keeps it out of print."""

    path: str
    kept: bool


def credentials_of(cls: type[BaseModel]) -> tuple[Find, ...]:
    """Every field of a model that is a credential by name or by type, however deep its model is nested."""
    return tuple(_in_class(cls, "", frozenset()))


def _in_class(cls: type, prefix: str, seen: frozenset[type]) -> Iterator[Find]:
    if cls in seen:
        return  # a tree: its fields were looked at one level up
    for name, also, annotation in _fields(cls):
        path = f"{prefix}{name}"
        kept = any(isinstance(part, type) and issubclass(part, _KEEPERS) for part in _parts(annotation))
        if kept or any(map(is_telling, (name, *also))):
            yield Find(path, kept)
            continue
        for part in _parts(annotation):
            if isinstance(part, type):
                yield from _in_class(part, f"{path}.", seen | {cls})


def _fields(cls: type) -> Iterator[tuple[str, tuple[str, ...], object]]:
    """Name, other names and annotation of each field of whatever pydantic takes for a model."""
    if issubclass(cls, BaseModel):
        for name, field in cls.model_fields.items():
            yield name, tuple(_aliases(field)), field.annotation
        for name, computed in cls.model_computed_fields.items():
            yield name, (computed.alias,) if computed.alias else (), computed.return_type
    elif dataclasses.is_dataclass(cls) or hasattr(cls, "__total__") or hasattr(cls, "_fields"):  # TypedDict, NamedTuple
        for name, annotation in _hints(cls).items():
            yield name, (), annotation


def _hints(cls: type) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation that Python cannot resolve is still a name
        return dict(getattr(cls, "__annotations__", {}))


def _aliases(field: FieldInfo) -> Iterator[str]:
    for alias in (field.alias, field.serialization_alias, field.validation_alias):
        if isinstance(alias, str):
            yield alias
        elif alias is not None:
            for choice in getattr(alias, "choices", [alias]):
                path = getattr(choice, "path", [choice])
                yield from (step for step in path if isinstance(step, str))


def _parts(annotation: object) -> Iterator[object]:
    """The annotation and everything it is made of: of `dict[str, A | None]` also `A`."""
    stack, seen = [annotation], dict[int, object]()  # kept alive, or another would get its number
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        if (meant := getattr(part, "__value__", None)) is not None:  # `type X = …`
            stack.append(meant)
        stack.extend(typing.get_args(part))
        if (origin := typing.get_origin(part)) is not None:
            stack.append(origin)


# --- in payloads -------------------------------------------------------------------------------------


def reveal(json: Any, kept: Any) -> Any:
    """Put the real values into a JSON dump in which secrets are masked; `kept` is the Python dump of the same model.

    Raises ValueError when the two have not the same shape around a secret: a mask must never be sent for a value.
    """
    match kept:
        case SecretStr() | SecretBytes() | Secret():
            return _plain(kept.get_secret_value())
        case Mapping() if isinstance(json, Mapping) and len(json) == len(kept):
            return {name: reveal(json[name], value) for name, value in zip(json, kept.values(), strict=True)}
        case str() | bytes():
            return json
        case Sequence() | AbstractSet() if isinstance(json, list) and len(json) == len(kept):
            return [reveal(shown, value) for shown, value in zip(json, kept, strict=True)]
        case _ if _holds_secret(kept):
            msg = "a serializer changes the shape of what holds a secret, so its value cannot be written"
            raise ValueError(msg)
        case _:
            return json


def _plain(value: object) -> object:
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - only for the few payloads with secrets

    return to_jsonable_python(value)


def _holds_secret(value: object) -> bool:
    match value:
        case SecretStr() | SecretBytes() | Secret():
            return True
        case Mapping():
            return any(map(_holds_secret, value.values()))
        case Sequence() | AbstractSet() if not isinstance(value, str | bytes):
            return any(map(_holds_secret, value))
        case _:
            return False
