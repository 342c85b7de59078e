"""A topology file's data as YAML that a person would write: one line for each binding and each table of arguments.

Pure. Whatever YAML 1.2, or 1.1, could take for something else than text is quoted.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*(?:/[A-Za-z0-9_.\-]+)*|[1-9][0-9]*(?:ms|s|m|h|d)")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BLOCK_DEPTH: Final = 2
"""Sections and the names in them are blocks; what stands below a name's keys is on one line."""


def to_text(document: Mapping[str, Any]) -> str:
    """Write a topology file's data; `amqpkit.declare.spec.parse` reads back the same."""
    return "".join(f"{line}\n" for line in _section(document))


def entry_text(name: str, entry: object) -> str:
    """Write one object as it will stand in its section."""
    return "\n".join(_lines(name, entry, 1))


def _section(document: Mapping[str, Any]) -> Iterator[str]:
    for number, (key, value) in enumerate(document.items()):
        if number:
            yield ""
        yield from _lines(key, value, 0)


def _lines(key: str, value: object, depth: int) -> Iterator[str]:
    front = f"{'  ' * depth}{scalar(key)}:"
    if isinstance(value, Mapping) and _is_block(value, depth):
        yield front
        for inner, each in value.items():
            yield from _lines(inner, each, depth + 1)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        yield front
        for each in value:
            yield f"{'  ' * (depth + 1)}- {_flow(each)}"
    else:
        yield f"{front} {_flow(value)}"


def _is_block(value: Mapping[str, object], depth: int) -> bool:
    """Give a section, and an object that has more than single words, lines of its own."""
    nested = any(isinstance(each, Mapping | list) for each in value.values())
    return bool(value) and (depth == 0 or (depth < _BLOCK_DEPTH and nested))


def _flow(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{scalar(key)}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flow(each) for each in value)}]"
    return scalar(value)


def scalar(value: object) -> str:
    """Write one scalar; text that is not plainly text is quoted, and `${` stays itself."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return _text(value.replace("${", "$${"))
        case _:
            return repr(value)


def comment(value: str) -> str:
    """Write text so that it stays on the line of a comment."""
    return value if value.isprintable() else _quoted(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _quoted(value)


def _quoted(value: str) -> str:
    return f'"{"".join(_SHORT.get(each) or _escaped(each) for each in value)}"'


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - YAML's three lengths
