"""Many of the same at once: as many workers as may be under way, each taking the next item when it is free."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar, cast

T = TypeVar("T")
_END: Final = object()


async def pipelined(
    items: Iterable[T] | AsyncIterable[T],
    send: Callable[[int, T], Awaitable[None]],
    *,
    width: int,
    turn: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Send every item, at most `width` at a time, begun in order; none is taken before its worker is free.

    With `turn`, the next item waits for that, and no other is taken meanwhile.
    What `items` or `send` raises ends the taking; what is under way finishes, then it is raised. Cancelled, it cancels
    every `send` under way and waits for them.
    """
    line = _Line(items, turn)
    failures: list[Exception] = []
    workers = 1

    async def work() -> None:
        nonlocal workers
        while not failures:
            try:
                taken = await line.take()
                if taken is None:
                    return
                if workers < width:
                    workers += 1
                    group.create_task(work())
                await send(*taken)
            except Exception as error:  # noqa: BLE001 - it is raised when the others have finished
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
    if failures:
        raise failures[0]


class _Line(Generic[T]):
    """Counts the items of any iterable and gives them to one worker after the other."""

    def __init__(self, items: Iterable[T] | AsyncIterable[T], turn: Callable[[], Awaitable[None]] | None) -> None:
        self._plain: Iterator[T] | None = None if isinstance(items, AsyncIterable) else iter(items)
        self._slow: AsyncIterator[T] | None = aiter(items) if isinstance(items, AsyncIterable) else None
        self._turn = turn
        self._alone = asyncio.Lock()  # an async iterator takes one question at a time
        self._count = 0
        self._over = False

    async def take(self) -> tuple[int, T] | None:
        """Give the next item and its number, None after the last."""
        if self._plain is not None and self._turn is None:
            item: object = next(self._plain, _END)
        else:
            async with self._alone:
                item = _END if self._over else await self._next()
                self._over = item is _END
                if self._turn is not None and not self._over:
                    await self._turn()
        if item is _END:
            return None
        self._count += 1
        return self._count - 1, cast("T", item)

    async def _next(self) -> object:
        if self._plain is not None:
            return next(self._plain, _END)
        assert self._slow is not None  # noqa: S101 - one of both
        return await anext(self._slow, _END)
