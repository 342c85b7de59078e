"""What the tour's messages say, and who handles them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from amqpkit import Consumer, Context, Payload


class OrderV1(Payload, type="tour.order"):
    """An order, when the shop had one country only."""

    item: str

    def upgrade(self) -> "Order":
        """Say the same as the next version does."""
        return Order(item=self.item, country="de")


class Order(Payload, type="tour.order", version=2, previous=OrderV1):
    """An order."""

    item: str
    country: str = "de"


class Lost(Payload, type="tour.lost"):
    """What no queue wants."""


class Count(Payload, type="tour.count"):
    """Count the stock."""


class Drop(Payload, type="tour.flood"):
    """One of many."""


class NoSuchItem(Exception):
    """No second try finds it."""


Does = Callable[[Any, Context], Awaitable[object]]


async def nothing(_payload: Payload, _context: Context) -> None:
    """Handle it."""


class Ship(Consumer[Order], queue="tour.order"):
    """Does what a decision says, and remembers."""

    never_retry = (NoSuchItem,)

    def __init__(self, does: Does = nothing) -> None:
        """Do this."""
        self.does, self.calls = does, list[tuple[str, int]]()

    async def handle(self, order: Order, context: Context) -> None:
        """Note item and attempt, and do it."""
        self.calls.append((order.item, context.attempt))
        await self.does(order, context)


class Stocktake(Consumer[Count], queue="tour.count"):
    """Hangs at the first call."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.redelivered, self.woken = list[bool](), asyncio.Event()

    async def handle(self, _count: Count, context: Context) -> None:
        """Hang, or handle what comes back."""
        self.redelivered.append(context.redelivered)
        if not context.redelivered:
            await self.woken.wait()


class Drain(Consumer[Drop], queue="tour.flood"):
    """Takes what comes."""

    async def handle(self, _drop: Drop, _context: Context) -> None:
        """Nothing to do."""
