"""A dead letter as an operator sees it: who sent it, where it failed, why, how often.

Pure, and total: a letter may hold anything, and is read as far as it goes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from amqpkit.deliver import headers as h
from amqpkit.model import Received, WorkQueue
from amqpkit.operate.dead_letters.foreign import Death, Told, read_deaths, read_foreign

FATES: Final = ("permanent", "exhausted", "invalid", "too-new", "crashed")
"""Of letters that our workers buried; others have the broker's reason, `failed` (Spring) or `unknown`."""
OURS: Final = "amqpkit"


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One thing that happened to a letter; `attempt` is 0 and `delay` None where there was none."""

    at: datetime | None
    attempt: int
    type: str
    message: str
    delay: str | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter; `size` is of its body in bytes, `own_queue` is where it failed, None when nothing tells."""

    id: str
    queue: str
    own_queue: str | None
    exchange: str
    routing_key: str
    type: str
    version: int | None
    fate: str
    error: tuple[str, str, str]
    """Type, message and traceback of the last failure."""
    history: tuple[HistoryLine, ...]
    published_at: datetime | None
    died_at: datetime | None
    attempts: int
    replays: int
    replay_run: str | None
    key: str | None
    size: int
    source: str
    redelivered: bool

    @property
    def at(self) -> datetime | None:
        """When it died; of a letter that does not tell, when it was published."""
        return self.died_at or self.published_at


def read_letter(received: Received, *, work: WorkQueue | None) -> Letter:
    """Read a message of a dead-letter queue; `work` is the work queue that it belongs to, if one is known."""
    properties, headers = received.properties, received.properties.headers
    told = read_foreign(headers)
    fate = headers.get(h.FATE)
    error = headers.get(h.ERROR)
    deaths = read_deaths(headers)
    letter = Letter(
        id=properties.message_id or digest(received),
        queue=received.queue,
        own_queue=work.name if work else told.queue,
        exchange=received.exchange,
        routing_key=received.routing_key,
        type=properties.type or told.type,
        # absent means 1 to our readers only
        version=h.read_version(headers) if h.VERSION in headers or h.FATE in headers else None,
        fate=told.fate,
        error=told.error,
        history=(*_history(headers), *map(_line_of, reversed(deaths))),
        published_at=h.read_published_at(received),
        died_at=max((death.at for death in deaths if death.at), default=None),
        attempts=told.attempts,
        replays=_count(headers, h.REPLAYS),
        replay_run=run if isinstance(run := headers.get(h.REPLAY_RUN), str) else None,
        key=h.read_key(received),
        size=len(received.body),
        source=told.source,
        redelivered=received.redelivered,
    )
    exchange, routing_key = _origin(received, told)
    letter = replace(letter, exchange=exchange, routing_key=routing_key)
    if isinstance(fate, str) and fate in FATES:
        return _ours(letter, received, fate, error if isinstance(error, Mapping) else {})
    return replace(letter, attempts=_count(headers, h.ATTEMPT) or letter.attempts)


def _ours(letter: Letter, received: Received, fate: str, error: Mapping[str, Any]) -> Letter:
    at = h.read_instant(error.get("at"))
    # the dead-letter exchange is named after the queue, and the copy is sent with the queue's name as its key
    named = received.routing_key if received.exchange == f"{received.routing_key}.dlx" else None
    return replace(
        letter,
        own_queue=letter.own_queue or named,
        fate=fate,
        error=(_str(error, "type")[:200], _str(error, "message"), _str(error, "traceback")),
        died_at=at or letter.died_at,
        attempts=_count(received.properties.headers, h.ATTEMPT),
        source=OURS,
    )


def _origin(received: Received, told: Told) -> tuple[str, str]:
    headers = received.properties.headers
    if isinstance(headers.get(h.EXCHANGE), str) and isinstance(headers.get(h.ROUTING_KEY), str):
        return h.read_origin(received)
    return told.origin or (received.exchange, received.routing_key)


def _history(headers: Mapping[str, Any]) -> tuple[HistoryLine, ...]:
    lines = headers.get(h.HISTORY)
    if not isinstance(lines, list):
        return ()
    return tuple(
        HistoryLine(
            at=h.read_instant(line.get("at")),
            attempt=_count(line, "attempt"),
            type=_str(line, "type")[:200],
            message=_str(line, "message"),
            delay=delay if isinstance(delay := line.get("delay"), str) else None,
        )
        for line in lines[-2 * h.HISTORY_MAX :]
        if isinstance(line, Mapping)
    )


def _line_of(death: Death) -> HistoryLine:
    times = f" ({death.count} times since)" if death.count > 1 else ""
    return HistoryLine(death.at, 0, death.reason, f"by queue {death.queue}{times}")


def digest(received: Received) -> str:
    """Name a letter that has no id by its content, without what the broker changes at each look."""
    properties = received.properties
    headers = {name: value for name, value in properties.headers.items() if not h.is_brokers(name)}
    content = sha256(received.body)
    told = json.dumps({"properties": repr(replace(properties, headers={})), "headers": headers}, default=repr)
    content.update(told.encode())
    return f"sha256:{content.hexdigest()[:16]}"


def _str(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= h.COUNT_MAX else 0
