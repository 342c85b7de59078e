"""The table comes into being: Alembic's migrations, run by one worker at a time, with a version table of their own."""

import asyncio
import hashlib
import sqlite3
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random

from amqpkit.stores.sql.faults import is_outage

MIGRATIONS: Final = Path(__file__).parent.parent / "migrations"
WITHIN: Final = 30.0
"""Seconds to wait for others who prepare the same table."""


async def prepare(engine: AsyncEngine, table: sa.Table) -> None:
    """Bring the table to its newest form; leaves it alone when it is there without our version table."""
    if engine.dialect.name == "sqlite":
        await asyncio.to_thread(_try_file, engine.url)
    async with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            await _write_ahead(connection)
            await connection.rollback()
            await connection.execution_options(isolation_level="SERIALIZABLE")
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            await connection.execution_options(isolation_level="READ COMMITTED")
            await _alone(connection, table)
        await connection.run_sync(migrate, table)
        await connection.commit()


def _try_file(url: sa.URL) -> None:
    """Open the file once without aiosqlite, whose thread complains to a loop that ends right after such a failure."""
    path = f"{url.database}"
    try:
        sqlite3.connect(path, uri=path.startswith("file:")).close()
    except sqlite3.Error as error:
        raise sa.exc.OperationalError(None, None, error) from error


async def _write_ahead(connection: AsyncConnection) -> None:
    """Let readers and the writer not wait for each other; the file remembers it."""
    # The change itself does not wait for other connections as everything else does.
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, sa.exc.DBAPIError) and is_outage(error)),
        stop=stop_after_delay(WITHIN / 3),
        wait=wait_random(0.01, 0.1),
        reraise=True,
    ):
        with attempt:
            await connection.exec_driver_sql("PRAGMA journal_mode=WAL")


async def _alone(connection: AsyncConnection, table: sa.Table) -> None:
    """Wait for others who prepare this table; the lock goes with the transaction."""
    await connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WITHIN:g}s'")
    await connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{WITHIN:g}s'")
    number = int.from_bytes(hashlib.sha256(f"amqpkit {table.fullname}".encode()).digest()[:8], signed=True)
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.literal(number, sa.BigInteger))))


def migrate(connection: sa.Connection, table: sa.Table) -> None:
    """Run the migrations that are missing, in the connection's transaction."""
    from alembic.operations import Operations  # noqa: PLC0415 - half a second, for once in a worker's life
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    version = f"{table.name}_version"
    inspector = sa.inspect(connection)
    if inspector.has_table(table.name, schema=table.schema) and not inspector.has_table(version, schema=table.schema):
        # It came from the user's own migrations, which go on looking after it.
        return
    scripts = ScriptDirectory(MIGRATIONS)
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": version,
            "version_table_schema": table.schema,
            "fn": lambda heads, _: scripts._upgrade_revs("head", heads),  # noqa: SLF001 - as Alembic's cookbook does
        },
    )
    # Not through the modules `alembic.op` and `alembic.context`, which are one for the whole process.
    context.run_migrations(op=Operations(context), table=table.name, schema=table.schema)
