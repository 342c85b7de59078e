"""What RabbitMQ's own arguments and policy keys hold, as far as a file may write it in another way.

Pure. Whether an argument suits a queue's type is a question for lint and plan, not for this module.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from amqpkit.units import parse_duration, parse_size

_MILLISECONDS: Final = {
    "message-ttl",
    "expires",
    "consumer-timeout",
    "consumer-disconnected-timeout",
    "delayed-retry-min",
    "delayed-retry-max",
}
_BYTES: Final = {"max-length-bytes", "stream-max-segment-size-bytes", "stream-filter-size-bytes"}
_WHOLE: Final = {
    "max-length",
    "max-priority",
    "delivery-limit",
    "quorum-initial-group-size",
    "initial-cluster-size",
    "target-group-size",
}
_PARSERS: Final[Mapping[str, Callable[[str], int]]] = {
    **dict.fromkeys(_MILLISECONDS, parse_duration),
    **dict.fromkeys(_BYTES, parse_size),
}
_PROPERTIES: Final = {"durable", "exclusive", "auto_delete", "auto-delete", "type", "passive"}


def on_the_wire(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turn durations and sizes under RabbitMQ's own keys into its milliseconds and bytes; the rest stays.

    So does what cannot be read: `faults` tells of it.
    """
    return {key: _converted_if_sound(key, value) for key, value in arguments.items()}


def faults(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (argument, message) for each value of a type that the broker would refuse or never match."""
    for key, value in arguments.items():
        if key in _PROPERTIES:
            yield key, f'"{key}" is a property, not an argument: the broker would take it and ignore it'
        try:
            wire = _converted(key, value)
        except ValueError as error:
            yield key, str(error)
            continue
        name = key.removeprefix("x-")
        if (name in _WHOLE or name in _PARSERS) and (isinstance(wire, bool) or not isinstance(wire, int)):
            yield key, f"RabbitMQ wants a whole number here, without quotes, not {wire!r}"


def _converted_if_sound(key: str, value: Any) -> Any:
    try:
        return _converted(key, value)
    except ValueError:
        return value


def _converted(key: str, value: Any) -> Any:
    parse = _PARSERS.get(key.removeprefix("x-"))
    quoted_number = isinstance(value, str) and value.strip().isdigit()  # for the caller to refuse
    return parse(value) if parse and isinstance(value, str) and not quoted_number else value
