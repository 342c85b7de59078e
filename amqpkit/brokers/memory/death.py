"""What happens to a message when it dies: its history, its new self, the queues it may not reach.

Pure: time is an argument; knows no queue state and no broker.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from amqpkit.brokers.memory.stored import Death, Stored

_CLIENT_HISTORY = ("x-death", "x-first-death-", "x-last-death-")


def die(stored: Stored, queue: str, reason: str, now: datetime) -> Stored:
    """Write a death into a message's history.

    One entry per (queue, reason), the newest first; a repeat moves its entry to the front and counts, while
    exchange, keys and time stay those of the first (broker-measured). What a client published as history is
    wiped, `expiration` moves into the entry, the deadline ends.
    """
    earlier = next(
        (death for death in stored.deaths if (death.queue, death.reason) == (queue, reason)),
        None,
    )
    if earlier:
        death = replace(earlier, count=earlier.count + 1)
    else:
        death = Death(
            queue=queue,
            reason=reason,
            count=1,
            time=now.replace(microsecond=0),
            exchange=stored.exchange,
            routing_keys=stored.routing_keys,
            expiration=stored.properties.expiration,
        )
    rest = tuple(other for other in stored.deaths if other is not earlier)
    headers = {k: v for k, v in stored.properties.headers.items() if not k.startswith(_CLIENT_HISTORY)}
    return replace(
        stored,
        deaths=(death, *rest),
        first_death=stored.first_death or (queue, reason),
        last_death_exchange=stored.exchange,
        properties=replace(stored.properties, headers=headers, expiration=None),
        deadline=None,
    )


def is_cycle(deaths: Sequence[Death], target: str) -> bool:
    """Say whether the broker refuses to route a dead message to `target`.

    It does when the newest death is not a rejection and the way since `target` last killed it, that death
    included, holds no rejection either (broker-read, agrees with every probe).
    """
    if deaths[0].reason == "rejected":
        return False
    for at, death in enumerate(deaths):
        if death.queue == target:
            return all(entry.reason != "rejected" for entry in deaths[: at + 1])
    return False


def onward(stored: Stored, exchange: str, routing_key: str | None) -> Stored:
    """Address a dead message to its dead-letter exchange.

    With a dead-letter routing key the `CC` copies end; without one they are routed again (broker-measured).
    """
    if routing_key is None:
        return replace(stored, exchange=exchange)
    headers = {k: v for k, v in stored.properties.headers.items() if k != "CC"}
    return replace(
        stored,
        exchange=exchange,
        routing_keys=(routing_key,),
        properties=replace(stored.properties, headers=headers),
    )
