"""A delivery and the settling of a channel's deliveries.

Acks of one loop turn leave together: the finished prefix as one `multiple` ack, the rest singly. One write for each
ack is what makes clients slow, and the broker with them (it needs 128 instead of 26 microseconds a message, measured).
"""

import asyncio
import math
from bisect import bisect_left
from contextlib import suppress
from typing import Any

from aiormq.abc import DeliveredMessage

from amqpkit.brokers.aio import codec, faults
from amqpkit.brokers.aio.tasks import stop
from amqpkit.brokers.aio.wire import Inlet
from amqpkit.model import Properties


class Settlements:
    """What was delivered on one channel and how it ended: the channel's epoch. Delivery tags mean nothing elsewhere."""

    def __init__(self, inlet: Inlet) -> None:
        """Begin with no delivery; the flusher lives until `close` or the end of the channel."""
        self._inlet = inlet
        self.sent = 0
        """How many settling frames were made."""
        self._unsettled: set[int] = set()
        self._acked: list[int] = []
        self._nacked: list[tuple[int, bool]] = []
        self._dirty = asyncio.Event()
        self._flushed = asyncio.Event()
        self._flushed.set()
        self._flusher = asyncio.create_task(self._flush_each_turn(), name="amqpkit acks")

    @property
    def stand(self) -> bool:
        """Whether a settlement can still be sent."""
        return self._inlet.stands

    def begin(self, tag: int) -> None:
        """A delivery came; tags grow by one with each."""
        self._unsettled.add(tag)

    def ack(self, tag: int) -> None:
        """Have a delivery acked in this loop turn."""
        self._unsettled.discard(tag)
        self._acked.append(tag)
        self._soil()

    def nack(self, tag: int, *, requeue: bool) -> None:
        """Have a delivery nacked in this loop turn."""
        self._unsettled.discard(tag)
        self._nacked.append((tag, requeue))
        self._soil()

    def frames(self) -> bytes:
        """Give the frames for all that was settled since the last call.

        Nacks go first, so that the `multiple` ack behind them cannot cover one. It names a tag that is acked
        just now: one that is settled already would close the channel (406).
        """
        nacks, self._nacked = self._nacked, []
        acked, self._acked = sorted(self._acked), []
        together = self._oldest(nacks, acked)
        given_back = nacks[together - 1][0] if together else 0
        behind = bisect_left(acked, min(self._unsettled)) if self._unsettled else len(acked)
        last = acked[behind - 1] if behind else 0
        self.sent += len(nacks) - together + bool(together) + len(acked) - behind + bool(last)
        return self._inlet.nacks(given_back, nacks[together:]) + self._inlet.acks(last, acked[behind:])

    def _oldest(self, nacks: list[tuple[int, bool]], acked: list[int]) -> int:
        """Count the first nacks that one frame can say: they give back the oldest of all, in the order they came.

        Whoever gives back what it held gives it back so. With a frame for each the broker would keep some until the
        consumer that makes a close safe comes by, which takes the first of them and puts it behind the others.
        """
        others = min((*self._unsettled, *acked[:1]), default=math.inf)
        count = 0
        for (tag, requeue), lowest in zip(nacks, sorted(tag for tag, _ in nacks), strict=True):
            if not requeue or tag != lowest or tag > others:
                break
            count += 1
        return count

    async def flush(self) -> None:
        """Wait until everything settled so far is in the socket, or the channel is gone."""
        flushed = asyncio.create_task(self._flushed.wait())
        ends: set[asyncio.Future[Any]] = {flushed, self._inlet.lost, self._flusher}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        flushed.cancel()

    async def close(self) -> None:
        """Send nothing more."""
        await stop(self._flusher)

    def _soil(self) -> None:
        self._dirty.set()
        self._flushed.clear()

    async def _flush_each_turn(self) -> None:
        with suppress(*faults.TROUBLE):
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                if not self.stand:
                    return
                await self._inlet.write(self.frames())
                if not self._dirty.is_set():
                    self._flushed.set()


class AioDelivery:
    """A received message; what aiormq has read of it is looked at when asked for."""

    __slots__ = ("_epoch", "_message", "_properties", "_settled", "_tag", "queue")

    def __init__(self, queue: str, message: DeliveredMessage, epoch: Settlements) -> None:
        """Keep the message and the channel that it came on."""
        self.queue = queue
        self._message: DeliveredMessage | None = message
        self._epoch, self._tag = epoch, message.delivery_tag or 0
        self._properties: Properties | None = None
        self._settled = False
        epoch.begin(self._tag)

    @property
    def exchange(self) -> str:
        """Where it was published to."""
        return self._said.exchange or ""

    @property
    def routing_key(self) -> str:
        """The key that it was published with."""
        return self._said.routing_key or ""

    @property
    def redelivered(self) -> bool:
        """Whether the broker has delivered it before."""
        return bool(self._said.redelivered)

    @property
    def body(self) -> bytes:
        """What it says."""
        return self._said.body

    @property
    def properties(self) -> Properties:
        """Its properties, read once."""
        if self._properties is None:
            self._properties = codec.decode(self._said.header.properties)
        return self._properties

    @property
    def alive(self) -> bool:
        """Whether the channel that it came on still stands."""
        return self._epoch.stand

    def forget(self) -> None:
        """Let go of what it says; it can still be settled."""
        self._message = self._properties = None

    def ack(self) -> None:
        """Settle: the broker forgets the message."""
        if self._begin_to_settle():
            self._epoch.ack(self._tag)

    def requeue(self) -> None:
        """Give it back to the queue at once."""
        if self._begin_to_settle():
            self._epoch.nack(self._tag, requeue=True)

    def refuse(self) -> None:
        """Give it to the queue's own dead-letter exchange, untouched."""
        if self._begin_to_settle():
            self._epoch.nack(self._tag, requeue=False)

    @property
    def _said(self) -> DeliveredMessage:
        if self._message is None:
            msg = f"a delivery from {self.queue} was forgotten, and is read all the same"
            raise ValueError(msg)
        return self._message

    def _begin_to_settle(self) -> bool:
        # A second verb is a fault of the caller's, but would cost the channel (406) and everybody's deliveries on it.
        if self._settled or not self._epoch.stand:
            return False
        self._settled = True
        return True
