"""Virtual time that stands still while a database works."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.ports import Claimed, IdempotencyStore, Transaction, TransactionalStore


class HoldingStore:
    """A store that lets no virtual time pass while its database works: a resting loop cannot see that."""

    def __init__(self, store: IdempotencyStore, clock: VirtualClock) -> None:
        """Ask `store`, and hold the clock meanwhile."""
        self._store, self._clock = store, clock

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

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._clock.hold()
        try:
            yield
        finally:
            self._clock.release()
