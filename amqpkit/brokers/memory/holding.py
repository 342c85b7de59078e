"""Virtual time that stands still while a database works."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.ports import (
    Claimed,
    IdempotencyStore,
    StepRecord,
    Steps,
    Transaction,
    TransactionalSteps,
    TransactionalStore,
)


class _Holding:
    """Holds a clock while a database works: a resting loop cannot see that."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._clock.hold()
        try:
            yield
        finally:
            self._clock.release()


class HoldingStore(_Holding):
    """A store that lets no virtual time pass while its database works."""

    def __init__(self, store: IdempotencyStore, clock: VirtualClock) -> None:
        """Ask `store`, and hold the clock meanwhile."""
        super().__init__(clock)
        self._store = store

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        """Ask the store."""
        with self._held():
            return await self._store.claim(key, owner=owner, lease=lease)

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        """Ask the store."""
        with self._held():
            return await self._store.renew(key, owner=owner, lease=lease)

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        """Ask the store."""
        with self._held():
            return await self._store.complete(key, owner=owner, result=result)

    async def release(self, key: str, *, owner: str) -> None:
        """Ask the store."""
        with self._held():
            await self._store.release(key, owner=owner)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    def transaction(self, key: str, *, owner: str, target: Any, result: bytes | None = None) -> Transaction:
        """Give the store's transaction; a block in a handler's thread holds the clock already. Raises TypeError."""
        if not isinstance(self._store, TransactionalStore):
            msg = f"{type(self._store).__name__} has no transactions"
            raise TypeError(msg)
        return self._store.transaction(key, owner=owner, target=target, result=result)


class HoldingSteps(_Holding):
    """Steps that let no virtual time pass while their database works."""

    def __init__(self, steps: Steps, clock: VirtualClock) -> None:
        """Ask `steps`, and hold the clock meanwhile."""
        super().__init__(clock)
        self._steps = steps

    async def load(self, job: str) -> Sequence[StepRecord]:
        """Ask the steps."""
        with self._held():
            return await self._steps.load(job)

    async def save(self, job: str, record: StepRecord) -> StepRecord:
        """Ask the steps."""
        with self._held():
            return await self._steps.save(job, record)

    async def close(self) -> None:
        """Close the steps."""
        await self._steps.close()

    def recording(self, job: str, *, target: Any, record: Callable[[], StepRecord]) -> Transaction:
        """Give the steps' transaction; a block in a handler's thread holds the clock already. Raises TypeError."""
        if not isinstance(self._steps, TransactionalSteps):
            msg = f"{type(self._steps).__name__} has no transactions"
            raise TypeError(msg)
        return self._steps.recording(job, target=target, record=record)
