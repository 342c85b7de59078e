"""Whether a dead-letter queue wants a person.

Pure.
"""

from datetime import datetime

from amqpkit.model import Alert
from amqpkit.units import format_duration


def reached(alert: Alert, *, depth: int, age: float | None) -> tuple[bool, bool]:
    """Whether the alert's number and its age are reached; either is enough. `age` in seconds is the oldest letter's."""
    return (
        alert.messages is not None and depth >= alert.messages,
        alert.age is not None and depth > 0 and age is not None and age >= alert.age,
    )


def held(alert: Alert, *, depth: int, oldest: datetime | None, now: datetime) -> tuple[str, ...]:
    """Say in words which of an alert's thresholds are reached. None: the alert does not hold."""
    many, old = reached(alert, depth=depth, age=None if oldest is None else (now - oldest).total_seconds())
    reasons = [f"{depth} letter{'' if depth == 1 else 's'} (alert at {alert.messages})"] if many else []
    if old and alert.age is not None:
        reasons.append(f"the oldest is older than {format_duration(round(alert.age * 1000))}")
    return tuple(reasons)
