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
    fixed when the queue took the copy. `serial` orders copies by arrival. `delivery_count` and `acquired_count`
    are this queue's; `carried_count` came along through dead-letter exchanges.
    """

    serial: int
    id: str
    body: bytes
    properties: Properties
    exchange: str
    routing_keys: tuple[str, ...]
    deaths: tuple[Death, ...] = ()
    first_death: tuple[str, str] | None = None
    last_death_exchange: str = ""
    deadline: int | None = None
    carried_count: int = 0
    delivery_count: int = 0
    acquired_count: int = 0
    redelivered: bool = False

    @property
    def total_count(self) -> int:
        """What came with it and what this queue has counted."""
        return self.carried_count + self.delivery_count


def delivered_properties(stored: Stored, profile: Profile, *, quorum: bool) -> Properties:
    """Show a consumer the properties with the headers that the broker adds."""
    added = {**_death_headers(stored), **(_count_headers(stored, profile) if quorum else {})}
    if not added:
        return stored.properties
    return replace(stored.properties, headers={**stored.properties.headers, **added})


def _death_headers(stored: Stored) -> Mapping[str, Any]:
    if not stored.deaths:
        return {}
    first = next(death for death in stored.deaths if (death.queue, death.reason) == stored.first_death)
    # Unlike in its entry, the exchange of the last death is that of the last time (probed).
    last = replace(stored.deaths[0], exchange=stored.last_death_exchange)
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
    """Show what a quorum queue counts; a classic one shows nothing, even of what it carries (probed on both)."""
    if profile.since_4_3:
        # In a new queue the carried count stands for both, until the first give-back there.
        acquired = stored.acquired_count or stored.carried_count
        counts = {"x-delivery-count": stored.total_count, "x-acquired-count": acquired}
    else:
        counts = {"x-delivery-count": stored.delivery_count or stored.carried_count}
    return {name: value for name, value in counts.items() if value}
