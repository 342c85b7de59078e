"""What other people's headers tell of a death: RabbitMQ's own, Celery's, Spring's.

Pure. Anybody may have written these: every reader has an answer for any value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

CELERY, SPRING, DLX, UNKNOWN = "celery", "spring", "dlx", "unknown"

_REASONS: Final = frozenset({"rejected", "expired", "maxlen", "delivery_limit"})
_DEATHS_MAX: Final = 100
_TEXT_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Death:
    """One entry of `x-death`: a queue and a reason, how often, and when first (whole seconds)."""

    queue: str
    reason: str
    count: int
    at: datetime | None
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the headers of a foreign letter say; what they do not say is empty."""

    source: str
    fate: str = UNKNOWN
    type: str = ""
    error: tuple[str, str, str] = ("", "", "")
    attempts: int = 0
    queue: str | None = None
    origin: tuple[str, str] | None = None


def read_deaths(headers: Mapping[str, Any]) -> tuple[Death, ...]:
    """Read `x-death`, newest first; entries that are none are left out."""
    entries = headers.get("x-death")
    if not isinstance(entries, list):
        return ()
    return tuple(_death(entry) for entry in entries[:_DEATHS_MAX] if _is_death(entry))


def failed_in(deaths: tuple[Death, ...]) -> Death | None:
    """The death that a replay undoes: the first by rejection, else the first."""
    rejected = [death for death in deaths if death.reason == "rejected"]
    return (rejected or list(deaths))[-1] if deaths else None


def _is_death(entry: object) -> bool:
    return isinstance(entry, Mapping) and bool(_text(entry, "queue")) and bool(_text(entry, "reason"))


def _death(entry: Mapping[str, Any]) -> Death:
    at, keys = entry.get("time"), entry.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else ""
    return Death(
        queue=_text(entry, "queue"),
        reason=_text(entry, "reason")[:40],
        count=_count(entry, "count"),
        at=at.astimezone(UTC) if isinstance(at, datetime) and at.tzinfo else None,
        exchange=_text(entry, "exchange"),
        routing_key=key if isinstance(key, str) else "",
    )


def read_foreign(headers: Mapping[str, Any]) -> Told:
    """Read what the producer's or the consumer's framework left, else what the broker did."""
    deaths = read_deaths(headers)
    if "x-exception-stacktrace" in headers or "x-exception-message" in headers:
        return _spring(headers)
    if _text(headers, "task") and "id" in headers:
        return _celery(headers, deaths)
    return _dead_lettered(deaths, _text(headers, "__TypeId__"))


def _dead_lettered(deaths: tuple[Death, ...], type_: str = "", *, source: str = DLX, attempts: int = 0) -> Told:
    death = failed_in(deaths)
    if death is None:
        return Told(source if source != DLX else UNKNOWN, type=type_, attempts=attempts)
    reason = deaths[0].reason if deaths[0].reason in _REASONS else UNKNOWN
    times = f", {death.count} times" if death.count > 1 else ""
    return Told(
        source,
        reason,
        type_,
        (deaths[0].reason, f"by queue {death.queue}{times}", ""),
        attempts or death.count,
        death.queue,
        (death.exchange, death.routing_key),
    )


def _celery(headers: Mapping[str, Any], deaths: tuple[Death, ...]) -> Told:
    # retries counts those that are used up: a task that was tried once has none
    return _dead_lettered(deaths, _text(headers, "task"), source=CELERY, attempts=_count(headers, "retries") + 1)


def _spring(headers: Mapping[str, Any]) -> Told:
    """Spring's RepublishMessageRecoverer: a Java stack trace, whose first line names the exception."""
    trace = _text(headers, "x-exception-stacktrace")
    kind, _, rest = _cause(trace).partition(": ")
    message = _text(headers, "x-exception-message") or rest
    exchange, key = _text(headers, "x-original-exchange"), _text(headers, "x-original-routingKey")
    # through the default exchange the key is the queue; else only x-death could know it, and a republish has none
    death = failed_in(read_deaths(headers))
    queue = key if not exchange and key else (death.queue if death else None)
    return Told(
        SPRING, "failed", _text(headers, "__TypeId__"), (kind[:200], message, trace), 0, queue or None, (exchange, key)
    )


def _cause(trace: str) -> str:
    """The exception that says most: the last cause, not the wrapper that every listener puts around it."""
    lines = trace.splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [""])[-1 if causes else 0]


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value[:_TEXT_MAX] if isinstance(value, str) else ""


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else 0
