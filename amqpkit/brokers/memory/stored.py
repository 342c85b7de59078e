"""A message as a queue holds it. Pure values: no clock, no broker, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from amqpkit.brokers.memory.profile import Profile
from amqpkit.model import Properties


@dataclass(frozen=True, slots=True)
class Death:
    """One `x-death` entry; only `count` ever changes (broker-measured)."""

    queue: str
    reason: str
    count: int
    time: datetime
    exchange: str
    routing_keys: tuple[str, ...]
    expiration: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """One copy of a message in one queue.

    `routing_keys` holds the shown key first, then those of `CC`. `deadline` is an instant in milliseconds,
    fixed when the queue took the copy. `serial` orders copies by arrival.
    """

    serial: int
    id: str
    body: bytes
    properties: Properties
    exchange: str
    routing_keys: tuple[str, ...]
    deaths: tuple[Death, ...] = ()
    first_death: tuple[str, str] | None = None
    deadline: int | None = None
    delivery_count: int = 0
    acquired_count: int = 0
    redelivered: bool = False


def delivered_properties(stored: Stored, profile: Profile) -> Properties:
    """Show a consumer the properties with the headers that the broker adds."""
    added = {**_death_headers(stored), **_count_headers(stored, profile)}
    if not added:
        return stored.properties
    return replace(stored.properties, headers={**stored.properties.headers, **added})


def _death_headers(stored: Stored) -> Mapping[str, Any]:
    if not stored.deaths:
        return {}
    last = stored.deaths[0]
    first = next(death for death in stored.deaths if (death.queue, death.reason) == stored.first_death)
    headers: dict[str, Any] = {"x-death": [_entry(death) for death in stored.deaths]}
    for when, death in (("first", first), ("last", last)):
        headers[f"x-{when}-death-queue"] = death.queue
        headers[f"x-{when}-death-reason"] = death.reason
        headers[f"x-{when}-death-exchange"] = death.exchange
    return headers


def _entry(death: Death) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "count": death.count,
        "reason": death.reason,
        "queue": death.queue,
        "time": death.time,
        "exchange": death.exchange,
        "routing-keys": list(death.routing_keys),
    }
    if death.expiration is not None:
        entry["original-expiration"] = death.expiration
    return entry


def _count_headers(stored: Stored, profile: Profile) -> Mapping[str, int]:
    """4.0 knows one counter, 4.3 two; none is shown before the first give-back."""
    counts = {"x-delivery-count": stored.delivery_count}
    if profile.since_4_3:
        counts["x-acquired-count"] = stored.acquired_count
    return {name: value for name, value in counts.items() if value}
