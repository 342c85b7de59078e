"""Cancellation that neither vanishes on its way through a client library nor comes from one uncalled for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from aiormq.exceptions import ConnectionClosed

P = ParamSpec("P")
R = TypeVar("R")

AGAIN_AFTER: Final = 6.0
"""Seconds before a task that has not ended is cancelled once more: longer than it may take to tidy up."""


async def stop(*tasks: asyncio.Task[Any], again_after: float = AGAIN_AFTER) -> None:
    """Cancel tasks until they have ended.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, which each RPC of aiormq goes through, swallows a
    cancellation that meets a result (measured: a consumer that could not be closed, in one run of several hundred).
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=again_after)


def guarded(call: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Turn a CancelledError that nobody asked for into a ConnectionClosed.

    aiormq answers with one to whoever waits when it finds the broker stuck; the task that waits would end in silence.
    """

    @wraps(call)
    async def spared(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await call(*args, **kwargs)
        except asyncio.CancelledError as stray:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ConnectionClosed(0, "the broker has been silent for too long") from stray

    return spared
