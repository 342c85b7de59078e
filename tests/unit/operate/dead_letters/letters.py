"""Letters for tests."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from amqpkit.deliver import headers as h
from amqpkit.model import Properties
from amqpkit.operate.dead_letters.letter import HistoryLine, Letter

DIED = datetime(2026, 3, 1, 12, tzinfo=UTC)


def letter(**differences: Any) -> Letter:
    """A letter of ours that died of NoAnswer."""
    facts: dict[str, Any] = {
        "id": "m-1",
        "queue": "orders.dlq",
        "own_queue": "orders",
        "exchange": "shop",
        "routing_key": "order.place.eu",
        "type": "order.place",
        "version": 1,
        "fate": "exhausted",
        "error": ("NoAnswer", "no", "Traceback …"),
        "history": (HistoryLine(DIED - timedelta(minutes=1), 1, "NoAnswer", "no", "1m"),),
        "published_at": DIED - timedelta(minutes=2),
        "died_at": DIED,
        "attempts": 2,
        "replays": 0,
        "replay_run": None,
        "key": "m-1",
        "size": 13,
        "source": "amqpkit",
        "redelivered": False,
    }
    return Letter(**facts | differences)


@dataclass
class Found:
    """What lies in a dead-letter queue; it satisfies `Received`."""

    body: bytes = b'{"id": "o-1"}'
    properties: Properties = field(default_factory=Properties)
    queue: str = "orders.dlq"
    exchange: str = "orders.dlx"
    routing_key: str = "orders"
    redelivered: bool = False


OURS: dict[str, Any] = {
    h.VERSION: 2,
    h.KEY: "invoice-7",
    h.PUBLISHED_AT: "2026-03-01T11:58:00.000Z",
    h.EXCHANGE: "shop",
    h.ROUTING_KEY: "order.place.eu",
    h.FIRST_SEEN: "2026-03-01T11:58:01.000Z",
    h.ATTEMPT: 3,
    h.CRASHES: 1,
    h.FATE: "exhausted",
    h.ERROR: {
        "type": "NoAnswer",
        "message": "no answer in 8 s",
        "traceback": "Traceback …",
        "at": "2026-03-01T12:00:00.000Z",
        "worker": "host:1",
    },
    h.HISTORY: [
        {"attempt": 1, "at": "2026-03-01T11:59:00.000Z", "type": "NoAnswer", "message": "no answer", "delay": "1m"},
        {"attempt": 2, "at": "2026-03-01T12:00:00.000Z", "type": "NoAnswer", "message": "no answer", "delay": None},
    ],
    "traceparent": "00-aa-bb-01",
}
"""What our worker writes on a letter that it buries."""

DEATHS: list[Any] = [
    {
        "count": 3,
        "reason": "expired",
        "queue": "work.wait",
        "time": datetime(2026, 3, 1, 11, 30, tzinfo=UTC),
        "exchange": "",
        "routing-keys": ["work.wait"],
    },
    {
        "count": 4,
        "reason": "rejected",
        "queue": "work",
        "time": datetime(2026, 3, 1, 11, tzinfo=UTC),
        "exchange": "events",
        "routing-keys": ["order.paid", "cc"],
    },
]
"""What RabbitMQ writes, newest first."""
