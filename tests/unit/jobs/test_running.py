"""A job in its handler's hands, while the machine's clock is set back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.deliver.running import RunningJob
from amqpkit.jobs import JobState, Progress
from amqpkit.testing.simulator import Simulator
from tests.jobs.parts import ImportCsv, Imports, topology


class SetBack(VirtualClock):
    """A clock that somebody may set back; what waits goes on waiting for as long as it was to."""

    back = timedelta()

    def now(self) -> Any:
        return super().now() - self.back


async def test_progress_is_told_within_a_second_when_the_clock_is_set_back() -> None:
    clock, told = SetBack(), list[float]()
    waits: list[float] = []

    def call_later(seconds: float, _callback: Callable[[], object], /) -> Callable[[], None]:
        waits.append(seconds)
        return lambda: None

    clock.call_later = call_later  # type: ignore[method-assign]
    running = RunningJob(lambda _news, progress: told.append(progress.fraction), clock)
    running.progress(0.1, "")
    await asyncio.sleep(0)
    clock.back = timedelta(hours=1)
    running.progress(0.2, "")
    await asyncio.sleep(0)

    assert told == [0.1, 0.2]
    assert not waits


async def test_progress_goes_on_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqpkit.testing.simulator.VirtualClock", SetBack)
    async with Simulator(topology()) as world:
        clock = world.clock
        assert isinstance(clock, SetBack)

        async def works(_payload: ImportCsv, context: Any) -> None:
            context.progress(0.1, "before")
            await clock.sleep(1)
            clock.back = timedelta(hours=1)
            context.progress(0.2, "after")
            await clock.sleep(10)

        await world.start_worker([Imports(works)])
        job = await world.publish(ImportCsv())
        await world.advance("5s")
        found = await world.jobs.get(job)
        assert found is not None
        assert (found.progress, found.state) == (Progress(0.2, "after"), JobState.RUNNING)
        await world.advance("10s")
        found = await world.jobs.get(job)
        assert found is not None
        assert found.state is JobState.SUCCEEDED
