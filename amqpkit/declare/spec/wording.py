"""Pydantic's errors in the words of a topology file.

Pure.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from amqpkit.declare.spec.format import LEVELS_TAG, NONE_TAG, Spec, keys_of, spoken
from amqpkit.declare.spec.tree import Step

_KINDS: Final[Mapping[str, str]] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}


def where(loc: tuple[Step, ...]) -> str:
    """Write a location as people do: `work_queues.email.send.retry.delays[1]`."""
    text = ""
    for step in without_tags(loc):
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def without_tags(loc: tuple[Step, ...]) -> tuple[Step, ...]:
    """Drop the tags that pydantic puts into a location for a union's members."""
    return tuple(step for step in loc if step not in {NONE_TAG, LEVELS_TAG})


def worded(error: ErrorDetails, written: str) -> str:
    """Say what is wrong and what to write; `written` is the key as the file has it."""
    loc = without_tags(error["loc"])
    match error["type"]:
        case "extra_forbidden":
            inside = f" in {where(loc[:-1])}" if loc[1:] else ""
            return f'unknown key "{written}"{inside}{_advice(written, loc)}'
        case "missing":
            inside = where(loc[:-1]) or "the file"
            hint = "; write `version: 1`" if loc == ("version",) else ""
            return f'{inside} needs "{loc[-1]}"{hint}'
        case _:
            return f"{where(loc)}: {_value_fault(error)}"


def _value_fault(error: ErrorDetails) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "model_type" and error["loc"][-1] == LEVELS_TAG:
        return f"expected `none` or a mapping such as {{delays: [10s, 1m]}}, not {spoken(value)}"
    if kind in _KINDS:
        remedy = f'; write "{value}"' if kind == "string_type" and isinstance(value, int | float) else ""
        return f"expected {_KINDS[kind]}, not {spoken(value)}{remedy}"
    match kind:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return _literal_fault(value, str(context["expected"]))
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "less_than":
            return f"must be below {context['lt']:g}"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case _:
            return error["msg"]


def _literal_fault(value: Any, expected: str) -> str:
    choices = re.findall(r"'([^']*)'", expected) or [expected]
    close = get_close_matches(str(value), choices, n=1)
    remedy = f'did you mean "{close[0]}"?' if close else f"write {expected}"
    return f"{spoken(value)} is not known here; {remedy}"


def _advice(written: str, loc: tuple[Step, ...]) -> str:
    known = keys_at(loc)
    close = get_close_matches(written.replace("-", "_"), [key.replace("-", "_") for key in known], n=1)
    if close:
        nearest = next(key for key in known if key.replace("-", "_") == close[0])
        return f' (did you mean "{nearest}"?)'
    return f" (known: {', '.join(known)})"


def keys_at(loc: tuple[Step, ...]) -> tuple[str, ...]:
    """List the keys that the format knows beside the last step of `loc`."""
    model: type[BaseModel] = Spec
    named = False
    for step in loc[:-1]:
        if named or isinstance(step, int):
            named = False
            continue
        annotation = next(info.annotation for name, info in model.model_fields.items() if step in {name, info.alias})
        model = _model_within(annotation) or model
        named = get_origin(annotation) is dict
    return keys_of(model)


def _model_within(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_within, get_args(annotation))), None)
