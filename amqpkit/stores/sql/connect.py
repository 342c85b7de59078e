"""Engines for the store, and questions to them that come back within seconds whatever the server does."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

T = TypeVar("T")

LIMIT: Final = 5.0
"""Seconds that a question may take in all."""
WAIT: Final = 3
"""Seconds to wait for a connection, for a lock, or for SQLite's other writer."""


def make_engine(url: str) -> AsyncEngine:
    """Make an engine for a URL; raises ValueError for a URL that is none of ours, ImportError without the driver."""
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # Neither the URL nor the cause is repeated: it may hold a password.
        raise ValueError("the store's URL cannot be read; write sqlite:///path or postgresql://host/database") from None
    match parsed.drivername:
        case "sqlite" | "sqlite+aiosqlite":
            return _sqlite(parsed.set(drivername="sqlite+aiosqlite"))
        case "postgres" | "postgresql" | "postgresql+psycopg":
            return _postgresql(parsed.set(drivername="postgresql+psycopg"))
        case other:
            raise ValueError(f"no store for {other}: use sqlite:/// or postgresql://, or pass an AsyncEngine")


def _sqlite(url: sa.URL) -> AsyncEngine:
    try:
        import aiosqlite  # noqa: F401, PLC0415 - only to say what to install
    except ImportError as error:
        raise ImportError("a store in SQLite needs aiosqlite: pip install 'amqpkit[sqlite]'") from error
    if url.database in {None, "", ":memory:"}:
        raise ValueError("a store in SQLite needs a file that outlives its connection: sqlite:///path, or use memory:")
    # SQLite has one writer at a time: one connection queues fairly where several would poll for the lock.
    engine = create_async_engine(
        url,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
        pool_size=1,
        max_overflow=0,
        pool_timeout=WAIT,
        connect_args={"timeout": WAIT},
    )
    event.listen(engine.sync_engine, "connect", _relax)
    return engine


def _relax(connection: Any, _: object) -> None:
    """Do not wait for the disk at every claim: after a power failure the last ones may be forgotten, nothing worse."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _postgresql(url: sa.URL) -> AsyncEngine:
    try:
        import psycopg  # noqa: F401, PLC0415 - only to say what to install
    except ImportError as error:
        raise ImportError("a store in PostgreSQL needs psycopg: pip install 'amqpkit[postgres]'") from error
    # The server ends what nobody waits for any more: it does not notice that a client which waits for a lock is gone.
    defaults = {
        "connect_timeout": str(WAIT),
        "application_name": "amqpkit",
        "options": f"-c lock_timeout={WAIT * 1000} -c statement_timeout={int(LIMIT * 1000)}",
    }
    return create_async_engine(
        url,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
        pool_timeout=WAIT,
        connect_args={name: value for name, value in defaults.items() if name not in url.query},
    )


async def ask(engine: AsyncEngine, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Do `work` on a connection, on a new one if the first turns out dead; raises what the database raises.

    Work must bear to be done twice. Ends within LIMIT and a little, with TimeoutError or with the error of a
    connection that was cut.
    """
    deadline = asyncio.get_running_loop().time() + LIMIT
    async with asyncio.timeout_at(deadline + 1):
        try:
            return await _once(engine, work, deadline)
        except exc.DBAPIError as error:
            # The server has gone since the pool last saw it. It may be back: the pool has dropped what it had.
            if not error.connection_invalidated or asyncio.get_running_loop().time() >= deadline:
                raise
            return await _once(engine, work, deadline)


async def _once(engine: AsyncEngine, work: Callable[[AsyncConnection], Awaitable[T]], deadline: float) -> T:
    async with engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        # A mere cancellation makes psycopg ask the server to cancel, and wait for a server that does not answer.
        guillotine = asyncio.get_running_loop().call_at(deadline, cut, driver)
        try:
            return await work(connection)
        finally:
            guillotine.cancel()


def cut(driver: Any) -> None:
    """End a network connection without a word, so that whoever waits for it learns of it at once."""
    fileno = getattr(driver, "fileno", None)
    if fileno is None:
        return
    # What is closed already needs no end; drivers say so each in a way of its own.
    with suppress(Exception), socket.socket(fileno=os.dup(fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)
