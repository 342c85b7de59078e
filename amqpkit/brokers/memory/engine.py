"""The movement of messages between queues, consumers and dead-letter exchanges, until nothing more can move.

Time comes from the injected clock only; no client, no loop. Every verb ends in `work`, which runs to rest.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from amqpkit.brokers.memory.channel import Channel, Consumer, Fate, Outstanding
from amqpkit.brokers.memory.death import die, is_cycle, onward
from amqpkit.brokers.memory.ledger import Ledger
from amqpkit.brokers.memory.queue import (
    Held,
    QueueState,
    Way,
    arrived,
    discarded,
    given_back,
    over_limit,
)
from amqpkit.brokers.memory.stored import Stored
from amqpkit.brokers.memory.vhost import Vhost
from amqpkit.ports import Clock

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_IN_FLIGHT: Final = 32
"""How many dead letters at-least-once tries at a time (broker-read: dead_letter_worker_consumer_prefetch)."""


class Engine:
    """Moves what can move in one vhost."""

    def __init__(self, vhost: Vhost, clock: Clock, ledger: Ledger, dead_letter_retry: float) -> None:
        """Try held dead letters again every `dead_letter_retry` seconds."""
        self.vhost = vhost
        self.clock = clock
        self.ledger = ledger
        self.revision = 0
        self._retry = round(dead_letter_retry * 1000)
        self._dirty: dict[str, QueueState] = {}
        self._serials = count(1)

    def milliseconds(self) -> int:
        """Read the clock as whole milliseconds."""
        return (self.clock.now() - _EPOCH) // timedelta(milliseconds=1)

    def next_serial(self) -> int:
        """Number a copy by its arrival."""
        return next(self._serials)

    # --- into queues -----------------------------------------------------------------------------

    def post(self, stored: Stored, queues: Iterable[QueueState]) -> bool:
        """Offer a copy to each queue; say whether all took it."""
        taken = [self._offer(queue, stored) for queue in queues]
        return all(taken)

    def _offer(self, queue: QueueState, stored: Stored, *, confirmed: bool = True) -> bool:
        copy = arrived(stored, self.next_serial(), quorum=queue.quorum, profile=self.vhost.profile)
        if queue.refuses(copy, confirmed=confirmed):
            if queue.settings.overflow == "reject-publish-dlx":
                self._enter(queue, copy)
                self.bury(queue, copy, "maxlen")
            return False
        self._enter(queue, copy)
        queue.push(copy, self.milliseconds())
        self._deliver(queue)
        queue.evaluate()
        self.touch(queue)
        return True

    def _enter(self, queue: QueueState, copy: Stored) -> None:
        self.ledger.queued(copy.id, queue.name, self.clock.now())

    # --- out of queues ---------------------------------------------------------------------------

    def touch(self, queue: QueueState) -> None:
        """Have `work` look at a queue."""
        self._dirty[queue.name] = queue

    def work(self) -> None:
        """Move until nothing can move, then set each queue's alarm for what time will do."""
        self.revision += 1
        while self._dirty:
            queue = self._dirty.pop(next(iter(self._dirty)))
            if not queue.deleted:
                self._step(queue)
                self._arm(queue)

    def _step(self, queue: QueueState) -> None:
        now = self.milliseconds()
        while late := queue.overdue(now):
            self._time_out(late)
        self._deliver(queue)
        self._bury_expired(queue, now)
        while queue.too_many() and (oldest := queue.line.pop()):
            self.bury(queue, oldest, "maxlen")
        self._forward(queue, now)
        queue.evaluate()

    def _deliver(self, queue: QueueState) -> None:
        """Give heads to consumers with credit, in turn; a head past its deadline dies instead of coming late."""
        now = self.milliseconds()
        while consumer := next((one for one in queue.consumers if one.has_credit), None):
            self._bury_expired(queue, now - 1)
            stored = queue.line.pop()
            if stored is None:
                return
            queue.consumers.remove(consumer)
            queue.consumers.append(consumer)
            self._hand_over(consumer, stored, now)

    def _bury_expired(self, queue: QueueState, now: int) -> None:
        while (dead := queue.line.pop_expired(now)) is not None:
            self.bury(queue, dead, "expired")

    def _hand_over(self, consumer: Consumer, stored: Stored, now: int) -> None:
        channel, queue = consumer.channel, consumer.queue
        channel.tags += 1
        out = Outstanding(channel.tags, stored, queue, consumer, now)
        channel.unsettled[out.tag] = out
        queue.unacked[stored.serial] = out
        consumer.unsettled += 1
        self.ledger.moved(stored.id, queue.name, "delivered", self.clock.now())
        consumer.deliver(out)

    def _arm(self, queue: QueueState) -> None:
        due = queue.next_event()
        if queue.alarm is not None:
            if queue.alarm[0] == due:
                return
            queue.alarm[1]()
            queue.alarm = None
        if due is not None:
            wait = max(0, due - self.milliseconds()) / 1000
            queue.alarm = (due, self.clock.call_later(wait, lambda: self._ring(queue)))

    def _ring(self, queue: QueueState) -> None:
        queue.alarm = None
        self.touch(queue)
        self.work()

    # --- settling --------------------------------------------------------------------------------

    def take(self, channel: Channel, tag: int) -> Outstanding | None:
        """Take a delivery off its channel to settle it; None when there is nothing left to settle.

        A delivery that timed out is somebody else's by now: its late answer only wakes its consumer (4.3).
        """
        out = channel.unsettled.pop(tag)
        out.consumer.unsettled -= 1
        self.touch(out.queue)
        if out.overdue:
            out.consumer.overdue -= 1
            return None
        return out if out.queue.unacked.pop(out.stored.serial, None) else None

    def forget(self, out: Outstanding) -> None:
        """End an acked message."""
        self.ledger.ended(out.stored.id, out.queue.name, "acked", self.clock.now())

    def give_back(self, out: Outstanding, way: Way) -> None:
        """Put a message back, unless it has been out too often: then it dies."""
        queue = out.queue
        stored = given_back(out.stored, way, quorum=queue.quorum, profile=self.vhost.profile)
        if queue.quorum and over_limit(stored, queue.settings.delivery_limit, self.vhost.profile):
            self.bury(queue, stored, "delivery_limit")
            return
        if way is not Way.CLOSED and self._goes_behind(queue):
            queue.line.push(stored)
        else:
            queue.line.give_back(stored)
        self.ledger.moved(stored.id, queue.name, "returned", self.clock.now())

    def _goes_behind(self, queue: QueueState) -> bool:
        """Whether what is given back goes behind all that waits: on 4.0, without a delivery limit (measured)."""
        return queue.quorum and queue.settings.delivery_limit is None and not self.vhost.profile.since_4_3

    def discard(self, out: Outstanding, way: Way) -> None:
        """Refuse a message without requeue."""
        stored = discarded(out.stored, way, quorum=out.queue.quorum, profile=self.vhost.profile)
        self.bury(out.queue, stored, "rejected")

    def _time_out(self, out: Outstanding) -> None:
        """Take a late delivery back: 4.3 cancels the consumer but keeps it, 4.0 closes its channel."""
        if not self.vhost.profile.since_4_3:
            self.close(
                out.consumer.channel,
                "PRECONDITION_FAILED - delivery acknowledgement on channel timed out",
            )
            return
        del out.queue.unacked[out.stored.serial]
        out.overdue = True
        out.consumer.overdue += 1
        self.give_back(out, Way.TIMEOUT)
        out.consumer.cancelled("delivery acknowledgement timed out")

    def close(self, channel: Channel, reason: str | None) -> None:
        """End a channel: what it holds goes back, what it published is of unknown fate; tell it unless it asked."""
        if not channel.alive:
            return
        channel.alive = False
        channel.connection.channels.remove(channel)
        for consumer in channel.consumers:
            self.cancel(consumer)
        for tag in list(channel.unsettled):
            if out := self.take(channel, tag):
                self.give_back(out, Way.CLOSED)
        for told in channel.unconfirmed:
            told(Fate.UNKNOWN, reason or "the channel was closed")
        channel.unconfirmed.clear()
        if reason is not None:
            channel.closed(reason)

    def cancel(self, consumer: Consumer) -> None:
        """Deliver no more to a consumer; what it has it keeps."""
        if consumer in consumer.queue.consumers:
            consumer.queue.consumers.remove(consumer)
            self.revision += 1

    # --- the dead --------------------------------------------------------------------------------

    def bury(self, queue: QueueState, stored: Stored, reason: str) -> None:
        """Send a dead message to the queue's dead-letter exchange as it is at this moment, or drop it."""
        self.touch(queue)
        settings = queue.settings
        if settings.dead_letter_exchange is None:
            self.ledger.ended(stored.id, queue.name, f"dropped ({reason})", self.clock.now())
            return
        dead = die(stored, queue.name, reason, self.clock.now())
        letter = onward(dead, settings.dead_letter_exchange, settings.dead_letter_key)
        if settings.keeps_dead_letters:
            queue.held.append(Held(letter))
            queue.evaluate()  # it counts until its target has it, and may fill the queue for that moment (measured)
            self.ledger.moved(letter.id, queue.name, "held", self.clock.now())
            return
        targets = self._targets(letter)
        open_to = [target for target in targets if not is_cycle(letter.deaths, target.name)]
        taken = [self._offer(target, letter, confirmed=False) for target in open_to]
        why = "" if any(taken) else _loss(bool(targets), bool(open_to))
        self.ledger.ended(letter.id, queue.name, why, self.clock.now())

    def _targets(self, letter: Stored) -> list[QueueState]:
        return self.vhost.targets(letter.exchange, letter.routing_keys, letter.properties.headers)

    def _forward(self, queue: QueueState, now: int) -> None:
        """Offer held dead letters to those targets that have not taken them, some at a time, each again later."""
        while due := [held for held in queue.held[:_IN_FLIGHT] if held.due <= now]:
            for held in due:
                targets = [one for one in self._targets(held.stored) if not is_cycle(held.stored.deaths, one.name)]
                held.settled |= {
                    target.name
                    for target in targets
                    if target.name not in held.settled and self._offer(target, held.stored)
                }
                held.due = now + self._retry
                if targets and all(target.name in held.settled for target in targets):
                    queue.held.remove(held)
                    self.ledger.ended(held.stored.id, queue.name, "", self.clock.now())


def _loss(routed: bool, open_to: bool) -> str:  # noqa: FBT001 - two facts of one letter
    if not routed:
        return "dropped (dead letter unroutable)"
    return "dropped (dead letter refused)" if open_to else "dropped (cycle)"
