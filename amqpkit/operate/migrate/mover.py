"""Moves messages from one queue into another: each is published, confirmed, and only then acked.

A bounded number of messages, and of bytes, is in our hands at a time; so many are there twice when the process is
killed. Nothing here knows why messages are moved.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from amqpkit.errors import ConnectionFailed, Nacked, PublishError, PublishTimeout, PublishUncertain
from amqpkit.model import Message
from amqpkit.ports import Delivery, Subscription, Transport

WINDOW: Final = 100
"""Messages in our hands at most."""
FIRST: Final = 10
"""As long as nobody knows how large they are."""
BYTES: Final = 64 * 1024 * 1024
SLICE: Final = 0.05
"""Seconds between two looks when nothing happens."""
ANSWER: Final = 30.0
QUIET: Final = 1.0
"""Seconds after which nothing is on its way any more."""
PAUSE: Final = 0.5
"""Seconds before what a full queue refused is offered again."""


@dataclass(frozen=True, slots=True)
class Way:
    """From a queue through an exchange; `copy` makes the message."""

    source: str
    exchange: str
    copy: Callable[[Delivery], Message]


@dataclass(slots=True)
class Moved:
    """What came of it: `doubled` may be there twice; `trouble` says why it ended before the queue was empty."""

    messages: int = 0
    doubled: int = 0
    trouble: str = ""


class Mover:
    """Moves by one transport; `on_moved` hears of each message, `patience` is in seconds without any progress."""

    def __init__(
        self,
        transport: Transport,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        patience: float = 60.0,
        on_moved: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep what it takes."""
        self._transport, self._sleep, self._patience, self._on_moved = transport, sleep, patience, on_moved
        self._largest = 0

    async def move(self, way: Way, *, most: int | None = None) -> Moved:
        """Move until nothing is ready, or `most` have been moved.

        Raises QueueMissing, AccessRefused, ConnectionFailed.
        """
        moved = Moved()
        while not moved.trouble and (most is None or moved.messages < most):
            if not await self._depth(way.source):
                break
            left = WINDOW if most is None else most - moved.messages
            probing = not self._largest
            size = min(left, FIRST if probing else max(1, min(WINDOW, BYTES // self._largest)))
            turn = _Turn(way, self._transport, size, moved, self._on_moved, probing)
            await self._run(turn, most)
            self._largest = max(self._largest, turn.largest, 1)
        return moved

    async def _depth(self, queue: str) -> int:
        try:
            async with asyncio.timeout(ANSWER):
                return await self._transport.depth(queue)
        except TimeoutError:
            raise ConnectionFailed(f'nobody answers how many messages "{queue}" holds') from None

    async def _run(self, turn: "_Turn", most: int | None) -> None:
        """Move by one consumer, until it is to end for whatever reason."""
        turn.subscription = await self._transport.consume(turn.way.source, prefetch=turn.size, deliver=turn.receive)
        idle = 0.0
        try:
            while not turn.is_over(most):
                before = turn.moved.messages
                await self._sleep(PAUSE if turn.refused else SLICE)
                turn.send_again()
                idle = idle + SLICE if turn.moved.messages == before else 0.0
                if idle and not turn.busy and not await self._depth(turn.way.source):
                    return
                if idle >= self._patience:
                    turn.moved.trouble = turn.why_idle
                    return
        finally:
            await self._end(turn)

    async def _end(self, turn: "_Turn") -> None:
        """Have no more delivered; finish what is under way, and give back what cannot be moved."""
        assert turn.subscription is not None  # noqa: S101 - set before anything
        try:
            await self._fill(turn)
        finally:
            await turn.subscription.pause()
        while turn.under_way:
            await self._sleep(SLICE)  # each publish has its own deadline
        turn.thaw()
        if turn.lost:
            turn.moved.doubled += turn.size  # acks that were on their way may not have arrived
        turn.give_back()
        await turn.subscription.close()

    async def _fill(self, turn: "_Turn") -> None:
        """Wait until nothing is on its way to us: no ack is sent meanwhile, so that no more is delivered.

        RabbitMQ 4.0 may else count messages as delivered that it never sends, and put them behind all others when the
        channel is closed (measured).
        """
        turn.freeze()
        quiet = 0.0
        while turn.held < turn.size and quiet < QUIET and not (turn.lost or turn.moved.trouble):
            before = turn.received
            await self._sleep(SLICE)
            quiet = quiet + SLICE if turn.received == before else 0.0
            if quiet and not await self._depth(turn.way.source):
                return


@dataclass(slots=True)
class _Turn:
    """One consumer, what it was given, and what is under way."""

    way: Way
    transport: Transport
    size: int
    moved: Moved
    on_moved: Callable[[], None]
    probing: bool = False
    done: int = 0
    subscription: Subscription | None = None
    under_way: set[Delivery] = field(default_factory=set)
    refused: deque[Delivery] = field(default_factory=deque)
    why_refused: str = ""
    first: Delivery | None = None
    largest: int = 0
    received: int = 0
    acked: int = 0
    frozen: list[Delivery] | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is in our hands."""
        return bool(self.under_way or self.refused)

    @property
    def held(self) -> int:
        """How many the broker counts as ours."""
        return self.received - self.acked

    @property
    def lost(self) -> bool:
        """Whether the channel went on which the messages came."""
        return self.first is not None and not self.first.alive

    @property
    def why_idle(self) -> str:
        """Say what seems to be in the way."""
        if self.why_refused:
            return self.why_refused
        return f'queue "{self.way.source}" gives us none of its messages: another consumer may have it for itself'

    def is_over(self, most: int | None) -> bool:
        """Say whether to stop taking messages, for a while or for good."""
        outgrown = self.largest * self.size > 2 * BYTES and self.size > 1
        known = self.probing and self.done >= self.size
        enough = most is not None and self.moved.messages + len(self.under_way) >= most
        return bool(self.moved.trouble) or self.lost or outgrown or known or enough

    def receive(self, delivery: Delivery) -> None:
        """Send on what the broker delivers."""
        self.first = self.first or delivery
        self.received += 1
        self.largest = max(self.largest, len(delivery.body))
        if self.moved.trouble:
            self.refused.append(delivery)
        else:
            self._send(delivery)

    def send_again(self) -> None:
        """Offer once more what was refused."""
        if not self.moved.trouble:
            for _ in range(len(self.refused)):
                self._send(self.refused.popleft())

    def freeze(self) -> None:
        """Send no ack from now on."""
        self.frozen = []

    def thaw(self) -> None:
        """Send the acks."""
        frozen, self.frozen = self.frozen or [], None
        for delivery in frozen:
            self._ack(delivery)

    def give_back(self) -> None:
        """Let the queue have what was not moved."""
        for delivery in self.refused:
            delivery.requeue()
        self.refused.clear()

    def _send(self, delivery: Delivery) -> None:
        self.under_way.add(delivery)
        sent = self.transport.publish(self.way.exchange, delivery.routing_key, self.way.copy(delivery))
        sent.add_done_callback(lambda future: self._told(delivery, future))

    def _ack(self, delivery: Delivery) -> None:
        if self.frozen is not None:
            self.frozen.append(delivery)
            return
        if not delivery.alive:
            self.moved.doubled += 1
        delivery.ack()
        self.acked += 1

    def _told(self, delivery: Delivery, future: asyncio.Future[None]) -> None:
        self.under_way.discard(delivery)
        error = future.exception()
        if error is None:
            self._ack(delivery)
            self.moved.messages += 1
            self.done += 1
            self.on_moved()
            return
        self.refused.append(delivery)
        if isinstance(error, PublishUncertain):
            self.moved.doubled += 1
        elif not isinstance(error, Nacked | PublishTimeout):
            name = delivery.properties.message_id or "without an id"
            self.moved.trouble = f'message {name} of queue "{self.way.source}" cannot be moved: {error}'
            if not isinstance(error, PublishError):
                raise error
        self.why_refused = str(error)
