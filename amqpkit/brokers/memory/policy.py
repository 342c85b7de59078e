"""What governs a queue in the end: its arguments and the one policy that reaches it. Pure."""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.brokers.memory.profile import NotModelled
from amqpkit.declare.policies import UNREAD, matches, readable
from amqpkit.model import Policy, Queue

DEFAULT_DELIVERY_LIMIT: Final = 20
DEFAULT_CONSUMER_TIMEOUT: Final = 1_800_000
_BOTH: Final = frozenset({"classic", "quorum"})
_QUORUM: Final = frozenset({"quorum"})
_EXCHANGE: Final = frozenset({"exchange"})

# Policy key -> what it may govern. A policy with one key that a queue's type lacks skips that queue entirely.
_MODELLED: Final[Mapping[str, frozenset[str]]] = {
    "message-ttl": _BOTH,
    "max-length": _BOTH,
    "max-length-bytes": _BOTH,
    "overflow": _BOTH,
    "dead-letter-exchange": _BOTH,
    "dead-letter-routing-key": _BOTH,
    "dead-letter-strategy": _QUORUM,
    "delivery-limit": _QUORUM,
    # On classic queues it has no effect from 4.3 on, and disables nothing (measured).
    "consumer-timeout": _BOTH,
    "alternate-exchange": _EXCHANGE,
}
_UNMODELLED: Final = frozenset(
    {
        "consumer-disconnected-timeout",
        "expires",
        "federation-upstream",
        "federation-upstream-set",
        "max-age",
        "queue-leader-locator",
        "queue-version",
        "stream-max-segment-size-bytes",
        "target-group-size",
    }
)
_DELAYED: Final = frozenset({"delayed-retry-type", "delayed-retry-min", "delayed-retry-max"})
_REACH: Final[Mapping[str, frozenset[str]]] = {
    "all": frozenset({"classic", "quorum", "exchange"}),
    "queues": _BOTH,
    "classic_queues": frozenset({"classic"}),
    "quorum_queues": _QUORUM,
    "streams": frozenset(),
    "exchanges": _EXCHANGE,
}
_TEXTS: Final = frozenset(
    {
        "overflow",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
    }
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "overflow": frozenset({"drop-head", "reject-publish", "reject-publish-dlx"}),
    "dead-letter-strategy": frozenset({"at-most-once", "at-least-once"}),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a queue obeys now; None is no limit, times are milliseconds."""

    ttl: int | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    keeps_dead_letters: bool = False
    """At-least-once dead-lettering, and everything that it needs."""
    delivery_limit: int | None = DEFAULT_DELIVERY_LIMIT
    consumer_timeout: int | None = DEFAULT_CONSUMER_TIMEOUT


def policy_fault(policy: Policy, *, since_4_3: bool) -> str | None:
    """Say why the broker would refuse a policy, or None; raises NotModelled for what it would take and we cannot."""
    if policy.apply_to not in _REACH:
        return f"{policy.apply_to} is not an apply-to of a policy"
    if not policy.definition:
        return "Validation failed: definition must not be empty"
    if readable(policy.pattern) is None:
        return _pattern_fault(policy.pattern)
    for key, value in policy.definition.items():
        if key in _UNMODELLED or (key in _DELAYED and since_4_3):
            raise NotModelled(f'policy key "{key}"')
        if key not in _MODELLED:
            return f"Validation failed: {key} is not recognised"
        if fault := _value_fault(key, value):
            return fault
    return None


def _pattern_fault(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except re.error as error:
        return f"Validation failed: pattern {pattern!r} is not a regular expression: {error}"
    raise NotModelled(f"{UNREAD}: {pattern!r}")


def _value_fault(key: str, value: Any) -> str | None:
    if key in _TEXTS or key == "alternate-exchange":
        if not isinstance(value, str) or value not in _WORDS.get(key, {value}):
            return f"Validation failed: {value!r} is not a valid {key}"
    elif not isinstance(value, int) or isinstance(value, bool) or (value < 0 and key != "delivery-limit"):
        return f"Validation failed: {value!r} is not a valid {key}"
    return None


def governing(name: str, kind: str, policies: Iterable[Policy]) -> Policy | None:
    """Choose the one policy that reaches an object of `kind` (`classic`, `quorum`, `exchange`).

    The highest priority wins and nothing is merged. RabbitMQ leaves equal priorities undefined (4.3 and 4.0 were
    seen to differ): that raises NotModelled.
    """
    reaching = [policy for policy in policies if _reaches(policy, name, kind)]
    if not reaching:
        return None
    top = max(policy.priority for policy in reaching)
    best = [policy for policy in reaching if policy.priority == top]
    if len(best) > 1:
        names = " and ".join(sorted(policy.name for policy in best))
        raise NotModelled(f'policies of equal priority on "{name}" ({names}), which RabbitMQ leaves undefined')
    return best[0]


def _reaches(policy: Policy, name: str, kind: str) -> bool:
    if kind not in _REACH[policy.apply_to] or not matches(policy.pattern, name):
        return False
    # Of a key for queues an exchange takes no notice, nor a queue of one for exchanges (measured on 4.0 and 4.3).
    return kind == "exchange" or all(kind in _MODELLED[key] for key in policy.definition if _MODELLED[key] != _EXCHANGE)


def settings_of(queue: Queue, policy: Policy | None, *, since_4_3: bool) -> Settings:
    """Weigh arguments against the policy, key by key as RabbitMQ does."""
    quorum = queue.type == "quorum"
    given = {key.removeprefix("x-"): value for key, value in queue.arguments.items() if key.startswith("x-")}
    ruled = policy.definition if policy else {}

    def smaller(key: str) -> int | None:
        return min(
            (value for value in (given.get(key), ruled.get(key)) if value is not None),
            default=None,
        )

    def argument_wins(key: str) -> Any:
        return given.get(key, ruled.get(key))

    # The one word on which the two types disagree (measured).
    overflow = (ruled.get("overflow") or given.get("overflow")) if quorum else argument_wins("overflow")
    if quorum and overflow == "reject-publish-dlx":
        overflow = "drop-head"
    exchange = argument_wins("dead-letter-exchange")
    return Settings(
        ttl=smaller("message-ttl"),
        max_length=smaller("max-length"),
        max_bytes=smaller("max-length-bytes"),
        overflow=overflow or "drop-head",
        dead_letter_exchange=exchange,
        dead_letter_key=argument_wins("dead-letter-routing-key"),
        keeps_dead_letters=quorum
        and exchange is not None
        and overflow == "reject-publish"
        and argument_wins("dead-letter-strategy") == "at-least-once",
        delivery_limit=_delivery_limit(given.get("delivery-limit"), ruled.get("delivery-limit")) if quorum else None,
        # Classic queues have no acknowledgement timeout at all on 4.3 (broker-read).
        consumer_timeout=(smaller("consumer-timeout") or DEFAULT_CONSUMER_TIMEOUT) if quorum or not since_4_3 else None,
    )


def _delivery_limit(given: int | None, ruled: int | None) -> int | None:
    """The smaller one; a negative one means unlimited and loses to any limit."""
    named = [limit for limit in (given, ruled) if limit is not None]
    return min(
        (limit for limit in named if limit >= 0),
        default=None if named else DEFAULT_DELIVERY_LIMIT,
    )
