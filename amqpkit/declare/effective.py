"""What a queue does in the end, where RabbitMQ's own defaults count. Pure.

Which of argument and policy wins, key by key, is in `plan.settings`.
"""

from collections.abc import Mapping
from typing import Final

from amqpkit.declare.plan.settings import Setting, value_of
from amqpkit.model import Queue

DEFAULT_DELIVERY_LIMIT: Final = 20
DEFAULT_CONSUMER_TIMEOUT: Final = 1_800_000


def delivery_limit(queue: Queue, found: Mapping[str, Setting]) -> int | None:
    """Give how many returns a message survives; None is for ever (classic queues count none)."""
    if queue.type != "quorum":
        return None
    limit = value_of(found, "delivery-limit")
    limit = DEFAULT_DELIVERY_LIMIT if limit is None else limit
    return limit if isinstance(limit, int) and limit >= 0 else None


def overflow(queue: Queue, found: Mapping[str, Setting]) -> str:
    """Give what happens at the length limit; quorum queues take `reject-publish-dlx` and do `drop-head` (measured)."""
    word = str(value_of(found, "overflow") or "drop-head")
    return "drop-head" if queue.type == "quorum" and word == "reject-publish-dlx" else word
