"""A server that is gone, frozen or read-only: said within seconds, and forgotten as soon as it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import redis as redis_client
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from amqpkit.errors import StoreUnavailable
from amqpkit.ports import Claimed, Hold
from amqpkit.stores.redis import RedisStore
from amqpkit.stores.sql import SqlStore
from tests.servers.server import Server

CLAIMED = Claimed(Hold.CLAIMED)
MINUTE = 60.0
SECONDS = 8.0


@pytest.fixture(params=["postgresql-server", "redis-server"])
async def outage(request) -> AsyncIterator[tuple[Any, Server]]:
    """A store, and the server under it."""
    if request.param == "redis-server":
        server = request.getfixturevalue("own_redis")
        store: Any = RedisStore(server.url)
    else:
        server = request.getfixturevalue("own_postgres")
        store = SqlStore(server.url)
    await store.prepare()
    yield store, server
    await store.close()


async def all_fail(store: Any, times: int = 1) -> None:
    """Ask everything that can be asked, many times at once."""
    verbs = [
        verb
        for n in range(times)
        for verb in (
            store.claim(f"new{n}", owner="a", lease=MINUTE),
            store.renew("k", owner="a", lease=MINUTE),
            store.complete("k", owner="a", result=None),
            store.release("k", owner="stranger"),
        )
    ]
    began = time.monotonic()
    answers = await asyncio.gather(*verbs, return_exceptions=True)
    assert time.monotonic() - began < SECONDS
    assert [type(answer) for answer in answers] == [StoreUnavailable] * len(verbs)
    assert all(answer.__cause__ is not None for answer in answers)


async def works_again(store: Any) -> None:
    began = time.monotonic()
    while True:
        try:
            assert await store.renew("k", owner="a", lease=MINUTE)
            break
        except StoreUnavailable:
            assert time.monotonic() - began < SECONDS
            await asyncio.sleep(0.05)
    assert await store.claim("done", owner="b", lease=MINUTE) == Claimed(Hold.DONE)
    assert (await store.claim("k", owner="b", lease=MINUTE)).hold is Hold.HELD


async def some_history(store: Any) -> None:
    await store.claim("k", owner="a", lease=MINUTE)
    await store.claim("done", owner="a", lease=MINUTE)
    await store.complete("done", owner="a", result=None)


async def test_a_server_that_was_killed_is_unavailable_until_it_is_back(outage):
    store, server = outage
    await some_history(store)

    server.kill()
    await all_fail(store, times=10)
    with pytest.raises(StoreUnavailable):
        await store.prepare()
    await asyncio.to_thread(server.start)

    await works_again(store)


async def test_a_server_that_hangs_is_unavailable_until_it_goes_on(outage):
    store, server = outage
    await some_history(store)

    server.freeze()
    try:
        await all_fail(store, times=10)
        await all_fail(store)
    finally:
        server.thaw()

    await works_again(store)


async def test_who_gives_up_on_a_server_that_hangs_is_let_go(outage):
    store, server = outage
    await some_history(store)

    server.freeze()
    try:
        began = time.monotonic()
        with pytest.raises((TimeoutError, StoreUnavailable)):
            async with asyncio.timeout(0.3):
                await store.renew("k", owner="a", lease=MINUTE)
        assert time.monotonic() - began < SECONDS
    finally:
        server.thaw()

    await works_again(store)


async def test_a_restart_between_two_questions_is_not_even_noticed(outage):
    store, server = outage
    await some_history(store)
    # Several connections, all of them dead afterwards.
    await asyncio.gather(*(store.renew("k", owner="a", lease=MINUTE) for _ in range(5)))

    server.kill()
    await asyncio.to_thread(server.start)

    assert await store.renew("k", owner="a", lease=MINUTE)
    assert await store.claim("done", owner="b", lease=MINUTE) == Claimed(Hold.DONE)


async def test_a_server_that_only_reads_is_unavailable(outage):
    store, server = outage
    await some_history(store)

    if isinstance(store, RedisStore):
        with redis_client.Redis.from_url(server.url) as client:
            client.replicaof("127.0.0.1", 1)
            with pytest.raises(StoreUnavailable):
                await store.claim("new", owner="a", lease=MINUTE)
            client.replicaof("NO", "ONE")
    else:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
            assert "read-only" in await reason(store)
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")

    await works_again(store)


async def reason(store: Any) -> str:
    """Ask until it is refused: the server tells its sessions of a new setting when it comes to it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            await store.claim("new", owner="a", lease=MINUTE)
        except StoreUnavailable as error:
            return str(error)
        await asyncio.sleep(0.05)
    return "it can still be written to"


async def test_a_row_that_somebody_locks_is_unavailable_and_does_not_hang(postgres):
    store = SqlStore(postgres)
    await store.prepare()
    await store.claim("k", owner="a", lease=MINUTE)

    with psycopg.connect(postgres) as connection:
        connection.execute("SELECT * FROM amqpkit_claims FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="lock"):
            await store.renew("k", owner="a", lease=MINUTE)
        assert time.monotonic() - began < SECONDS

    assert await store.renew("k", owner="a", lease=MINUTE)
    await store.close()


async def test_connections_that_the_server_ends_are_replaced(postgres):
    store = SqlStore(postgres)
    await store.prepare()
    await store.claim("k", owner="a", lease=MINUTE)

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert await store.renew("k", owner="a", lease=MINUTE)
    await store.close()


async def test_a_pool_without_a_free_connection_is_unavailable(postgres):
    engine = create_async_engine(
        postgres.replace("postgresql:", "postgresql+psycopg:"), pool_size=1, max_overflow=0, pool_timeout=0.2
    )
    store = SqlStore(engine)
    await store.prepare()

    async with engine.connect():
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await store.claim("k", owner="a", lease=MINUTE)

    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED
    await engine.dispose()


async def test_a_mistake_is_no_outage(postgres, redis):
    store = SqlStore(postgres)
    await store.prepare()
    with pytest.raises(sa.exc.DBAPIError):
        await store.claim("k", owner="a", lease="soon")
    await store.close()

    other = RedisStore(redis.url, prefix=redis.prefix)
    with redis_client.Redis.from_url(redis.url) as client:
        client.set(f"{redis.prefix}k", "not ours")
    with pytest.raises(redis_client.ResponseError, match="WRONGTYPE"):
        await other.claim("k", owner="a", lease=MINUTE)
    await other.close()


async def test_a_wrong_password_is_said_without_the_right_one(redis):
    secret = redis.url.split(":")[2].partition("@")[0]
    store = RedisStore(redis.url.replace(secret, "s3cr3t"))
    with pytest.raises(StoreUnavailable) as caught:
        await store.prepare()

    assert "s3cr3t" not in str(caught.value)
    await store.close()


async def test_a_client_of_the_users_own_is_left_open(redis):
    client = redis_client.asyncio.Redis.from_url(redis.url)
    store = RedisStore(client, prefix=redis.prefix)
    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED
    await store.close()

    assert await client.exists(f"{redis.prefix}k")
    await client.aclose()


async def test_a_client_that_decodes_answers_is_as_good(redis):
    client = redis_client.asyncio.Redis.from_url(redis.url, decode_responses=True)
    store = RedisStore(client, prefix=redis.prefix)
    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED
    assert await store.complete("k", owner="a", result=bytes(range(256)))
    assert await store.claim("k", owner="b", lease=MINUTE) == Claimed(Hold.DONE)
    await client.aclose()


async def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path}/missing/claims.db")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await store.prepare()
    (tmp_path / "missing").mkdir()
    await store.prepare()

    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED
    await store.close()
