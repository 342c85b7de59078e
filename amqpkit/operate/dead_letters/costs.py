"""What it costs to look at a queue. Pure.

A quorum queue with a delivery limit counts deliveries that come back, and at the limit drops or dead-letters the
message. RabbitMQ before 4.3 counts every give-back, from 4.3 on only those of a reader that crashes (measured).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from amqpkit.declare.policies import reaches
from amqpkit.model import Policy, Queue, Topology

DEFAULT_LIMIT: Final = 20
_COUNTS_ONLY_CRASHES: Final = (4, 3)


class Price(StrEnum):
    """What a look costs."""

    NOTHING = "nothing"
    IF_IT_CRASHES = "a delivery if the reader crashes"
    EACH_TIME = "a delivery each time"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Cost:
    """The price, the delivery limit that makes it (None: no limit, or not known), and a sentence for the operator."""

    price: Price
    limit: int | None = None
    warning: str = ""


def cost_of_looking(
    queue: str, actual: Topology | None, *, version: str, operator_policies: Iterable[Policy] = ()
) -> Cost:
    """Say what looking at a queue costs; `actual` is what the vhost holds, None when nobody could read it.

    `version` is the broker's. A warning is empty when there is nothing to warn of.
    """
    found = next((each for each in actual.queues if each.name == queue), None) if actual is not None else None
    if actual is None or found is None:
        warning = (
            f'whether looking at "{queue}" costs its messages a delivery is not known without the management API: '
            "a quorum queue has a delivery limit of 20 unless it was declared otherwise"
        )
        return Cost(Price.UNKNOWN, None, warning)
    if found.type == "stream":
        warning = f'"{queue}" is a stream: it has no letters that could be taken, given back or replayed from here'
        return Cost(Price.REFUSED, None, warning)
    limit = _limit(found, actual.policies, tuple(operator_policies)) if found.type == "quorum" else None
    if limit is None:
        return Cost(Price.NOTHING)
    return _limited(queue, limit, version)


def _limited(queue: str, limit: int, version: str) -> Cost:
    remedy = f'set "delivery-limit": -1 by a policy on "{queue}"'
    if _release(version) >= _COUNTS_ONLY_CRASHES:
        warning = (
            f'"{queue}" has a delivery limit of {limit}: a reader that crashes costs each letter it holds one; {remedy}'
        )
        return Cost(Price.IF_IT_CRASHES, limit, warning)
    warning = f'"{queue}" has a delivery limit of {limit}, and each look costs every letter one delivery; {remedy}'
    return Cost(Price.EACH_TIME, limit, warning)


def _limit(queue: Queue, policies: Iterable[Policy], operators: Iterable[Policy]) -> int | None:
    """The limit that holds: the smallest of argument, policy and operator policy; a negative one is no limit."""
    named = [queue.arguments.get("x-delivery-limit")]
    named += [
        policy.definition.get("delivery-limit") for policy in (_winner(policies, queue), _winner(operators, queue))
    ]
    limits = [each for each in named if isinstance(each, int)]
    return min((each for each in limits if each >= 0), default=None if limits else DEFAULT_LIMIT)


def _winner(policies: Iterable[Policy], queue: Queue) -> Policy:
    matching = (policy for policy in policies if reaches(policy, queue))
    return max(matching, key=lambda policy: policy.priority, default=Policy("", "", {}))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
