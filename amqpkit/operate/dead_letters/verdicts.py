"""Which letters are replayed, and where to. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from amqpkit.model import Received, WorkQueue
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.letter import Letter


@dataclass(frozen=True, slots=True)
class Order:
    """What a replay is asked to do.

    `run` names it, on every message that it replays. `rate` (a second) and `max_replays` are the file's unless given;
    `limit` is how many to replay. `to` is a queue instead of each letter's own; `to_exchange` sends to the exchange and
    key of the first publish, which every queue bound there gets. `force` replays what was replayed too often.
    """

    run: str
    filter: Filter = field(default_factory=Filter)
    to: str | None = None
    to_exchange: bool = False
    limit: int | None = None
    rate: float | None = None
    max_replays: int | None = None
    force: bool = False
    dry_run: bool = False

    def for_queue(self, work: WorkQueue | None) -> tuple[float | None, int | None]:
        """Rate and most replays of a letter, those of the work queue's file where the order does not say."""
        if work is None:
            return self.rate, self.max_replays
        rate = work.replay.rate if self.rate is None else self.rate
        return rate, work.replay.max_replays if self.max_replays is None else self.max_replays


class Reason(StrEnum):
    """Why a letter stays where it is."""

    FILTERED = "not asked for"
    THIS_RUN = "replayed in this run, and dead again"
    TOO_OFTEN = "replayed as often as allowed"
    NO_TARGET = "nothing tells where it failed"
    ITSELF = "it failed in this very queue"


@dataclass(frozen=True, slots=True)
class Go:
    """To be replayed, to there; the default exchange means the queue of that name."""

    exchange: str
    routing_key: str


def judge(letter: Letter, order: Order, *, max_replays: int | None) -> Go | Reason:
    """Say where a letter goes, or why it stays."""
    if letter.replay_run == order.run:
        return Reason.THIS_RUN
    if not order.filter.admits(letter):
        return Reason.FILTERED
    if max_replays is not None and letter.replays >= max_replays and not order.force:
        return Reason.TOO_OFTEN
    if order.to_exchange:
        return Go(letter.exchange, letter.routing_key)
    target = order.to or letter.own_queue
    if target is None:
        return Reason.NO_TARGET
    return Reason.ITSELF if target == letter.queue else Go("", target)


def was_out(received: Received) -> bool:
    """Whether a letter may have been in the hands of a reader that was lost, such as a replay that was killed.

    A quorum queue of RabbitMQ 4.3 tells readers that were lost (`x-delivery-count`) from looks that gave everything
    back (`x-acquired-count` alone); others mark both alike.
    """
    headers = received.properties.headers
    if not received.redelivered:
        return False
    return "x-acquired-count" not in headers or headers.get("x-delivery-count", 0) != 0
