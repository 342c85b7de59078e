"""How a declared object is called, what identifies it, when two values are equal, what to do when they are not.

Pure; shared by every room that compares or reports declared objects.
"""

import shlex
from collections.abc import Mapping
from typing import Any, Final, assert_never

from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue

_SCALARS: Final = frozenset({str, int, bool, float})
_EMPTY: Final = ("table", frozenset[object]())


def address(declared: DeclaredObject) -> str:
    """Name an object by its kind and what identifies it: `binding mail -email.#-> queue email.send`."""
    match declared:
        case Queue(name=name):
            return f"queue {name}"
        case Exchange(name=name):
            return f"exchange {name}"
        case Policy(name=name):
            return f"policy {name}"
        case Binding():
            return f"binding {_arrow(declared)}"
        case _:
            assert_never(declared)


def identity(declared: DeclaredObject) -> tuple[object, ...]:
    """Give what makes an object that object: its name, or all that a binding has, arguments with their types too."""
    if isinstance(declared, Binding):
        ends = (declared.source, declared.destination_type, declared.destination)
        return (Binding, *ends, declared.routing_key, canonical(declared.arguments))
    return (type(declared), declared.name)


def canonical(value: Any) -> object:
    """Give a hashable form that is equal when RabbitMQ calls values equal.

    Python says `1 == True == 1.0`; to RabbitMQ the three, and "1", are different arguments (measured on headers
    bindings). Integers are equal whatever their width on the wire, and tables whatever their order.
    """
    kind = type(value)
    if kind in _SCALARS:
        return (kind, value)
    if isinstance(value, Mapping):
        if not value:
            return _EMPTY
        return ("table", frozenset((key, canonical(each)) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(canonical(each) for each in value))
    return (kind, value)


def way_out(declared: DeclaredObject) -> str:
    """Say what can be done about a property that RabbitMQ never changes on a live object."""
    if isinstance(declared, Exchange):
        return "it cannot be changed in place: change the file back, or declare the exchange under a new name"
    name = declared.name if isinstance(declared, Queue) else ""
    move = f"move its messages with `amqpkit migrate queue {shlex.quote(name)}`"
    return f"it cannot be changed in place: {move}, change the file back, or declare the queue under a new name"


def _arrow(binding: Binding) -> str:
    matching = ", ".join(f"{key}={value!r}" for key, value in sorted(binding.arguments.items()))
    label = " ".join(part for part in (binding.routing_key, f"[{matching}]" if matching else "") if part)
    arrow = f"-{label}->" if label else "->"
    return f"{binding.source} {arrow} {binding.destination_type} {binding.destination}"
