"""Claims in Redis or Valkey: one hash a key, each verb one atomic script by the server's own clock."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from amqpkit.errors import StoreUnavailable
from amqpkit.ports import Claimed, Hold
from amqpkit.stores.rules import KEEP, keep_seconds, stored_key, stored_result

try:
    from redis import exceptions
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise ImportError("a store in Redis needs redis: pip install 'amqpkit[redis]'") from error

LIMIT: Final = 5.0
"""Seconds that a question may take in all."""
_SOCKET: Final = 3.0
_CONNECTIONS: Final = 16

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local owner, done, till = unpack(redis.call('HMGET', KEYS[1], 'owner', 'done', 'until'))
"""
"""A claim outlives its lease in the hash, so that its owner can still complete it if nobody else took it."""

_CLAIM: Final = f"""{_NOW}
if done then return {{'done', 0}} end
if owner and owner ~= ARGV[1] and tonumber(till) > now then return {{'held', till - now}} end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', string.format('%d', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[2] + ARGV[3]))
return {{'claimed', 0}}
"""
_RENEW: Final = f"""{_NOW}
if owner ~= ARGV[1] then return 0 end
if done then return 1 end
redis.call('HSET', KEYS[1], 'until', string.format('%d', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[2] + ARGV[3]))
return 1
"""
_COMPLETE: Final = f"""{_NOW}
if owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'done', '1')
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'result', ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
_RELEASE: Final = f"""{_NOW}
if owner == ARGV[1] and not done then redis.call('DEL', KEYS[1]) end
return 0
"""

_AWAY: Final = ("READONLY", "LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")
"""How an answer begins that says: not now."""


class RedisStore:
    """An `IdempotencyStore` in Redis 6 or newer, or Valkey.

    Every verb ends within some five seconds and raises StoreUnavailable when the server cannot be asked; it works again
    as soon as the server does. The server must keep what it is given: persistence on (`appendonly yes`), and
    `maxmemory-policy noeviction`; a failover may forget the last moment, as replication does not wait.
    """

    def __init__(self, server: "str | Redis", *, keep: timedelta = KEEP, prefix: str = "amqpkit:") -> None:
        """Use a URL (`redis://`, `rediss://`), or a `redis.asyncio.Redis` that stays the caller's to close.

        Finished keys are remembered for `keep`; all begin with `prefix`.
        """
        self._owned = isinstance(server, str)
        self._redis = _connect(server) if isinstance(server, str) else server
        self._keep = _milliseconds(keep_seconds(keep))
        self._prefix = prefix
        known = self._redis.connection_pool.connection_kwargs
        place = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
        self._name = f"the store redis {place}/{known.get('db') or 0}"
        self._claim = self._redis.register_script(_CLAIM)
        self._renew = self._redis.register_script(_RENEW)
        self._complete = self._redis.register_script(_COMPLETE)
        self._release = self._redis.register_script(_RELEASE)

    def __repr__(self) -> str:
        return f"RedisStore({self._name.removeprefix('the store redis ')}, prefix={self._prefix!r})"

    async def prepare(self) -> None:
        """See whether the server answers; raises StoreUnavailable."""
        with self._translated():
            async with asyncio.timeout(LIMIT):
                await self._redis.ping()

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        """Take the key, unless it is done or held by another."""
        hold, left = await self._run(self._claim, key, owner, _milliseconds(lease), self._keep)
        match hold:
            case b"claimed" | "claimed":
                return Claimed(Hold.CLAIMED)
            case b"done" | "done":
                return Claimed(Hold.DONE)
            case _:
                return Claimed(Hold.HELD, int(left) / 1000)

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        """Prolong our claim; one that we have completed meanwhile stays done."""
        return bool(await self._run(self._renew, key, owner, _milliseconds(lease), self._keep))

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        """Mark our claim done; a second time adds the result if the first had none."""
        stored = stored_result(result)
        given = (0, b"") if stored is None else (1, stored)
        return bool(await self._run(self._complete, key, owner, self._keep, *given))

    async def release(self, key: str, *, owner: str) -> None:
        """Forget our claim unless it is done."""
        await self._run(self._release, key, owner)

    async def close(self) -> None:
        """Close the connections of a client of our own."""
        if self._owned:
            await self._redis.aclose()

    async def _run(self, script: Any, key: str, *arguments: str | bytes | float) -> Any:
        """Ask; a script that the server has forgotten in a restart is sent again by the client."""
        with self._translated():
            async with asyncio.timeout(LIMIT):
                return await script(keys=[self._prefix + stored_key(key)], args=list(arguments))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what says that the server cannot be asked into StoreUnavailable; everything else passes."""
        try:
            yield
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            said = str(error) or type(error).__name__
            raise StoreUnavailable(f"{self._name} does not answer: {said}") from error
        except exceptions.ResponseError as error:
            away = exceptions.ReadOnlyError | exceptions.OutOfMemoryError | exceptions.ClusterDownError
            if isinstance(error, away | exceptions.TryAgainError) or str(error).startswith(_AWAY):
                raise StoreUnavailable(f"{self._name} cannot be asked: {error}") from error
            raise


def _connect(url: str) -> Redis:
    """Make a client for a URL; raises ValueError for one that cannot be read."""
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=_SOCKET,
            socket_timeout=_SOCKET,
            socket_connect_timeout=_SOCKET,
            # Every verb may be asked twice: once more at once, for a connection that died in the pool.
            retry=Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
        )
    except ValueError:
        # Neither the URL nor the cause is repeated: it may hold a password.
        raise ValueError("the store's URL cannot be read; write redis://host:6379/0") from None
    return Redis.from_pool(pool)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
