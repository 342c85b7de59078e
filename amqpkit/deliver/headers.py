"""Our headers on a message: reading them from strangers, writing them on copies, keeping them small.

Pure: knows no broker and no clock. Everything read here may be forged, foreign or broken, so every reader has
an answer for any value, and names what it could not use.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from reprlib import repr as short_repr  # bounded in length and in depth, whatever a stranger sent
from typing import Any, Final

from amqpkit.errors import MessageTooLarge
from amqpkit.model import Message, Properties, Received

VERSION: Final = "amqpkit-version"
KEY: Final = "amqpkit-key"
PUBLISHED_AT: Final = "amqpkit-published-at"
EXCHANGE: Final = "amqpkit-exchange"
ROUTING_KEY: Final = "amqpkit-routing-key"
FIRST_SEEN: Final = "amqpkit-first-seen"
ATTEMPT: Final = "amqpkit-attempt"
CRASHES: Final = "amqpkit-crashes"
SNOOZES: Final = "amqpkit-snoozes"
NOT_BEFORE: Final = "amqpkit-not-before"
ERROR: Final = "amqpkit-error"
HISTORY: Final = "amqpkit-history"
FATE: Final = "amqpkit-fate"
REPLAYS: Final = "amqpkit-replays"
REPLAY_RUN: Final = "amqpkit-replay-run"
COMPENSATIONS: Final = "amqpkit-compensations"
TRACEPARENT: Final = "traceparent"
"""Not ours but W3C's: who published it, in whose trace."""
UNREADABLE: Final = "amqpkit-unreadable"
"""Stands for a header table that could not be read, and says why."""

# All zeros and version ff are invalid: https://www.w3.org/TR/trace-context/#traceparent-header-field-values
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

OURS_MAX: Final = 64 * 1024
FRAME_MAX: Final = 131_064
"""Bytes of one content header frame at the default frame_max; one more closes the connection (measured, 501)."""
COUNT_MAX: Final = 100_000
"""A counter above this is not ours: it is broken or forged."""
HISTORY_MAX: Final = 50
MESSAGE_MAX: Final = 4096
TRACEBACK_MAX: Final = 16 * 1024

# A copy starts a new life: the broker must not act on these again (each probed), nor the reader believe them.
_STRIPPED: Final = frozenset({"x-delivery-count", "x-acquired-count", "CC", "BCC"})
_STRIPPED_PREFIXES: Final = ("x-death", "x-first-death-", "x-last-death-")


@dataclass(frozen=True, slots=True)
class Past:
    """What a message has been through, as its headers tell; `faults` are headers of ours that were unusable."""

    attempt: int = 0
    crashes: int = 0
    acquired: int = 0
    snoozes: int = 0
    replays: int = 0
    not_before: datetime | None = None
    first_seen: datetime | None = None
    faults: tuple[tuple[str, str], ...] = ()


def read_past(received: Received) -> Past:
    """Read a message's past; absent, negative, huge or mistyped counters are 0 and named in `faults`."""
    headers = received.properties.headers
    if not headers:
        return Past()
    faults: list[tuple[str, str]] = []
    # the broker's own counters mean this queue only when it has redelivered: a copy may carry stale ones
    delivered = _count(headers, "x-delivery-count", faults) if received.redelivered else 0
    acquired = _count(headers, "x-acquired-count", faults) if received.redelivered else 0
    return Past(
        attempt=_count(headers, ATTEMPT, faults),
        crashes=_count(headers, CRASHES, faults) + delivered,
        acquired=acquired,
        snoozes=_count(headers, SNOOZES, faults),
        replays=_count(headers, REPLAYS, faults),
        not_before=_instant(headers, NOT_BEFORE, faults),
        first_seen=_instant(headers, FIRST_SEEN, faults),
        faults=tuple(faults),
    )


def run_of(past: Past) -> str:
    """Name the run that a delivery belongs to: replays and attempts so far."""
    return f"{past.replays}.{past.attempt}"


def read_version(headers: Mapping[str, Any]) -> int | None:
    """The payload's schema version, 1 when absent, None when it is not one."""
    value = headers.get(VERSION, 1)  # dates make versions too (20260101), so only the type and the sign are checked
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**63 else None


def read_origin(received: Received) -> tuple[str, str]:
    """Exchange and routing key of the first publish, not those of a retry's way back."""
    headers = received.properties.headers
    exchange, key = headers.get(EXCHANGE), headers.get(ROUTING_KEY)
    if isinstance(exchange, str) and isinstance(key, str):
        return exchange, key
    return received.exchange, received.routing_key


def read_key(received: Received) -> str | None:
    """The idempotency key: ours, else the message id, else none."""
    key = received.properties.headers.get(KEY)
    if isinstance(key, str) and key:
        return key
    return received.properties.message_id or None


def is_brokers(name: str) -> bool:
    """Whether the broker writes this header, or acts on it: a copy must not carry it on."""
    return name in _STRIPPED or name.startswith(_STRIPPED_PREFIXES)


def read_published_at(received: Received) -> datetime | None:
    """When it was published: our header, else the timestamp property."""
    ours = _instant(received.properties.headers, PUBLISHED_AT, [])
    return ours or received.properties.timestamp


def read_trace(headers: Mapping[str, Any]) -> str | None:
    """The trace id in a W3C `traceparent` (version-trace-parent-flags); None when there is none that is one."""
    value = headers.get(TRACEPARENT)
    found = _TRACEPARENT.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _count(headers: Mapping[str, Any], name: str, faults: list[tuple[str, str]]) -> int:
    value = headers.get(name, 0)
    if _is_count(value):
        return int(value)
    faults.append((name, shown(value)))
    return 0


def _instant(headers: Mapping[str, Any], name: str, faults: list[tuple[str, str]]) -> datetime | None:
    value = headers.get(name)
    if value is None:
        return None
    instant = read_instant(value)
    if instant is None:
        faults.append((name, shown(value)))
    return instant


def read_instant(value: object) -> datetime | None:
    """Read RFC 3339 with a zone, as `format_instant` writes it; None when it is anything else."""
    if isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
            if instant.tzinfo is not None:
                return instant.astimezone(UTC)
        except (ValueError, OverflowError):  # the first or last day there is, seen from another zone
            pass
    return None


def format_instant(instant: datetime) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- copies -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure as it is told on the message."""

    type: str
    message: str
    traceback: str
    at: datetime
    worker: str

    def header(self) -> dict[str, Any]:
        """The `amqpkit-error` header."""
        return {
            "type": sendable(self.type[:200]),
            "message": sendable(self.message[:MESSAGE_MAX]),
            "traceback": sendable(self.traceback[-TRACEBACK_MAX:]),  # the end of a traceback names the culprit
            "at": format_instant(self.at),
            "worker": sendable(self.worker[:200]),
        }


def sendable(text: str) -> str:
    """Spell out lone surrogates (as in the name of a file that is not UTF-8): no broker takes them in a header."""
    return text.encode(errors="backslashreplace").decode()


def shown(value: object) -> str:
    """Show a stranger's value in few characters, whatever it is."""
    try:
        return sendable(short_repr(value)[:80])
    except Exception:  # noqa: BLE001 - Python refuses to write a number of 5000 digits, and an object may refuse too
        return f"a {type(value).__name__}"


def text_of(error: BaseException) -> str:
    """An error's text, fit for a header; a word in its place when its own `__str__` fails."""
    try:
        return sendable(str(error))
    except Exception:  # noqa: BLE001 - a user's broken __str__ must not become a second failure
        return "(its text could not be made)"


def history_with(received: Received, trouble: Trouble, attempt: int, delay: str | None) -> list[Any]:
    """The history so far and one line more; a history that is not ours is dropped."""
    so_far = received.properties.headers.get(HISTORY)
    lines = [line for line in so_far if isinstance(line, dict)] if isinstance(so_far, list) else []
    line = {
        "attempt": attempt,
        "at": format_instant(trouble.at),
        "type": sendable(trouble.type[:200]),
        "message": sendable(trouble.message[:500]),
        "delay": delay,
    }
    return [*lines[-HISTORY_MAX + 1 :], line]


def compensations(undone: Iterable[Any]) -> list[Any]:
    """Tell what became of the undoing of each step."""
    lines = []
    for each in list(undone)[:HISTORY_MAX]:
        line = {"step": sendable(each.step[:200]), "outcome": "failed" if each.error else "undone"}
        lines.append(line | ({"error": sendable(each.error[:300])} if each.error else {}))
    return lines


def copy_of(received: Received, ours: Mapping[str, Any], *, first_seen: datetime) -> Message:
    """A copy in a life that began at `first_seen`; one that the message claims for later is forged.

    Otherwise as `fresh_copy_of`.
    """
    claimed = _instant(received.properties.headers, FIRST_SEEN, []) or first_seen
    return fresh_copy_of(received, {FIRST_SEEN: format_instant(min(claimed, first_seen)), **ours})


def fresh_copy_of(received: Received, ours: Mapping[str, Any]) -> Message:
    """A copy that starts a new life: body and properties kept, the broker's traces stripped, ours written.

    A header whose new value is None is removed. Raises MessageTooLarge when the foreign headers leave no room for even
    the shortest of ours in one frame.
    """
    old = received.properties
    headers = {name: value for name, value in old.headers.items() if not is_brokers(name)}
    headers[EXCHANGE], headers[ROUTING_KEY] = read_origin(received)
    headers.update(ours)
    headers = {name: value for name, value in headers.items() if value is not None or name not in ours}
    bare = replace(old, delivery_mode=2, expiration=None, user_id=None, headers={})
    try:
        fitted = fit(headers, FRAME_MAX - properties_size(bare))
    except RecursionError:
        raise MessageTooLarge("headers are nested too deeply to be sent on") from None
    return Message(received.body, replace(bare, headers=fitted))


def fit(headers: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Cut our own headers until all fit: traceback first, then history, then the message.

    Raises MessageTooLarge when the frame cannot hold what is left. Then too large are a stranger's headers, or one
    in our name: those of ours that are never cut are short.
    """
    fitted = dict(headers)
    for cut in (_no_cut, _shorter_traceback, _shorter_history, _shorter_message, _no_story):
        cut(fitted)
        if encoded_size(fitted) <= room and _size_of_ours(fitted) <= OURS_MAX:
            return fitted
    over = encoded_size(fitted) - room
    if over > 0:
        raise MessageTooLarge(f"headers are {over} bytes over what fits into one frame, after ours were cut")
    return fitted


def _size_of_ours(headers: Mapping[str, Any]) -> int:
    return encoded_size({name: value for name, value in headers.items() if name.startswith("amqpkit-")})


def _no_cut(headers: dict[str, Any]) -> None:
    """What fits is left alone."""


def _shorter_traceback(headers: dict[str, Any]) -> None:
    if isinstance(error := headers.get(ERROR), dict):
        headers[ERROR] = {**error, "traceback": str(error.get("traceback", ""))[-1000:]}


def _shorter_history(headers: dict[str, Any]) -> None:
    if isinstance(history := headers.get(HISTORY), list):
        headers[HISTORY] = history[-3:]
    if isinstance(error := headers.get(ERROR), dict):
        headers[ERROR] = {**error, "traceback": ""}


def _shorter_message(headers: dict[str, Any]) -> None:
    if isinstance(error := headers.get(ERROR), dict):
        kept = {name: value for name, value in error.items() if name != "errors"}
        headers[ERROR] = {**kept, "message": str(error.get("message", ""))[:500]}
    if isinstance(history := headers.get(HISTORY), list):
        headers[HISTORY] = history[-1:]


def _no_story(headers: dict[str, Any]) -> None:
    headers.pop(HISTORY, None)
    if isinstance(error := headers.pop(ERROR, None), dict):
        headers[ERROR] = {"type": str(error.get("type", ""))[:100], "message": str(error.get("message", ""))[:100]}


# --- sizes ------------------------------------------------------------------------------------


def encoded_size(headers: Mapping[str, Any]) -> int:
    """Bytes that a header table takes on the wire, never fewer than it really does (AMQP 0-9-1 §4.2.5)."""
    return 4 + sum(1 + len(str(name).encode(errors="replace")) + _value_size(value) for name, value in headers.items())


def _value_size(value: object) -> int:
    match value:
        case None:
            return 1
        case bool():
            return 2
        case str():
            return 5 + len(value.encode(errors="replace"))
        case bytes() | bytearray():
            return 5 + len(value)
        case list() | tuple():
            return 5 + sum(map(_value_size, value))
        case Mapping():
            return 1 + encoded_size(value)
        case _:  # int, float, Decimal, datetime: at most nine bytes
            return 9


def properties_size(properties: Properties) -> int:
    """Bytes of a content header frame's payload without its header table."""
    texts = (
        properties.content_type,
        properties.content_encoding,
        properties.correlation_id,
        properties.reply_to,
        properties.expiration,
        properties.message_id,
        properties.type,
        properties.user_id,
        properties.app_id,
    )
    # class, weight, body size, flags: 14; delivery mode, priority and timestamp: 10
    return 24 + sum(1 + len(text.encode(errors="replace")) for text in texts if text is not None)
