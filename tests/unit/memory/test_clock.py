"""Virtual time: it stands until it is told to pass, and passes timer by timer."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from amqpkit.brokers.memory.clock import START, HoldingExecutor, VirtualClock


async def test_time_stands_until_it_is_advanced():
    clock = VirtualClock()
    assert clock.now() == START == datetime(2026, 1, 1, tzinfo=UTC)
    await clock.advance("10m")
    await clock.advance(timedelta(hours=1))
    await clock.advance(0.5)
    assert clock.now() == START + timedelta(hours=1, minutes=10, seconds=0.5)


def test_a_naive_start_is_refused():
    with pytest.raises(ValueError, match="time zone"):
        VirtualClock(datetime(2026, 1, 1))  # noqa: DTZ001


async def test_timers_fire_in_order_each_at_its_own_instant():
    clock = VirtualClock()
    seen = []
    for wait in (3, 1, 2, 1):
        clock.call_later(wait, lambda wait=wait: seen.append((wait, clock.now() - START)))
    clock.call_later(1.5, lambda: seen.append("never"))()
    await clock.advance(2)
    assert seen == [(1, timedelta(seconds=1)), (1, timedelta(seconds=1)), (2, timedelta(seconds=2))]


async def test_what_a_timer_wakes_runs_before_time_goes_on():
    clock = VirtualClock()
    seen = []

    async def stroll():
        for _ in range(3):
            await clock.sleep(1)
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append((clock.now() - START).total_seconds())

    task = asyncio.create_task(stroll())
    await clock.advance("1h")
    await task
    assert seen == [1, 2, 3]


async def test_a_week_of_sleeps_takes_no_time():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(7 * 86400))
    begin = time.monotonic()
    await clock.advance("7d")
    assert task.done()
    assert time.monotonic() - begin < 5


async def test_a_cancelled_sleep_leaves_no_timer_that_fires():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.settle()
    task.cancel()
    await clock.advance(2)
    assert task.cancelled()
    await clock.sleep(0)
    await clock.sleep(-1)


async def test_what_is_due_now_needs_no_time():
    clock = VirtualClock()
    seen = []
    clock.call_later(0, lambda: clock.call_later(-1, lambda: seen.append(clock.now())))
    await clock.settle()
    assert seen == [START]


async def test_settling_waits_for_what_it_watches():
    clock = VirtualClock()
    revision = 0
    clock.watch(lambda: revision)

    async def change():
        nonlocal revision
        for _ in range(5):
            for _ in range(25):
                await asyncio.sleep(0)
            revision += 1

    task = asyncio.create_task(change())
    await clock.settle()
    assert (revision, task.done()) == (5, True)


async def test_time_waits_for_threads_of_a_holding_executor():
    clock = VirtualClock()
    seen = []
    with HoldingExecutor(clock, 2) as threads:

        def work():
            time.sleep(0.05)  # real work, that a loop cannot see
            return clock.now()

        future = asyncio.wrap_future(threads.submit(work))
        future.add_done_callback(lambda done: seen.append(done.result()))
        await clock.advance("1h")
    assert seen == [START]
    with pytest.raises(RuntimeError):
        threads.submit(work)
    await clock.settle()


async def test_what_a_thread_raises_reaches_who_waits():
    clock = VirtualClock()
    with HoldingExecutor(clock, 1) as threads:
        future = asyncio.wrap_future(threads.submit(int, "x"))
        await clock.settle()
        with pytest.raises(ValueError, match="invalid literal"):
            await future


async def test_a_call_that_was_cancelled_before_it_began_holds_nothing():
    clock = VirtualClock()
    gate = threading.Event()
    with HoldingExecutor(clock, 1) as threads:
        first, second = threads.submit(gate.wait), threads.submit(int)
        second.cancel()
        gate.set()
        await clock.advance("1h")
    assert (first.result(), second.cancelled()) == (True, True)
    assert clock.now() > START


async def test_a_call_that_a_shutdown_cancelled_holds_nothing():
    clock = VirtualClock()
    gate = threading.Event()
    with HoldingExecutor(clock, 1) as threads:
        first, second = threads.submit(gate.wait), threads.submit(int)
        threads.shutdown(wait=False, cancel_futures=True)
        gate.set()
        await clock.advance("1h")
    assert (first.result(), second.cancelled()) == (True, True)
    assert clock.now() > START


def test_a_thread_that_outlives_its_loop_harms_nobody():
    gate = threading.Event()

    async def leave():
        return HoldingExecutor(VirtualClock(), 1), asyncio.get_running_loop()

    threads, _ = asyncio.run(leave())
    with threads:
        threads.submit(gate.wait)
        gate.set()
