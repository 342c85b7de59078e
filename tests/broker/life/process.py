"""Starting, killing and stopping worker processes.

They are forked by a process that has imported everything before: a start costs milliseconds instead of a second.
"""

from __future__ import annotations

import asyncio
import copyreg
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.broker.life.rig import Rig, until
from tests.broker.life.victim import Effects, Settings

ROOT = Path(__file__).parents[3]


def _plain(mapping: MappingProxyType[Any, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return dict, (dict(mapping),)


# a topology has read-only mappings, which pickle does not know
copyreg.pickle(MappingProxyType, _plain)


def settings_for(rig: Rig, directory: Path, **more: Any) -> Settings:
    """Settings of a worker process on the rig's topology, which are written into the directory."""
    topology = directory / "topology.pickle"
    topology.write_bytes(pickle.dumps(rig.topology))
    return Settings(rig.broker.url, str(topology), str(directory / "effects"), **more)


class Nursery:
    """The process that forks worker processes."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.life.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def close(self) -> None:
        """End it; its children that still run go on."""
        self._parent.communicate()

    def fork(self, settings: Settings) -> int:
        """Fork a worker; return its pid."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(asdict(settings)) + "\n")
        return int(self._parent.stdout.readline())

    @asynccontextmanager
    async def started(self, settings: Settings) -> AsyncIterator[Process]:
        """Start a worker process that consumes when this is entered, and is dead when it is left."""
        effects = Effects(Path(settings.effects))
        process = Process(await asyncio.to_thread(self.fork, settings), effects)
        try:
            await until(lambda: process.did("consuming") or not process.alive, "the process consumes")
            yield process
        finally:
            await process.kill()


class Process:
    """A worker process."""

    def __init__(self, pid: int, effects: Effects) -> None:
        self.pid, self._effects = pid, effects

    def did(self, what: str) -> bool:
        """Whether it has written something down."""
        return any(effect.pid == self.pid for effect in self._effects.read(what))

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return next((effect.attempt for effect in self._effects.read("ended") if effect.pid == self.pid), None)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.status is None

    async def kill(self) -> None:
        """End it as a lost machine does."""
        self._signal(signal.SIGKILL)
        await self.ended()

    async def terminate(self) -> int | None:
        """Tell it to stop, and wait for that; return its exit status."""
        self._signal(signal.SIGTERM)
        return await self.ended()

    async def dies_unless(self, done: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until it is dead or something is done; return whether it is dead."""

        async def either() -> bool:
            return not self.alive or await done()

        await until(either, "the process dies")
        return not self.alive

    async def ended(self) -> int | None:
        """Wait for its end; return its exit status."""
        await until(lambda: not self.alive, "the process ends")
        return self.status

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
