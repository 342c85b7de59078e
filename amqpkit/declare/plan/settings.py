"""What rules a queue in the end: its arguments, one policy, one operator policy. Pure.

Which side wins is RabbitMQ's, key by key, as measured on 4.0 and 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.model import Policy, Queue

_SMALLER: Final = frozenset(
    {
        "message-ttl",
        "expires",
        "max-length",
        "max-length-bytes",
        "consumer-timeout",
        "consumer-disconnected-timeout",
        "delayed-retry-min",
        "delayed-retry-max",
        "delivery-limit",
    }
)
_ARGUMENT_WINS: Final = frozenset({"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a queue obeys, and where it comes from."""

    value: Any
    source: str


def settings(queue: Queue, policy: Policy | None, operator: Policy | None = None) -> Mapping[str, Setting]:
    """Weigh a queue's arguments, its policy and its operator policy, by key without `x-`."""
    found: dict[str, Setting] = {}
    for argument, value in queue.arguments.items():
        if argument.startswith("x-") and argument != "x-queue-type":
            found[argument.removeprefix("x-")] = Setting(value, "argument")
    for key, value in policy.definition.items() if policy else ():
        there = found.get(key)
        if there is None or _policy_wins(key, value, there.value, queue.type):
            found[key] = Setting(value, f'policy "{policy.name}"' if policy else "")
    for key, value in operator.definition.items() if operator else ():
        there = found.get(key)
        if there is None or key not in _SMALLER or _lower(key, value, there.value):
            found[key] = Setting(value, f'operator policy "{operator.name}"' if operator else "")
    return found


def value_of(effective: Mapping[str, Setting], key: str) -> Any:
    """Give a setting's value, None when it is not set."""
    setting = effective.get(key)
    return None if setting is None else setting.value


def _policy_wins(key: str, ruled: Any, given: Any, kind: str) -> bool:
    if kind == "stream":
        return True
    if key in _SMALLER:
        return _lower(key, ruled, given)
    if key == "overflow":
        return kind == "quorum"  # the one word on which the two types disagree
    return key not in _ARGUMENT_WINS


def _lower(key: str, one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int) or not isinstance(other, int):
        return False
    if key == "delivery-limit" and (one < 0 or other < 0):
        return other < 0 <= one  # negative is unlimited, and loses to any limit
    return one < other
