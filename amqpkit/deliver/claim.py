"""One slot's dealings with the idempotency store: one claim at a time, kept alive for as long as it is needed."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from amqpkit.errors import ConsumerError, StoreUnavailable
from amqpkit.ports import Claimed, Clock, Hold, IdempotencyStore, Transaction, TransactionalStore

log = logging.getLogger("amqpkit.worker")


class Claimant:
    """Claims for one delivery after the other; without a store every claim is granted and nothing is remembered.

    `name` tells this slot from all others anywhere, `on_lost` is called when a claim ran out under its handler.
    """

    def __init__(self, store: IdempotencyStore | None, clock: Clock, *, name: str, on_lost: Callable[[], None]) -> None:
        """Hold nothing yet."""
        self._store, self._clock, self._name, self._on_lost = store, clock, name, on_lost
        self._count = 0
        self._key: str | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def _owner(self) -> str:
        return f"{self._name}:{self._count}"

    def begin(self) -> None:
        """Another delivery: an owner of its own, so that two copies of one message are two claimants."""
        self._count += 1
        self._key = None

    async def claim(self, key: str, *, lease: float) -> Claimed:
        """Ask for the key and keep it alive once granted; raises StoreUnavailable."""
        if self._store is None:
            return Claimed(Hold.CLAIMED)
        answer = await self._store.claim(key, owner=self._owner, lease=lease)
        if answer.hold is Hold.CLAIMED:
            self._key = key
            self._renewal = asyncio.create_task(self._keep_alive(self._store, key, lease))
        return answer

    async def complete(self, key: str, *, result: bytes | None) -> None:
        """Mark it done; raises StoreUnavailable."""
        if self._store is None:
            return
        if not await self._store.complete(key, owner=self._owner, result=result):
            self._on_lost()

    async def release(self, key: str) -> None:
        """Give it back, or leave it to run out: a copy is safe already, so nothing is raised."""
        self.forget()
        if self._store is None:
            return
        try:
            await self._store.release(key, owner=self._owner)
        except StoreUnavailable as error:
            log.warning("the claim on %s could not be released (%s); it runs out", key, error)
        except Exception:  # whatever a store fails with: refusing the original now would make a second copy
            log.exception("the claim on %s could not be released; it runs out", key)

    async def release_late(self) -> None:
        """Give back what a thread has outlived its timeout with."""
        if self._key is not None:
            await self.release(self._key)

    def forget(self) -> None:
        """Renew no more."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def transaction(self, target: Any, *, result: bytes | None = None) -> Transaction:
        """Let the caller's own transaction complete the claim; raises ConsumerError without a claim or an SQL store."""
        if not isinstance(self._store, TransactionalStore):
            msg = "context.transaction() needs an SQL store: amqpkit run --store postgresql://…, or Worker(store=…)"
            raise ConsumerError(msg)
        if self._key is None:
            msg = "context.transaction() needs a message with an id or an idempotency key; this one has neither"
            raise ConsumerError(msg)
        return self._store.transaction(self._key, owner=self._owner, target=target, result=result)

    async def _keep_alive(self, store: IdempotencyStore, key: str, lease: float) -> None:
        owner = self._owner
        while True:
            await self._clock.sleep(lease / 3)
            try:
                ours = await store.renew(key, owner=owner, lease=lease)
            except StoreUnavailable as error:
                log.warning("the claim on %s could not be renewed: %s", key, error)
                continue
            if not ours:
                self._on_lost()
                return
