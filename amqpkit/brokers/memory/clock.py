"""Time that stands until it is told to pass, for tests that live through a week of retries in a millisecond.

Knows asyncio only to let a loop come to rest; knows no broker.
"""

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Final

from amqpkit.units import parse_duration

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_QUIET_TURNS: Final = 30
"""How many turns of the loop must pass without a change before the world counts as settled."""
_HELD_SECONDS: Final = 0.001
_END_OF_TIME: Final = 2**63
"""In microseconds."""


class _Timer:
    """One appointment; a cancelled one stays in the heap and does nothing."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback


class VirtualClock:
    """A `ports.Clock` whose time passes only in `advance`, timer by timer.

    Whole microseconds inside, so that sums of milliseconds stay exact.
    """

    def __init__(self, start: datetime = START) -> None:
        """Stand at `start`, an aware datetime."""
        if start.tzinfo is None:
            msg = "a virtual clock needs a start with a time zone"
            raise ValueError(msg)
        self._start = start
        self._elapsed = 0
        self._timers: list[tuple[int, int, _Timer]] = []
        self._order = count()
        self._changes = 0
        self._held = 0
        self._watched: list[Callable[[], int]] = []

    def now(self) -> datetime:
        """Give the virtual instant, aware, in UTC."""
        return self._start.astimezone(UTC) + self._elapsed * _MICROSECOND

    def call_later(self, seconds: float, callback: Callable[[], object], /) -> Callable[[], None]:
        """Call back when virtual time has moved on by `seconds`, unless the returned function is called before."""
        timer = _Timer(callback)
        due = self._elapsed + max(0, round(seconds * 1_000_000))
        heapq.heappush(self._timers, (due, next(self._order), timer))
        self._changes += 1

        def cancel() -> None:
            timer.callback = None

        return cancel

    async def sleep(self, seconds: float, /) -> None:
        """Wait in virtual time; nothing at all for zero or less but a turn of the loop."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancel = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            cancel()
            self._changes += 1

    def watch(self, revision: Callable[[], int]) -> None:
        """Count a change of `revision()` as movement while settling; a simulator registers itself."""
        self._watched.append(revision)

    def hold(self) -> None:
        """Let no virtual time pass until `release`: for work in threads, which a resting loop cannot see."""
        self._held += 1

    def release(self) -> None:
        """End one hold."""
        self._held -= 1
        self._changes += 1

    async def settle(self) -> None:
        """Fire what is due now and turn the loop until nothing has changed for some 30 turns."""
        await self._rest()
        while self._fire_next(self._elapsed):
            await self._rest()

    async def advance(self, duration: str | timedelta | float) -> None:
        """Let time pass, from timer to timer in order, letting the loop settle at each instant.

        `duration` is text such as `10m`, a timedelta, or seconds.
        """
        target = self._elapsed + _microseconds(duration)
        await self.settle()
        while self._fire_next(target):
            await self._rest()
        self._elapsed = target
        await self.settle()

    async def until(self, done: asyncio.Future[Any]) -> None:
        """Let time pass, from timer to timer, until `done` is done or nothing is left to wait for."""
        await self.settle()
        while not done.done() and self._fire_next(_END_OF_TIME):
            await self._rest()

    def _fire_next(self, limit: int) -> bool:
        """Move to the earliest timer not after `limit` and fire it; say whether there was one."""
        while self._timers and self._timers[0][0] <= limit:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self._elapsed = max(self._elapsed, due)
                self._changes += 1
                timer.callback()
                return True
        return False

    async def _rest(self) -> None:
        seen, quiet = self._signature(), 0
        while quiet < _QUIET_TURNS:
            # A thread at work is invisible to the loop: real time must pass for it.
            await asyncio.sleep(_HELD_SECONDS if self._held else 0)
            signature = self._signature()
            quiet = quiet + 1 if signature == seen and not self._held else 0
            seen = signature

    def _signature(self) -> tuple[int, ...]:
        return (self._changes, *(revision() for revision in self._watched))


class HoldingExecutor(ThreadPoolExecutor):
    """A thread pool whose work holds a virtual clock; `loop.set_default_executor` makes `to_thread` use it."""

    def __init__(self, clock: VirtualClock, max_workers: int | None = None) -> None:
        """Hold `clock` while any submitted call runs."""
        super().__init__(max_workers, thread_name_prefix="virtual-time")
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run in a thread; time goes on once the loop has heard of the end, and whoever waits for it too."""
        told: Future[Any] = Future()

        def work() -> Callable[[], object]:
            if not told.set_running_or_notify_cancel():
                return lambda: None
            try:
                return partial(told.set_result, fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the call
                return partial(told.set_exception, error)

        done = super().submit(work)
        self._clock.hold()
        done.add_done_callback(partial(self._ended, told))
        return told

    def _ended(self, told: Future[Any], done: Future[Callable[[], object]]) -> None:
        """Hear of an end in the thread; a loop that is closed by then needs no time any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, told, done)

    def _tell(self, told: Future[Any], done: Future[Callable[[], object]]) -> None:
        # In this order, in the loop's own thread: else the clock could go on before the waiting task is awake.
        if done.cancelled():
            told.cancel()
        else:
            done.result()()
        self._clock.release()


def _microseconds(duration: str | timedelta | float) -> int:
    if isinstance(duration, str):
        return parse_duration(duration) * 1000
    if isinstance(duration, timedelta):
        return duration // _MICROSECOND
    return round(duration * 1_000_000)
