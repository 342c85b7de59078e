"""Which messages, queued now, a change of a queue's effective settings would drop. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from amqpkit.declare.plan.differences import seconds_of_age
from amqpkit.declare.plan.settings import Setting, value_of
from amqpkit.model import Queue

_LENGTHS: Final = ("max-length", "max-length-bytes")
DEFAULT_DELIVERY_LIMIT: Final = 20
Settings = Mapping[str, Setting]


def losses(queue: Queue, before: Settings, after: Settings) -> Iterator[str]:
    """Say what would be dropped, a clause each; nothing when all that is queued stays."""
    for key in _LENGTHS:
        if _tightened(key, before, after) and not _length_is_safe(queue, before, after):
            yield f"{key} {value_of(after, key)} drops what is queued above it"
    if _refuses(before) and not _refuses(after) and any(value_of(after, key) is not None for key in _LENGTHS):
        yield "when full it drops its oldest messages, instead of refusing new ones"
    if _tightened("expires", before, after):
        yield f"unused for {value_of(after, 'expires')} ms it is deleted, messages and all"
    if _tightened("max-age", before, after):
        yield f"max-age {value_of(after, 'max-age')} drops what is older"
    had, has = value_of(before, "dead-letter-exchange"), value_of(after, "dead-letter-exchange")
    if had is not None and has is None:
        yield "without a dead-letter exchange it drops what is rejected or expires"
    if queue.type == "quorum" and has is None and _crashes_sooner(before, after):
        yield f"delivery-limit {value_of(after, 'delivery-limit')} drops what was returned more often"


def keeps_in_two_steps(queue: Queue, before: Settings, after: Settings) -> bool:
    """Whether setting the overflow first, then the length, drops nothing where both at once would."""
    return (
        queue.type == "classic"
        and _refuses(after)
        and not _refuses(before)
        and any(_tightened(key, before, after) for key in _LENGTHS)
    )


def _length_is_safe(queue: Queue, before: Settings, after: Settings) -> bool:
    """A queue that refuses publishers keeps its backlog; a classic one only if it has done so before (measured)."""
    if queue.type == "stream" or not _refuses(after):
        return False
    return queue.type == "quorum" or _refuses(before)


def _refuses(settings: Settings) -> bool:
    return str(value_of(settings, "overflow")).startswith("reject-publish")


def _tightened(key: str, before: Settings, after: Settings) -> bool:
    had, has = _number(value_of(before, key)), _number(value_of(after, key))
    return has is not None and (had is None or has < had)


def _number(value: Any) -> int | None:
    if isinstance(value, str):
        return seconds_of_age(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _crashes_sooner(before: Settings, after: Settings) -> bool:
    had, has = (_limit(value_of(each, "delivery-limit")) for each in (before, after))
    return has is not None and (had is None or has < had)


def _limit(value: Any) -> int | None:
    if value is None:
        return DEFAULT_DELIVERY_LIMIT
    return value if isinstance(value, int) and value >= 0 else None
