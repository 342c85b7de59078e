"""Looking at the first messages of a queue and giving them back.

By a consumer, not by `basic.get`: given back in the order in which they came, its messages keep their order. Who calls
this must know that it costs nothing there: on RabbitMQ before 4.3 each look counts against a delivery limit.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from amqpkit.brokers.clock import SystemClock
from amqpkit.deliver import headers as h
from amqpkit.model import Received
from amqpkit.ports import Clock, Delivery, Transport

PATIENCE: Final = 2.0
"""Seconds to wait for messages that other consumers may have taken meanwhile."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a message in a queue says of itself: when it was published, when and of what it died."""

    published: datetime | None
    died: datetime | None = None
    fate: str = ""


async def look(
    transport: Transport, queue: str, *, most: int, clock: Clock | None = None, patience: float = PATIENCE
) -> tuple[Sight, ...]:
    """See up to `most` messages from the head on, in order, and give them back.

    Returns what came within `patience` seconds. Raises QueueMissing, AccessRefused, ConnectionFailed.
    """
    found: list[Delivery] = []
    enough = asyncio.Event()

    def take(delivery: Delivery) -> None:
        found.append(delivery)
        if len(found) >= most:
            enough.set()

    subscription = await transport.consume(queue, prefetch=most, deliver=take)
    disarm = (clock or SystemClock()).call_later(patience, enough.set)
    try:
        await enough.wait()
        await subscription.pause()  # before giving back, or the same ones come again
        return tuple(map(sight_of, found[:most]))
    finally:
        disarm()
        for delivery in found:
            delivery.requeue()
        found.clear()  # the subscription is part of a circle that garbage collection finds late, and bodies are large
        await subscription.close()


def sight_of(received: Received) -> Sight:
    """Read a message's headers; whatever a stranger wrote, it is read as absent."""
    headers = received.properties.headers
    published = h.read_published_at(received)
    return Sight(_aware(published), _death_of(headers), _fate_of(headers))


def _aware(instant: datetime | None) -> datetime | None:
    return instant if instant is not None and instant.tzinfo is not None else None


def _death_of(headers: Any) -> datetime | None:
    """When it came here: our own copy says so, else the broker's record of its last death."""
    error = headers.get(h.ERROR)
    if isinstance(error, dict) and (at := h.read_instant(error.get("at"))) is not None:
        return at
    deaths = headers.get("x-death")
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    time = last.get("time") if isinstance(last, dict) else None
    return _aware(time) if isinstance(time, datetime) else None


FATES: Final = frozenset({"permanent", "exhausted", "invalid", "too-new", "crashed"})
BY_BROKER: Final = frozenset({"rejected", "delivery_limit", "expired", "maxlen"})
"""RabbitMQ's own words, where the broker itself put it there."""
UNKNOWN: Final = "unknown"
"""A dead letter that neither we nor the broker put there."""


def _fate_of(headers: Any) -> str:
    fate = headers.get(h.FATE)
    if isinstance(fate, str) and fate in FATES:
        return fate
    deaths = headers.get("x-death")
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    reason = last.get("reason") if isinstance(last, dict) else None
    return reason if isinstance(reason, str) and reason in BY_BROKER else UNKNOWN
