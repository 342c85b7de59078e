"""Numbers that a parser would round without a word: beyond 2**53, in a field that is no longer whole or exact.

Pure. JSON has numbers of any size and Python has whole numbers of any size, but what passes through a float on the
way (`9007199254740993.0` in an `int` field, `9007199254740993` in a `float` field) comes out as another number.
Only texts with sixteen digits in a row are looked at: `123456789012345e3` in an `int` field is not worth it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

EXACT_MAX: Final = 2**53
"""Every whole number up to here is a float too."""

_DIGITS: Final = bytes.maketrans(b"123456789.", b"0000000000")
_LONG: Final = b"0" * 16


@dataclass(slots=True)
class _Literals:
    """The numbers of a text beyond 2**53."""

    exact: set[Decimal] = field(default_factory=set)
    inexact: set[float] = field(default_factory=set)
    """What becomes of those that no float is equal to."""
    lost: set[float] = field(default_factory=set)
    """What becomes of those that no float is even written as: 35892188046993030 is a float's own way to be written."""

    def note(self, digits: str) -> None:
        """Called for each number of the text."""
        value = Decimal(digits)
        if value.copy_abs() <= EXACT_MAX:
            return
        self.exact.add(value)
        near = float(value)
        if Decimal(near) == value:
            return
        self.inexact.add(near)
        if Decimal(repr(near)) != value:
            self.lost.add(near)


def rounded_in(text: bytes, payload: BaseModel) -> bool:
    """Whether a number of the text is another one in the payload that was made of it."""
    if _LONG not in text.translate(_DIGITS):
        return False
    found = _Literals()
    try:
        json.loads(text, parse_int=found.note, parse_float=found.note)
    except (ValueError, ArithmeticError, RecursionError):
        return False  # pydantic has read it all the same: what Python cannot read is no part of the payload
    return bool(found.inexact) and _holds(payload.model_dump(), found)


def _holds(value: Any, found: _Literals) -> bool:
    match value:
        case bool():
            return False
        case float():
            return value in found.lost
        case int():
            return value in found.inexact and value not in found.exact
        case Decimal():
            return value not in found.exact and float(value) in found.inexact
        case Mapping():
            return any(_holds(each, found) for each in value.values())
        case list() | tuple() | set() | frozenset():
            return any(_holds(each, found) for each in value)
        case _:
            return False
