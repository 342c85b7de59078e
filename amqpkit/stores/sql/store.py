"""Claims in a table of SQLite or PostgreSQL; also completed in the caller's own transaction."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from amqpkit.errors import StoreUnavailable
from amqpkit.ports import Claimed, Hold, Transaction
from amqpkit.stores.rules import KEEP, keep_seconds, stored_key, stored_result
from amqpkit.stores.sql.connect import ask, make_engine
from amqpkit.stores.sql.faults import translated
from amqpkit.stores.sql.prepare import WITHIN, prepare
from amqpkit.stores.sql.statements import TABLE, Statements, claims_table
from amqpkit.stores.sql.transaction import Completion, begin

T = TypeVar("T")

_PURGE_EVERY: Final = 100
"""Completions; each purge may delete several times as many keys, so that the table does not grow without end."""
_LOOKS: Final = 3
"""How often a claim is tried again when the row that it met is gone a moment later."""


class SqlStore:
    """An `IdempotencyStore` and a `TransactionalStore` in SQLite or PostgreSQL.

    Call `await store.prepare()` before the first use. Every verb ends within some five seconds and raises
    StoreUnavailable when the database cannot be asked; it works again as soon as the database does.
    """

    def __init__(
        self, database: str | AsyncEngine, *, keep: timedelta = KEEP, table: str = TABLE, schema: str | None = None
    ) -> None:
        """Use a URL (`sqlite:///path`, `postgresql://...`), or an AsyncEngine that stays the caller's to dispose of.

        Finished keys are remembered for `keep`. A given engine keeps its own time limits: give it some.
        """
        self._owned = isinstance(database, str)
        engine = make_engine(database) if isinstance(database, str) else database
        self._plain = engine
        self._engine = engine if self._owned else engine.execution_options(isolation_level="AUTOCOMMIT")
        self._keep = keep_seconds(keep)
        self.metadata = sa.MetaData()
        """The table, for users who run their own Alembic."""
        self._table = claims_table(self.metadata, table, schema)
        self._statements = Statements.of(self._table, engine.dialect.name)
        self._completed = count()
        url = engine.url
        place = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        self._name = f"the store {place.render_as_string()}"

    def __repr__(self) -> str:
        return f"SqlStore({self._name.removeprefix('the store ')})"

    async def prepare(self) -> None:
        """Create or upgrade the table; workers that start together wait for each other.

        A table that is there without our version table is left alone: it came from the user's own migrations.
        Raises StoreUnavailable.
        """
        with translated(self._name):
            async with asyncio.timeout(WITHIN + 5):
                await prepare(self._plain, self._table)

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        """Take the key, unless it is done or held by another."""
        values = {"of_key": stored_key(key), "by_owner": owner, "for_seconds": lease}

        async def work(connection: AsyncConnection) -> Claimed:
            for _ in range(_LOOKS):
                if (await connection.execute(self._statements.claim, values)).first() is not None:
                    return Claimed(Hold.CLAIMED)
                row = (await connection.execute(self._statements.look, {"of_key": values["of_key"]})).first()
                if row is not None and row.left > 0:
                    return Claimed(Hold.DONE) if row.done else Claimed(Hold.HELD, row.left)
            # Others take and give it back faster than we can look: it is held, for a moment.
            return Claimed(Hold.HELD)

        return await self._ask(work)

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        """Prolong our claim; one that we have completed meanwhile stays done."""
        return await self._changes(self._statements.renew, of_key=stored_key(key), by_owner=owner, for_seconds=lease)

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        """Mark our claim done; a second time adds the result if the first had none."""
        ours = await self._changes(self._statements.complete, **self._completion(key, owner, result))
        if next(self._completed) % _PURGE_EVERY == 0:
            await self._purge()
        return ours

    async def release(self, key: str, *, owner: str) -> None:
        """Forget our claim unless it is done."""
        await self._changes(self._statements.release, of_key=stored_key(key), by_owner=owner)

    async def close(self) -> None:
        """Close the connections of an engine of our own."""
        if self._owned:
            await self._plain.dispose()

    def transaction(self, key: str, *, owner: str, target: Any, result: bytes | None = None) -> Transaction:
        """Run a block in the caller's transaction and complete the claim right before its commit.

        `target` is a SQLAlchemy Engine, Connection or Session (`with`), or their async forms (`async with`), on the
        store's own database; an engine is given a transaction of its own, a connection's or session's is joined and
        *committed at the end of the block*. On an exception it is rolled back and the claim stays as it was. Raises
        TypeError for another target, and, rolled back: LeaseLost when the claim is no longer ours, ConsumerError when
        that database has none, StoreUnavailable when completing fails.

        On SQLite a transaction that the block begins holds the file's only write lock to its end (one that it joins,
        from its first write): everybody's claims and renewals wait that long, and are StoreUnavailable after three
        seconds. Nobody can take the message over meanwhile either, however long it takes. Keep such blocks short. On
        PostgreSQL use READ COMMITTED: above it, a renewal of the lease during the block makes the commit fail, and the
        message is tried again.
        """
        values = self._completion(key, owner, result)
        dialect = self._plain.dialect.name
        return begin(target, Completion(self._name, dialect, key, owner, self._statements, values))

    def _completion(self, key: str, owner: str, result: bytes | None) -> dict[str, Any]:
        return {
            "of_key": stored_key(key),
            "by_owner": owner,
            "for_seconds": self._keep,
            "with_result": stored_result(result),
        }

    async def _changes(self, statement: sa.Executable, **values: Any) -> bool:
        """Run an UPDATE or DELETE, and say whether it met a row."""

        async def work(connection: AsyncConnection) -> bool:
            return bool((await connection.execute(statement, values)).rowcount)

        return await self._ask(work)

    async def _purge(self) -> None:
        """Delete some of what nobody asks for any more; an owner may complete a claim long after its lease."""
        # What was asked for is done; the rest can wait for another day.
        with suppress(StoreUnavailable):
            await self._changes(self._statements.purge, for_seconds=self._keep)

    async def _ask(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        with translated(self._name):
            return await ask(self._engine, work)
