"""Finding a user's consumers by `MODULE[:NAME]`, and the payloads of a module."""

import importlib
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.payload import Payload
from amqpkit.errors import ConsumerError


def find_consumers(target: str) -> tuple[Consumer[Any], ...]:
    """Import the module, from the current folder too, and make its consumers; raises ConsumerError saying what to do.

    An error inside the user's module keeps its own traceback.
    """
    name, _, attribute = target.partition(":")
    module = _import(name)
    if attribute:
        return _consumers(_look_up(module, attribute), target)
    classes = [value for value in vars(module).values() if _is_consumer(value) and value.__module__ == name]
    if not classes:
        msg = f"module {name} defines no Consumer class; name what to run: {name}:NAME"
        raise ConsumerError(msg)
    return _consumers(classes, target)


def find_payloads(name: str) -> tuple[type[Payload], ...]:
    """Import the module and give the payloads that it defines or whose consumers it defines; raises ConsumerError."""
    module = _import(name)
    found: list[type[Payload]] = []
    for value in vars(module).values():
        if not inspect.isclass(value) or value.__module__ != name:
            continue
        if issubclass(value, Payload) and value is not Payload:
            found.append(value)
        elif issubclass(value, Consumer):
            found.extend(value.payloads)
    if not found:
        msg = f"module {name} defines no Payload and no Consumer"
        raise ConsumerError(msg)
    return tuple(dict.fromkeys(found))


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there; something that it needs is not
        msg = f"there is no module {name!r} in {here} or among the installed packages"
        raise ConsumerError(msg) from error
    except (ValueError, TypeError) as error:
        msg = f"{name!r} is not the name of a module; write it as in an import: package.module"
        raise ConsumerError(msg) from error


def _look_up(module: ModuleType, attribute: str) -> object:
    value: object = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            msg = f"module {module.__name__} has no {attribute}"
            raise ConsumerError(msg) from error
    return value


def _is_consumer(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Consumer) and value is not Consumer


def _consumers(value: object, target: str) -> tuple[Consumer[Any], ...]:
    if isinstance(value, Consumer):
        return (value,)
    if inspect.isclass(value) and issubclass(value, Consumer):
        return (_make(value),)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(consumer for each in value for consumer in _consumers(each, target))
    if callable(value) and not inspect.isclass(value):
        return _consumers(value(), target)
    msg = f"{target} is {value!r}: not a Consumer, a list of them, or a function that returns them"
    raise ConsumerError(msg)


def _make(cls: type[Consumer[Any]]) -> Consumer[Any]:
    parameters = inspect.signature(cls).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed:
        msg = (
            f"{cls.__name__} needs {', '.join(needed)} to be made; write a function that returns the consumers and "
            f"name it: amqpkit run {cls.__module__}:FUNCTION"
        )
        raise ConsumerError(msg)
    return cls()
