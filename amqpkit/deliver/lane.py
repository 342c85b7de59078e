"""One consumed queue: deliveries wait here, a fixed pool of slots takes them, and a drain gives back the rest."""

import asyncio
from collections import deque
from collections.abc import Sequence

from aiolimiter import AsyncLimiter

from amqpkit.deliver.slot import Slot
from amqpkit.ports import Delivery, Subscription, Transport


class Lane:
    """The deliveries of one queue on their way to `slots`; `rate` in messages a second."""

    def __init__(self, queue: str, slots: Sequence[Slot], *, prefetch: int, rate: float | None) -> None:
        """Start with nothing; `start` subscribes."""
        self.queue = queue
        self._slots, self._prefetch = slots, prefetch
        self._waiting: deque[Delivery] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self._rate = rate
        self.subscription: Subscription | None = None

    async def start(self, transport: Transport) -> None:
        """Subscribe and set the pool to work; raises what `Transport.consume` raises."""
        limiter = None
        if self._rate is not None:
            burst = max(1.0, self._rate / 10)  # smooth within a tenth of a second
            limiter = AsyncLimiter(burst, burst / self._rate)
        self._tasks = [asyncio.create_task(self._work(slot, limiter)) for slot in self._slots]
        self.subscription = await transport.consume(self.queue, prefetch=self._prefetch, deliver=self.deliver)

    @property
    def ready(self) -> bool:
        """Whether messages of this queue are being handled: subscribed, and not every slot is stuck."""
        subscribed = self.subscription is not None and self.subscription.ready
        return (
            subscribed
            and not self._stop.is_set()
            and not any(slot.holding for slot in self._slots)
            and not all(slot.stuck for slot in self._slots)
        )

    @property
    def abandoned(self) -> bool:
        """Whether a thread that outlived its timeout still runs."""
        return any(slot.abandoned for slot in self._slots)

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery in; only enqueues."""
        self._waiting.append(delivery)
        self._wake()

    def _wake(self) -> None:
        while self._idle:
            sleeper = self._idle.pop()
            if not sleeper.done():
                sleeper.set_result(None)
                return

    async def _work(self, slot: Slot, limiter: AsyncLimiter | None) -> None:
        taken = 0
        while not self._stop.is_set():
            if not self._waiting:
                sleeper = asyncio.get_running_loop().create_future()
                self._idle.append(sleeper)
                await sleeper
                continue
            if limiter is not None:
                # before taking one: a message that waits for the rate has not begun, a drain can give it back
                await limiter.acquire()
                if self._stop.is_set() or not self._waiting:
                    continue
            delivery = self._waiting.popleft()
            if self._waiting:
                self._wake()
            if delivery.alive:  # else the broker delivers it again on the new channel
                await slot.take(delivery)
                await slot.rest(self._stop)
            taken += 1
            if taken % 64 == 0:
                await asyncio.sleep(0)  # handlers that never wait must let the loop breathe

    @property
    def work(self) -> Sequence[asyncio.Task[None]]:
        """The pool's tasks; one that ends before a drain has broken."""
        return self._tasks

    async def drain(self) -> None:
        """Stop deliveries, give back at once what has not begun; returns when nothing new can begin."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self.subscription is not None:
            # first no more deliveries, then give back: else the broker hands the same ones to us again
            await self.subscription.pause()
        while self._waiting:
            self._waiting.popleft().requeue()
        for sleeper in self._idle:
            if not sleeper.done():
                sleeper.set_result(None)

    async def finished(self) -> None:
        """Wait until every begun message has its end; raises if a slot broke."""
        if self._tasks:
            await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """End the pool and the subscription; what is still unsettled goes back with the channel."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # not longer: a handler that swallows its cancellation must not keep the process
            await asyncio.wait(self._tasks, timeout=1)
        if self.subscription is not None:
            await self.subscription.close()
