"""How many messages may be under way at once: a place for each, given in order, within a time."""

import asyncio
from collections import deque

from amqpkit.ports import Clock


class Window:
    """So many places; who finds none waits in a line."""

    def __init__(self, size: int, clock: Clock) -> None:
        """Begin empty."""
        self.size, self.taken = size, 0
        self._clock = clock
        self._line: deque[asyncio.Future[bool]] = deque()

    def enter(self) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self.taken >= self.size or self._line:
            return False
        self.taken += 1
        return True

    async def wait(self, seconds: float) -> bool:
        """Wait in the line for a place and take it; False when none came in time."""
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        cancel = self._clock.call_later(seconds, lambda: None if place.done() else place.set_result(False))
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.leave()  # it was given to us in the turn in which we were cancelled
            raise
        finally:
            cancel()

    def leave(self) -> None:
        """Give a place back: to the first in the line, if anybody is."""
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(True)
                return
        self.taken -= 1
