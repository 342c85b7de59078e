"""What a queue obeys in the end: its arguments, weighed against the policies that reach it. Pure.

Which of the two wins differs by key and by queue type (measured on 4.0 and 4.3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.model import Policy, Queue

DEFAULT_DELIVERY_LIMIT: Final = 20
DEFAULT_CONSUMER_TIMEOUT: Final = 1_800_000
ARGUMENT: Final = "argument"
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
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and where it comes from: `argument`, or the policy's name."""

    value: Any
    source: str


def settings(queue: Queue, policy: Policy | None, operator: Policy | None = None) -> dict[str, Setting]:
    """Weigh a queue's arguments against its policy and the operator's, key by key; keys are without `x-`.

    A key that nobody sets is left out: then RabbitMQ's default holds.
    """
    given = {
        key.removeprefix("x-"): Setting(value, ARGUMENT)
        for key, value in queue.arguments.items()
        if key.startswith("x-") and key != "x-queue-type"
    }
    ruled = merged(policy, operator)
    return {key: _weighed(queue.type, key, given.get(key), ruled.get(key)) for key in sorted({*given, *ruled})}


def merged(policy: Policy | None, operator: Policy | None) -> dict[str, Setting]:
    """Lay the operator's policy over the other: the smaller of two numbers, else the operator's word."""
    found = _of(policy)
    for key, theirs in _of(operator).items():
        ours = found.get(key)
        if ours is not None and _is_number(theirs.value):
            # An unlimited delivery-limit loses here too (measured on 4.0 and 4.3).
            found[key] = _smaller_limit(ours, theirs) if key == "delivery-limit" else _smaller(ours, theirs)
        else:
            found[key] = theirs
    return found


def value_of(found: Mapping[str, Setting], key: str, default: Any = None) -> Any:
    """Give a setting's value, or the default."""
    setting = found.get(key)
    return default if setting is None else setting.value


def delivery_limit(queue: Queue, found: Mapping[str, Setting]) -> int | None:
    """Give how many returns a message survives; None is for ever (classic queues count none)."""
    if queue.type != "quorum":
        return None
    limit = value_of(found, "delivery-limit", DEFAULT_DELIVERY_LIMIT)
    return limit if isinstance(limit, int) and limit >= 0 else None


def overflow(queue: Queue, found: Mapping[str, Setting]) -> str:
    """Give what happens at the length limit; quorum queues take `reject-publish-dlx` and do `drop-head` (measured)."""
    word = str(value_of(found, "overflow", "drop-head"))
    return "drop-head" if queue.type == "quorum" and word == "reject-publish-dlx" else word


def _of(policy: Policy | None) -> dict[str, Setting]:
    return {} if policy is None else {key: Setting(value, policy.name) for key, value in policy.definition.items()}


def _weighed(kind: str, key: str, given: Setting | None, ruled: Setting | None) -> Setting:
    if given is None or ruled is None:
        return given or ruled or Setting(None, ARGUMENT)
    if kind == "stream":
        return ruled
    if key == "delivery-limit":
        return _smaller_limit(given, ruled)
    if key in _SMALLER:
        return _smaller(given, ruled)
    # The one word on which the two types disagree; and the switch of the delayed retry.
    return ruled if (key == "overflow" and kind == "quorum") or key == "delayed-retry-type" else given


def _smaller(one: Setting, other: Setting) -> Setting:
    if not _is_number(one.value) or not _is_number(other.value):
        return one
    return one if one.value <= other.value else other


def _smaller_limit(one: Setting, other: Setting) -> Setting:
    """Negative means unlimited and loses to any limit."""
    limited = [each for each in (one, other) if _is_number(each.value) and each.value >= 0]
    return min(limited, key=lambda each: each.value) if limited else one


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
