"""Whether a dead-letter queue wants a person.

Pure.
"""

from datetime import datetime, timedelta

from amqpkit.model import Alert
from amqpkit.units import format_duration


def held(alert: Alert, *, depth: int, oldest: datetime | None, now: datetime) -> tuple[str, ...]:
    """Say which of an alert's thresholds are reached, in words; either one is enough. None: the alert does not hold."""
    reasons = []
    if alert.messages is not None and depth >= alert.messages:
        reasons.append(f"{depth} of {alert.messages} letters")
    if alert.age is not None and depth and oldest is not None and now - oldest >= timedelta(seconds=alert.age):
        reasons.append(f"the oldest is older than {format_duration(round(alert.age * 1000))}")
    return tuple(reasons)
