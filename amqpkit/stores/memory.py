"""Claims in this process's memory: for tests, simulations, and a single worker that may forget at its end."""

import heapq
import time
from dataclasses import dataclass
from datetime import timedelta

from amqpkit.ports import Claimed, Clock, Hold
from amqpkit.stores.rules import KEEP, keep_seconds, stored_key, stored_result


@dataclass(slots=True)
class _Claim:
    owner: str
    until: float
    done: bool = False
    result: bytes | None = None


class MemoryStore:
    """An `IdempotencyStore` that all workers of one process share; what it knows ends with the process.

    Never raises StoreUnavailable.
    """

    def __init__(self, clock: Clock | None = None, *, keep: timedelta = KEEP) -> None:
        """Tell time by `clock`, the machine's if there is none; remember finished keys for `keep`."""
        self._clock = clock
        self._keep = keep_seconds(keep)
        self._claims: dict[str, _Claim] = {}
        self._forget: list[tuple[float, str]] = []

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._claims)} keys)"

    async def prepare(self) -> None:
        """Nothing is to be made."""

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        """Take the key, unless it is done or held by another."""
        key, now = stored_key(key), self._now()
        self._purge(now)
        found = self._claims.get(key)
        if found is not None and found.until > now:
            if found.done:
                return Claimed(Hold.DONE)
            if found.owner != owner:
                return Claimed(Hold.HELD, found.until - now)
        self._claims[key] = _Claim(owner, now + lease)
        self._remember(key)
        return Claimed(Hold.CLAIMED)

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        """Prolong our claim; one that we have completed meanwhile stays done."""
        found = self._ours(key, owner)
        if found is not None and not found.done:
            found.until = self._now() + lease
        return found is not None

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        """Mark our claim done; a second time adds the result if the first had none."""
        found = self._ours(key, owner)
        if found is None:
            return False
        given = stored_result(result)
        found.done, found.until = True, self._now() + self._keep
        found.result = found.result if given is None else given
        self._remember(stored_key(key))
        return True

    async def release(self, key: str, *, owner: str) -> None:
        """Forget our claim unless it is done."""
        found = self._ours(key, owner)
        if found is not None and not found.done:
            del self._claims[stored_key(key)]

    async def close(self) -> None:
        """Nothing is open; what is known stays known."""

    def _now(self) -> float:
        return time.monotonic() if self._clock is None else self._clock.now().timestamp()

    def _ours(self, key: str, owner: str) -> _Claim | None:
        found = self._claims.get(stored_key(key))
        return found if found is not None and found.owner == owner else None

    def _remember(self, key: str) -> None:
        heapq.heappush(self._forget, (self._last(self._claims[key]), key))

    def _last(self, claim: _Claim) -> float:
        """Tell when nothing can ask for a claim any more: its owner may complete it long after its lease."""
        return claim.until if claim.done else claim.until + self._keep

    def _purge(self, now: float) -> None:
        while self._forget and self._forget[0][0] <= now:
            _, key = heapq.heappop(self._forget)
            found = self._claims.get(key)
            if found is None:
                continue
            if self._last(found) <= now:
                del self._claims[key]
            elif not found.done:
                self._remember(key)
