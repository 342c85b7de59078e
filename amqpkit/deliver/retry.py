"""What a failure means: another try, a wait, or death.

Pure: takes the failure, the message's past, the queue's delays, the time and a chance; performs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from amqpkit.deliver.headers import Past
from amqpkit.model import Delay, DelayQueue, RetryAfter

SNOOZE_BOUND: Final = timedelta(hours=24)
"""How long after it was first seen a message may still be put off."""
SNOOZE_SLACK: Final = timedelta(seconds=1)
"""Clocks of two machines differ; closer than this to its instant, a message counts as due."""
LEASES_PER_LIMIT: Final = 10
"""RabbitMQ 4.3 does not count a consumer timeout as a delivery; this many times the limit bounds them."""

BROKERS_LEASE: Final = 1800.0
"""Seconds until the broker takes a message back when neither queue nor policy says (measured on 4.0 and 4.3)."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Once more after this delay; an attempt is used up."""

    delay: Delay


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now; no attempt is used up."""

    delay: Delay
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Dead:
    """Never again by itself; `fate` is one of permanent, exhausted, invalid, too-new, crashed."""

    fate: str
    reason: str


def decide(
    failure: BaseException, attempt: int, delays: Sequence[Delay], never: tuple[type[BaseException], ...]
) -> Retry | Dead:
    """Judge a failure of a handler that had used up `attempt` attempts before this one.

    A group of failures is never retried when one of its members is never retried.
    """
    if isinstance(failure, never) or (
        never and isinstance(failure, BaseExceptionGroup) and failure.subgroup(never) is not None
    ):
        return Dead("permanent", f"{type(failure).__name__} is never retried")
    if attempt < len(delays):
        return Retry(delays[attempt])
    return Dead("exhausted", f"attempt {attempt + 1} of {len(delays) + 1} failed")


def put_off(snoozes: Sequence[Delay], until: datetime, now: datetime, reason: str) -> Snooze:
    """Choose the shortest delay that reaches `until`, or the longest when none does."""
    wait = until - now  # not as a float of milliseconds: 2007 ms would be more than 2007
    delay = next((delay for delay in snoozes if timedelta(milliseconds=delay.milliseconds) >= wait), snoozes[-1])
    return Snooze(delay, until, reason)


def put_off_within_bound(  # noqa: PLR0913 - the six facts of one judgement
    snoozes: Sequence[Delay], until: datetime, now: datetime, past: Past, *, fate: str, reason: str
) -> Snooze | Dead:
    """Put a message off, but not beyond 24 h since it was first seen: then it is dead of `fate`."""
    bound = bound_of(past, now)
    if now >= bound:
        return Dead(fate, f"{reason}; put off {past.snoozes} times, first seen over 24 h ago")
    return put_off(snoozes, min(until, bound), now, reason)


def bound_of(past: Past, now: datetime) -> datetime:
    """Until when a message may be put off; a first-seen in the future is forged, or a clock's fault."""
    return min(past.first_seen or now, now) + SNOOZE_BOUND


def instant_of(verdict: RetryAfter, now: datetime) -> datetime:
    """When the handler wants the message back: not before now, nor later than any message may be put off."""
    latest = now + SNOOZE_BOUND  # what is asked for may be past the end of the calendar
    match verdict.when:
        case datetime():
            return min(max(verdict.when, now), latest)
        case timedelta():
            return now + min(max(verdict.when, timedelta()), SNOOZE_BOUND)
        case int() | float():
            # in this order NaN is no wait at all
            return now + timedelta(seconds=min(max(0, verdict.when), SNOOZE_BOUND.total_seconds()))
        case _:  # what is no time, and passed the type checker unseen, must not take the worker down
            return now


def crashed(past: Past, delivery_limit: int) -> Dead | None:
    """Whether a message has taken its workers down too often to be given to another one."""
    if past.crashes >= delivery_limit:
        return Dead("crashed", f"came back without an end {past.crashes} times (delivery limit {delivery_limit})")
    if past.acquired >= LEASES_PER_LIMIT * delivery_limit:
        return Dead("crashed", f"was given back {past.acquired} times, mostly by the consumer timeout")
    return None


def without_looks(past: Past, published: datetime | None, now: datetime, lease: float | None) -> Past:
    """Leave only as many give-backs as there can have been lost leases since the message was published.

    A message is held by one worker at a time, and the broker takes it back after `lease` seconds (30 minutes unless
    the queue says otherwise): more give-backs than fit into its age were drains, or somebody who looked at it.
    """
    if published is None or published.tzinfo is None or published > now:
        return past  # an age that is unknown or forged excuses nothing
    leases = int((now - published).total_seconds() / (lease or BROKERS_LEASE))
    return past if past.acquired <= leases else replace(past, acquired=leases)


def draw(delay: Delay, chance: float) -> DelayQueue:
    """Pick one of a delay's queues; `chance` is in [0, 1)."""
    return delay.queues[int(chance * len(delay.queues))]
