"""Waiting that can be told to end: for something to happen, or for a rate's next turn."""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from amqpkit.errors import ConnectionFailed
from amqpkit.ports import Clock, Transport

SLICE: Final = 0.1
"""Seconds after which whoever waits looks whether it is told to stop."""
ANSWER: Final = 30.0
_BEHIND: Final = timedelta(seconds=0.1)
"""What a rate may catch up: sleeps are late, and a pause of the broker's is not to be made up by a burst."""


async def moment(event: asyncio.Event, *, clock: Clock, seconds: float = SLICE) -> None:
    """Wait until an event is set, or a moment."""
    cancel = clock.call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        cancel()


async def depth_of(transport: Transport, queue: str) -> int:
    """Ask how many messages are ready; raises ConnectionFailed when nobody answers, QueueMissing, AccessRefused."""
    try:
        async with asyncio.timeout(ANSWER):
            return await transport.depth(queue)
    except TimeoutError:
        msg = f'nobody answers how many messages "{queue}" holds: the connection is lost'
        raise ConnectionFailed(msg) from None


class Pace:
    """So many a second; None is as fast as it goes."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        """Begin now."""
        self._step = timedelta(seconds=1 / rate) if rate else None
        self._clock = clock
        self._next: datetime | None = None

    async def turn(self, stop: asyncio.Event) -> None:
        """Wait for the next turn, or until told to stop."""
        if self._step is None:
            return
        due = self._next or self._clock.now()
        while (left := (due - self._clock.now()).total_seconds()) > 0 and not stop.is_set():
            await self._clock.sleep(min(left, SLICE))
        self._next = max(due, self._clock.now() - _BEHIND) + self._step
