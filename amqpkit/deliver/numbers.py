"""Numbers that a parser would round without a word: beyond 2**53, in a field that is no longer whole or exact.

Pure. JSON has numbers of any size and Python has whole numbers of any size, but what passes through a float on the
way (`9007199254740993.0` in an `int` field, `9007199254740993` in a `float` field) comes out as another number.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

EXACT_MAX: Final = 2**53
"""Every whole number up to here is a float too."""

_DIGITS: Final = bytes.maketrans(b"123456789.", b"0000000000")
_LONG: Final = b"0" * 16


def rounded_in(text: bytes, payload: BaseModel) -> bool:
    """Whether a number of the text is another one in the payload that was made of it."""
    if _LONG not in text.translate(_DIGITS):
        return False
    literals: set[Decimal] = set()
    rounded: set[float] = set()

    def note(digits: str) -> None:
        value = Decimal(digits)
        if value.copy_abs() > EXACT_MAX:
            literals.add(value)
            if Decimal(float(value)) != value:
                rounded.add(float(value))

    try:
        json.loads(text, parse_int=note, parse_float=note)
    except (ValueError, ArithmeticError, RecursionError):
        return False  # pydantic has read it all the same: what Python cannot read is no part of the payload
    return bool(rounded) and _holds(payload.model_dump(), rounded, literals)


def _holds(value: Any, rounded: set[float], literals: set[Decimal]) -> bool:
    match value:
        case bool():
            return False
        case int() | float():
            return value in rounded and value not in literals
        case Decimal():
            return value not in literals and float(value) in rounded
        case Mapping():
            return any(_holds(each, rounded, literals) for each in value.values())
        case list() | tuple() | set() | frozenset():
            return any(_holds(each, rounded, literals) for each in value)
        case _:
            return False
