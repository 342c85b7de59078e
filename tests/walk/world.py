"""A world of one work queue in which a worker can die before any effect: queues, store and ledger as plain values."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from amqpkit import Payload
from amqpkit.deliver.case import Terms
from amqpkit.deliver.effects import (
    Ack,
    Claim,
    Compensate,
    Complete,
    Effect,
    Invoke,
    Moment,
    Publish,
    Raised,
    Refuse,
    Release,
    Requeue,
    Returned,
)
from amqpkit.deliver.payload import decode
from amqpkit.deliver.walk import walk
from amqpkit.model import DeadLetter, Delay, DelayQueue, Message, Properties, RetryAfter, WorkQueue
from amqpkit.ports import Claimed, Hold

START = datetime(2026, 1, 1, tzinfo=UTC)


class Order(Payload, type="order.place"):
    """The payload of these tests."""

    id: str


class Died(Exception):
    """The process is gone: nothing after this happens."""


def delay(seconds: int) -> Delay:
    return Delay(seconds * 1000, (DelayQueue(f"{seconds}s", f"orders.retry.{seconds}s", seconds * 1000),))


WORK = WorkQueue(
    name="orders",
    accepts=("order.place", "order.cancel"),
    retry_exchange="orders.retry",
    dead_exchange="orders.dlx",
    dead_queue="orders.dlq",
    delays=(delay(10), delay(60)),
    snoozes=(delay(10), delay(60)),
    delivery_limit=3,
)


def terms(work: WorkQueue | None = WORK, never: tuple[type[BaseException], ...] = ()) -> Terms:
    known = {Order.payload_type: Order}
    accepts = work.accepts if work else ("order.place",)
    return Terms(
        queue="orders", decode=partial(decode, known=known, accepts=accepts), work=work, never_retry=never, worker="w1"
    )


PLACED = Properties(message_id="m-1", type="order.place")


@dataclass
class Got:
    """A delivery of this world; it satisfies `Received`."""

    body: bytes = b'{"id": "o-1"}'
    properties: Properties = PLACED
    queue: str = "orders"
    exchange: str = "shop"
    routing_key: str = "order.place.eu"
    redelivered: bool = False


@dataclass
class World:
    """Where every copy is, what the handler did, and when the worker dies (before its n-th effect, or never)."""

    handler: Callable[[int], object]
    die_before: int | None = None
    walk: Callable[..., Any] = walk
    terms: Terms = field(default_factory=terms)
    now: datetime = START
    calls: int = 0
    effects: int = 0
    deaths: int = 0
    ready: list[Got] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    refused: list[Got] = field(default_factory=list)
    acked: int = 0
    handled: Counter[str] = field(default_factory=Counter)
    compensated: int = 0
    leases: dict[str, datetime] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    seen: list[Effect] = field(default_factory=list)
    unacked: Got | None = None
    delays: list[str] = field(default_factory=list)

    def perform(self, effect: Effect) -> object:
        """Do one effect, unless it is the one before which the worker dies."""
        if self.effects == self.die_before:
            self.effects += 1
            raise Died
        self.effects += 1
        self.seen.append(effect)
        return self._do(effect)

    def _do(self, effect: Effect) -> object:  # noqa: C901 - one short case for each effect there is
        match effect:
            case Claim(key, lease):
                if key in self.done:
                    return Claimed(Hold.DONE)
                if (until := self.leases.get(key, self.now)) > self.now:
                    return Claimed(Hold.HELD, (until - self.now).total_seconds())
                self.leases[key] = self.now + timedelta(seconds=lease)
                return Claimed(Hold.CLAIMED)
            case Invoke(payload):
                return self._call(payload)
            case Compensate():
                self.compensated += 1
            case Publish(exchange, routing_key, message):
                self._place(exchange, routing_key, message)
            case Complete(key):
                self.done.add(key)
                self.leases.pop(key, None)
            case Release(key):
                self.leases.pop(key, None)
            case Ack():
                self.unacked, self.acked = None, self.acked + 1
            case Requeue():
                assert self.unacked is not None
                self.ready.append(replace(self.unacked, redelivered=True))
                self.unacked = None
            case Refuse():
                assert self.unacked is not None
                self.refused.append(self.unacked)
                self.unacked = None
        return None

    def _call(self, payload: Any) -> Returned | Raised:
        self.calls += 1
        moment = Moment(self.now)
        try:
            value = self.handler(self.calls)
        except Exception as error:  # noqa: BLE001 - a handler of the test may raise anything
            return Raised(error, moment)
        if not isinstance(value, DeadLetter | RetryAfter):
            self.handled[payload.id] += 1
        return Returned(value, moment)

    def _place(self, exchange: str, routing_key: str, message: Message) -> None:
        if exchange == WORK.dead_exchange:
            self.dead.append(message)
            return
        assert exchange == WORK.retry_exchange
        self.delays.append(routing_key)
        self.ready.append(Got(message.body, message.properties, exchange="orders.retry", routing_key="return"))

    def deliveries(self, bound: int = 60) -> Iterator[Any]:
        """Give out walks until the queue is empty; time passes generously between deliveries."""
        for _ in range(bound):
            if not self.ready:
                return
            self.unacked = self.ready.pop(0)
            yield self.walk(self.unacked, self.terms, Moment(self.now))
            self.now += timedelta(hours=1)
        msg = f"still not at an end after {bound} deliveries"
        raise AssertionError(msg)

    def came_back(self) -> None:
        """The worker died: the broker counts a delivery and gives the unacked message back."""
        self.deaths += 1
        if self.unacked is not None:
            old = self.unacked
            headers = dict(old.properties.headers)
            headers["x-delivery-count"] = headers.get("x-delivery-count", 0) + 1
            again = replace(old, redelivered=True, properties=replace(old.properties, headers=headers))
            self.ready.append(again)
            self.unacked = None

    def check_nothing_lost(self, ids: set[str]) -> None:
        """Promise 1: of every message at least one copy is handled, or in a queue with a person's name on it."""
        assert self.unacked is None, "a delivery was left without an end"
        bodies = [message.body for message in self.dead] + [got.body for got in self.refused]
        kept = {name for name in ids if any(name.encode() in body for body in bodies)}
        assert set(self.handled) | kept == ids, "a message was lost"
