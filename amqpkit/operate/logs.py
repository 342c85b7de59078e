"""Events as structured log records, and log records as JSON lines.

A record carries what an event carries: queue, message id, type, attempt, trace id, outcome. Never a payload: events
have none.
"""

import json
import logging
import re
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from amqpkit.events import (
    BadHeader,
    ClaimLost,
    Connected,
    ConnectionLost,
    ConsumerLost,
    Consuming,
    CopyHeld,
    DepthUnknown,
    DuplicateWindow,
    Event,
    Fate,
    NoKey,
    Outcome,
    Published,
    Settled,
    StoreDown,
)

_TROUBLE: Final = (
    CopyHeld,
    DuplicateWindow,
    StoreDown,
    ClaimLost,
    BadHeader,
    NoKey,
    DepthUnknown,
    ConnectionLost,
    ConsumerLost,
)
_ENDS_ON_PLAN: Final = {Outcome.HANDLED, Outcome.SNOOZED, Outcome.DUPLICATE, Outcome.REQUEUED}


class LogListener:
    """Logs each event with its facts as `extra` fields: `event`, `queue`, `message_id`, `attempt`, `trace`, and so on.

    What went as planned is DEBUG, a connection INFO, a failure WARNING, a dead letter ERROR. `type` and `fate` keep
    their names; none is a name that `logging` itself uses.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        """Log to `amqpkit.events`, or to another logger."""
        self._log = logger or logging.getLogger("amqpkit.events")

    def __call__(self, event: Event) -> None:
        """Log one event."""
        level = level_of(event)
        if self._log.isEnabledFor(level):
            name, facts = name_of(type(event).__name__), facts_of(event)
            self._log.log(level, "%s%s", name, _shown(facts), extra={"event": name, **facts})


def level_of(event: Event) -> int:
    """Say how loud an event is."""
    match event:
        case Settled(outcome=Outcome.DEAD):
            return logging.ERROR
        case Settled():
            return logging.DEBUG if event.outcome in _ENDS_ON_PLAN else logging.WARNING
        case Published():
            return logging.DEBUG if event.fate is Fate.CONFIRMED else logging.WARNING
        case Connected() | Consuming():
            return logging.INFO
        case _:
            return logging.WARNING if isinstance(event, _TROUBLE) else logging.DEBUG


@cache
def name_of(kind: str) -> str:
    """Name an event by its class: `CopyHeld` is `copy held`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()


def facts_of(event: Event) -> dict[str, Any]:
    """Give an event's facts by name: plain words and numbers; what it does not know is left out.

    Anything else (the input of a job) may be of a payload.
    """
    facts = ((field.name, getattr(event, field.name)) for field in fields(event))
    return {name: value for name, value in facts if isinstance(value, str | int | float) and value != ""}


def _shown(facts: dict[str, Any]) -> str:
    return "".join(f" {name}={_word(str(value))}" for name, value in facts.items())


def _word(text: str) -> str:
    """A stranger's message id may hold line breaks: quoted, none of them begins a line."""
    return text if text.isprintable() and _PLAIN.fullmatch(text) else json.dumps(text)


_PLAIN: Final = re.compile(r'[^\s"=\\]+')


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the record's extra fields, and the exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record; a value that JSON does not have is written as its text."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        # an event's facts say it all, field by field
        line |= {} if hasattr(record, "event") else {"message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
