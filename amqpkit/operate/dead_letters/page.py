"""One consumer of a queue and the letters that it holds, unsettled."""

import asyncio
from collections import deque
from typing import Final

from amqpkit.ports import Delivery, Subscription

FIRST_PAGE: Final = 16
PAGE: Final = 100
PAGES: Final = 50
"""A page is at most this part of what was seen so far, or a connection's 2047 channels would bound what can be seen."""
PAGE_BYTES: Final = 64 * 1024 * 1024
SPARE: Final = 16
"""A page is turned when so little of its prefetch is left: what is settled after `basic.cancel` stays within the 32
frames that a quorum queue takes without an answer (measured); beyond them, closing would disturb the order."""


def page_size(seen: int, largest: int) -> int:
    """How many letters the next page may hold, after `seen` letters of which the largest had so many bytes."""
    if not seen:
        return FIRST_PAGE
    fair = max(PAGE, seen // PAGES)
    return max(1, min(fair, PAGE_BYTES // max(largest, 1)))


class Taken:
    """A letter in our hands; exactly one of `ack` and `keep`, once."""

    __slots__ = ("_page", "delivery")

    def __init__(self, page: "Page", delivery: Delivery) -> None:
        """Belong to a page until settled."""
        self._page, self.delivery = page, delivery

    def ack(self) -> bool:
        """Settle: the broker forgets the letter. False when that cannot be said any more, and it comes back."""
        alive = self.delivery.alive
        self._page.settle(self)
        return alive

    def keep(self) -> None:
        """Hold it to the end, to be given back; it is read no more."""
        self._page.kept += 1
        self.delivery.forget()


class Page:
    """One consumer and what it holds."""

    def __init__(self, prefetch: int, arrived: asyncio.Event) -> None:
        """Hold nothing; `arrived` is set for each letter that comes."""
        self.prefetch, self._arrived = prefetch, arrived
        self.subscription: Subscription | None = None
        self.inbox: deque[Taken] = deque()
        self.held: dict[Taken, None] = {}
        self.kept = 0
        self.paused = self._left = False
        self._frozen: list[Taken] | None = None
        self._received = 0
        self._first: Delivery | None = None

    def receive(self, delivery: Delivery) -> None:
        """Take what the broker delivers."""
        if self._left:  # after its consumer's end, which RabbitMQ does not do: nobody would ever give it back
            delivery.requeue()
            return
        self._received += 1
        self._first = self._first or delivery
        taken = Taken(self, delivery)
        self.held[taken] = None
        self.inbox.append(taken)
        self._arrived.set()

    @property
    def lost(self) -> bool:
        """Whether the channel went on which its letters came."""
        return self._first is not None and not self._first.alive

    @property
    def full(self) -> bool:
        """Whether it holds so many only to give them back that the next page should go on."""
        return self.kept >= max(self.prefetch - SPARE, (self.prefetch + 1) // 2)

    @property
    def used(self) -> bool:
        """Whether its prefetch was given out once."""
        return self._received >= self.prefetch

    @property
    def read(self) -> bool:
        """Whether nothing more will come."""
        return self.paused and not self.inbox

    def settle(self, taken: Taken) -> None:
        """Ack a letter, now or when the page thaws."""
        if self._frozen is not None:
            self._frozen.append(taken)
            return
        self.held.pop(taken, None)
        taken.delivery.ack()
        taken.delivery.forget()

    def freeze(self) -> None:
        """Send no ack, so that the broker has no reason to deliver more than is on its way."""
        self._frozen = []

    def thaw(self) -> None:
        """Send the acks."""
        frozen, self._frozen = self._frozen or [], None
        for taken in frozen:
            self.settle(taken)

    async def pause(self) -> None:
        """Have no more delivered."""
        if not self.paused and self.subscription is not None:
            await self.subscription.pause()
        self.paused = True

    async def leave(self, *, by_nack: bool) -> None:
        """Give back what is held, in order, and close."""
        self._left = True
        if by_nack:
            for taken in self.held:
                taken.delivery.requeue()
        self.held.clear()
        self.inbox.clear()
        if self.subscription is not None:
            await self.subscription.close()


def gives_back_by_nack(version: str) -> bool:
    """Whether to nack before a channel is closed, or to let the close give back; `version` is the broker's.

    From 4.3 on a nack costs nothing and a close counts as a crash. Before, both count alike, and what is nacked to a
    quorum queue without a delivery limit goes behind all that wait; a close puts it ahead of them, in order (measured).
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= (4, 3)
