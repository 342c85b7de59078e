"""Worker processes that share a store: forking them, losing them, and what they wrote down."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.deliver.worker import Worker
from amqpkit.stores import MemoryStore
from amqpkit.testing.proxy import FaultProxy
from tests.broker.life import process as life
from tests.broker.life.process import Nursery, Process
from tests.broker.life.rig import Rig, until
from tests.broker.life.victim import Effects
from tests.broker.once.place import Place
from tests.broker.once.victim import Settings, consumer_of, note_down

DELAYS = ("200ms", "400ms", "800ms", "1500ms", "3s")
FILE = f"""
version: 1
work_queues:
  work:
    accepts: [note]
    retry: {{delays: [{", ".join(DELAYS)}]}}
"""

SQL = [pytest.param("sqlite", id="sqlite"), pytest.param("postgresql", id="postgresql-server")]
STORES = [*SQL, pytest.param("redis", id="redis-server")]
"""For `place`; by the ids a run knows which servers it needs."""


class Nest(Nursery):
    """The process that forks workers with a store."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.once.victim"],
            cwd=life.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    @asynccontextmanager
    async def started(self, settings: Any) -> AsyncIterator[Process]:
        """Start a worker process that consumes when this is entered, and is dead when it is left."""
        process = Process(await asyncio.to_thread(self.fork, settings), Effects(Path(settings.effects)))
        try:
            await until(lambda: process.did("consuming") or not process.alive, "the process consumes")
            yield process
        finally:
            await process.kill()


def settings_for(rig: Rig, directory: Path, place: Place, **more: Any) -> Settings:
    """Settings of a worker process on the rig's topology and the place's store."""
    plain = life.settings_for(rig, directory)
    return Settings(plain.url, plain.topology, plain.effects, place.url, place.prefix, **more)


class Crew(ABC):
    """Two workers on one queue and one store: the handlers of one await, those of the other run in threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.effects = Effects(Path(settings.effects))
        self.lost: list[int] = []

    @abstractmethod
    async def hire(self, *, threads: bool) -> None:
        """Start one."""

    @abstractmethod
    async def lose(self, *, threads: bool) -> None:
        """Lose one in the middle of its work, and start another of its kind."""

    @abstractmethod
    async def disturb(self, *, threads: bool) -> None:
        """Keep one from its work for longer than its leases last."""

    @abstractmethod
    async def retire(self) -> None:
        """Stop them as an operator does."""


class Processes(Crew):
    """Workers that are killed and frozen."""

    def __init__(self, settings: Settings, nest: Nest, stack: AsyncExitStack) -> None:
        super().__init__(settings)
        self._nest, self._stack = nest, stack
        self.processes: dict[bool, Process] = {}

    async def hire(self, *, threads: bool) -> None:
        settings = replace(self.settings, threads=threads)
        self.processes[threads] = await self._stack.enter_async_context(self._nest.started(settings))

    async def lose(self, *, threads: bool) -> None:
        self.lost.append(self.processes[threads].pid)
        await self.processes[threads].kill()
        await self.hire(threads=threads)

    async def disturb(self, *, threads: bool) -> None:
        self.freeze(threads=threads)
        # what is waited for is time itself: a lease and the delay of those who wait for it
        await asyncio.sleep(3 * self.settings.lease)
        self.thaw(threads=threads)

    def freeze(self, *, threads: bool) -> None:
        """Stop one where it is."""
        os.kill(self.processes[threads].pid, signal.SIGSTOP)

    def thaw(self, *, threads: bool) -> None:
        """Let it go on where it stopped."""
        os.kill(self.processes[threads].pid, signal.SIGCONT)

    async def retire(self) -> None:
        for process in self.processes.values():
            assert await process.terminate() == 0
        self.processes.clear()


class Mates(Crew):
    """Workers of one process that share a store in its memory: they are cancelled, and cut from the broker."""

    def __init__(self, settings: Settings, rig: Rig, store: MemoryStore, proxy: FaultProxy) -> None:
        super().__init__(settings)
        self._rig, self._store, self._proxy = rig, store, proxy
        self._hired = 0
        self._mates: dict[bool, tuple[int, AioTransport, Worker, asyncio.Task[None]]] = {}

    async def hire(self, *, threads: bool) -> None:
        self._hired += 1
        number = self._hired
        told = note_down(self.effects, number)
        transport = AioTransport(self._proxy.redirect(self._rig.broker.url), name=f"mate {number}")
        await transport.open()
        worker = Worker(
            self._rig.topology,
            [consumer_of(replace(self.settings, threads=threads), self.effects)],
            transport,
            store=self._store,
            on_event=told,
            overrides={"prefetch": self.settings.prefetch},
        )
        running = asyncio.create_task(worker.run())
        self._mates[threads] = number, transport, worker, running
        await until(lambda: worker.ready or running.done(), "the worker is ready")

    async def lose(self, *, threads: bool) -> None:
        number, transport, _, running = self._mates.pop(threads)
        self.lost.append(number)
        running.cancel()
        await asyncio.wait([running])
        await transport.close()
        await self.hire(threads=threads)

    async def disturb(self, *, threads: bool) -> None:
        self._proxy.cut()
        await until(self._all_ready, "the workers are back")

    def _all_ready(self) -> bool:
        return all(worker.ready for _, _, worker, _ in self._mates.values())

    async def retire(self) -> None:
        mates, self._mates = self._mates, {}
        for _, transport, worker, running in mates.values():
            worker.stop()
            await running
            await transport.close()


def in_flight(effects: Effects, pids: Iterable[int]) -> set[str | None]:
    """Tell which messages were begun by these workers and never settled there; given back is not settled."""
    ends = ("handled", "retried", "snoozed", "dead", "refused", "discarded")
    found: set[str | None] = set()
    for pid in pids:
        begun = Counter(effect.message_id for effect in effects.read("begun") if effect.pid == pid)
        ended = Counter(effect.message_id for end in ends for effect in effects.read(end) if effect.pid == pid)
        found |= set(begun - ended)
    return found


def doubled(effects: Counter[Any]) -> set[Any]:
    """Tell which effects there are more than once."""
    return {each for each, times in effects.items() if times > 1}
