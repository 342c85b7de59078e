"""Cancellations that get lost, and those that nobody asked for."""

import asyncio

import pytest
from aiormq.exceptions import ConnectionClosed

from amqpkit.brokers.aio.tasks import guarded, stop


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again():
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)

    await stop(task, again_after=0.01)

    assert swallowed == 1
    assert task.cancelled()


async def test_stopping_what_has_ended_or_nothing_is_fine():
    task = asyncio.create_task(asyncio.sleep(0))
    await task

    await stop(task)
    await stop()


async def test_a_cancellation_that_nobody_asked_for_is_a_lost_connection():
    async def stray() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConnectionClosed, match="silent"):
        await guarded(stray)()


async def test_a_cancellation_that_was_asked_for_passes():
    task = asyncio.create_task(guarded(asyncio.Event().wait)())
    await asyncio.sleep(0)

    await stop(task)

    assert task.cancelled()


async def test_a_timeout_stays_a_timeout():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await guarded(asyncio.Event().wait)()
