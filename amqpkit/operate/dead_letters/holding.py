"""Holding the letters of a queue: taken through consumers, kept unsettled, given back in the order in which they came.

A letter that is passed over must stay out of the queue until the end, or it would be seen again. Each consumer has a
channel of its own, a page: when its prefetch is used up by letters that are only kept, the next page is opened. What
was kept is forgotten but for its delivery tag, so memory holds one page of bodies, however long the queue.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from amqpkit.errors import BrokerError
from amqpkit.operate.dead_letters.page import PAGE, Page, Taken, gives_back_by_nack, page_size
from amqpkit.operate.dead_letters.waiting import SLICE, depth_of, moment
from amqpkit.ports import Clock, Transport

SETTLED_AFTER: Final = 1.0
QUIET: Final = 5
PATIENCE: Final = 30.0
"""Seconds without a letter, though some wait, after which nobody expects one any more."""

LOST: Final = "the connection was lost: what was held went back to the queue by itself"
STOPPED: Final = "stopped"
SILENT: Final = "letters wait, but the broker gives us none: another consumer may have the queue for itself"


class Look:
    """The letters of a queue, one after the other, at most as many as were there at the start."""

    def __init__(self, transport: Transport, queue: str, *, total: int, clock: Clock, stop: asyncio.Event) -> None:
        """Begin to consume at the first `take`."""
        self._transport, self._queue, self._clock, self._stop = transport, queue, clock, stop
        self.total, self.seen = total, 0
        self.trouble = ""
        """Why it ended before the end; empty when it did not."""
        self._pages: list[Page] = []
        self._arrived = asyncio.Event()
        self._largest = 0
        self._silent = 0.0
        self._empty = False

    @property
    def at_hand(self) -> bool:
        """Whether a letter can be taken without waiting."""
        return bool(self._pages and self._pages[-1].inbox)

    async def take(self) -> Taken | None:
        """Give the next letter, or None when there is no more to see or something is in the way."""
        while self.seen < self.total and not self._is_over():
            page = self._pages[-1] if self._pages else None
            if page is not None and (page.full or self._misfits(page)):
                await self._pause(page)
            if page is None or page.read:
                if self._empty:
                    break
                await self._turn()
            elif page.inbox:
                return self._out(page)
            else:
                await self._wait(page)
        return None

    async def give_back(self) -> None:
        """Give back all that is held, the first letter first, and see it back.

        No consumer of ours may be left then, or it would be given them again. One page after the other, each closed
        before the next: channels do not wait for each other (measured: 5 of 5 times in disorder).
        """
        for page in self._pages:
            await self._pause(page)
        if any(page.lost for page in self._pages):
            self.trouble = LOST
        with suppress(BrokerError):  # what cannot be asked may be given back all the same
            held = sum(len(page.held) for page in self._pages)
            expected = held and held + await depth_of(self._transport, self._queue)
            await self._leave()
            await self._see_back(expected)
            return
        await self._leave()

    async def _leave(self) -> None:
        by_nack = gives_back_by_nack(self._transport.broker.version)
        for page in self._pages:
            await page.leave(by_nack=by_nack)
        self._pages.clear()

    async def _see_back(self, expected: int) -> None:
        """Wait until so many letters are there again, unless others take them.

        RabbitMQ 4.0 has them come back one by one after the channel is closed (20,000 within 0.1 s, measured): who
        counts or looks at once would miss some.
        """
        most, quiet = 0, 0
        while most < expected and quiet < QUIET:
            ready = await depth_of(self._transport, self._queue)
            most, quiet = max(most, ready), 0 if ready > most else quiet + 1
            if ready < expected:
                await self._clock.sleep(SLICE)

    def _is_over(self) -> bool:
        if self._pages and self._pages[-1].lost:
            self.trouble = LOST
        elif self._stop.is_set():
            self.trouble = STOPPED
        return bool(self.trouble)

    def _out(self, page: Page) -> Taken:
        self._silent = 0.0
        self.seen += 1
        taken = page.inbox.popleft()
        self._largest = max(self._largest, len(taken.delivery.body))
        return taken

    def _misfits(self, page: Page) -> bool:
        """Whether a page is much smaller than a usual one may be by now, or much larger than it should."""
        size = page_size(self.seen, self._largest)
        return page.used and (size * 2 <= page.prefetch or min(size, PAGE) >= page.prefetch * 2)

    async def _pause(self, page: Page) -> None:
        """End a page's consumer when nothing is on its way to it.

        RabbitMQ 4.0 may else count letters as delivered that it never sends: nobody sees them until the channel is
        closed, and then they come back behind all others (measured). So no ack is sent meanwhile, which would have the
        broker deliver more, and the prefetch must have arrived unless the queue holds no more.
        """
        if page.paused:
            return
        page.freeze()
        try:
            with suppress(BrokerError):
                await self._fill(page)
            await page.pause()
        finally:
            page.thaw()

    async def _fill(self, page: Page) -> None:
        quiet = 0.0
        while len(page.held) < page.prefetch and not page.lost and quiet < SETTLED_AFTER:
            self._arrived.clear()
            before = len(page.held)
            await moment(self._arrived, clock=self._clock)
            if len(page.held) > before:
                quiet = 0.0
            elif await depth_of(self._transport, self._queue) == 0:
                return
            else:
                quiet += SLICE

    async def _turn(self) -> None:
        size = min(page_size(self.seen, self._largest), self.total - self.seen)
        page = Page(size, self._arrived)
        self._pages.append(page)
        page.subscription = await self._transport.consume(self._queue, prefetch=size, deliver=page.receive)
        if any(before.lost for before in self._pages[:-1]):  # it is of another connection, and would give those again
            self.trouble = LOST

    async def _wait(self, page: Page) -> None:
        """Wait a moment for a letter; find out whether any is left."""
        self._arrived.clear()
        await moment(self._arrived, clock=self._clock)
        if page.inbox or len(page.held) >= page.prefetch:
            self._silent = 0.0
            return
        self._silent += SLICE
        if self._silent < SETTLED_AFTER:
            return
        if not page.lost and await depth_of(self._transport, self._queue) == 0:
            # What is on its way arrives before the consumer's end is confirmed.
            self._empty = True
            await self._pause(page)
        elif self._silent >= PATIENCE:
            self.trouble = SILENT


@asynccontextmanager
async def looking(
    transport: Transport, queue: str, *, clock: Clock, stop: asyncio.Event | None = None, limit: int | None = None
) -> AsyncIterator[Look]:
    """Look at a queue's letters, at most `limit`; in the end, also a bad one, what is held is given back in order.

    Raises QueueMissing and AccessRefused. `stop`, once set, ends the taking.
    """
    depth = await depth_of(transport, queue)
    total = depth if limit is None else min(depth, limit)
    look = Look(transport, queue, total=total, clock=clock, stop=stop or asyncio.Event())
    try:
        yield look
    finally:
        await look.give_back()
