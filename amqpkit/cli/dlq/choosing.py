"""Which letters a command line means."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from amqpkit.cli.usage import UsageError
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.units import parse_duration

Fate = Literal[
    "permanent",
    "exhausted",
    "invalid",
    "too-new",
    "crashed",
    "rejected",
    "expired",
    "maxlen",
    "delivery_limit",
    "failed",
    "unknown",
]

Count = Annotated[int | None, Parameter(show_default=False, validator=Number(gte=0))]
"""How many, 0 or more."""

_ERROR: Final = "The error's type, or a part of its message."  # cyclopts does not find it in the docstring


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The filters: a letter is meant when all that are given fit.

    Parameters
    ----------
    fate
        How it died: permanent, exhausted, invalid, too-new or crashed by our workers; rejected, expired, maxlen or
        delivery_limit by the broker; failed by Spring.
    type
        The payload type.

    Error:
        The error's type, or a part of its message.
    since
        Dead since then: a duration ago (2h) or an instant (2026-03-01T12:00:00Z).
    until
        Dead before then.
    key
        The idempotency key (the message id where there is none).
    id
        The message id, or the sha256: name of a letter that has none.
    replayed_below
        Replayed fewer times than this; 1 means never.
    """

    fate: Annotated[Fate | None, Parameter(show_default=False)] = None
    type: Annotated[str | None, Parameter(show_default=False)] = None
    error: Annotated[str | None, Parameter(show_default=False, help=_ERROR)] = None
    since: Annotated[str | None, Parameter(show_default=False)] = None
    until: Annotated[str | None, Parameter(show_default=False)] = None
    key: Annotated[str | None, Parameter(show_default=False)] = None
    id: Annotated[str | None, Parameter(show_default=False)] = None
    replayed_below: Count = None

    def filter(self, now: datetime) -> Filter:
        """Make the filter; raises UsageError for a time that is none."""
        return Filter(
            fate=self.fate,
            type=self.type,
            error=self.error,
            since=_instant("--since", self.since, now),
            until=_instant("--until", self.until, now),
            key=self.key,
            id=self.id,
            replayed_below=self.replayed_below,
        )


def _instant(option: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return now - timedelta(milliseconds=parse_duration(text))
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        msg = f"{option} {text!r} is neither a duration ago, such as 2h, nor an instant such as 2026-03-01T12:00:00Z"
        raise UsageError(msg)
    return instant
