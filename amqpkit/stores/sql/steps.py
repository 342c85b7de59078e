"""Finished steps of jobs, in a table of SQLite or PostgreSQL; also written down in the caller's own transaction."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from amqpkit.errors import ConsumerError, LeaseLost, StoreUnavailable
from amqpkit.ports import StepRecord, StepState, Transaction
from amqpkit.stores.rules import stored_key
from amqpkit.stores.sql.connect import ask, make_engine
from amqpkit.stores.sql.faults import misses_table, translated
from amqpkit.stores.sql.prepare import WITHIN, prepare
from amqpkit.stores.sql.statements import PURGED_AT_ONCE, TABLE, claims_table
from amqpkit.stores.sql.tables import beside, steps_table
from amqpkit.stores.sql.transaction import begin

T = TypeVar("T")

KEEP: Final = timedelta(days=30)
"""How long finished steps are remembered: a dead letter may be replayed weeks later."""
_PURGE_EVERY: Final = 100
_NAMES: Final = ("state", "position", "undo", "result", "updated")


class SqlSteps:
    """`Steps` and `TransactionalSteps` in SQLite or PostgreSQL.

    Call `await steps.prepare()` before the first use. Every verb ends within some five seconds and raises
    StoreUnavailable when the database cannot be asked.
    """

    def __init__(
        self, database: str | AsyncEngine, *, keep: timedelta = KEEP, table: str = TABLE, schema: str | None = None
    ) -> None:
        """Use a URL (`sqlite:///path`, `postgresql://...`), or an AsyncEngine that stays the caller's to dispose of.

        `table` is that of claims, after which the one of steps is named. Steps are remembered for `keep`.
        """
        self._owned = isinstance(database, str)
        self._plain = make_engine(database) if isinstance(database, str) else database
        self._engine = self._plain if self._owned else self._plain.execution_options(isolation_level="AUTOCOMMIT")
        self._keep = keep.total_seconds()
        metadata = sa.MetaData()
        self._claims = claims_table(metadata, table, schema)
        self._table = steps_table(metadata, beside(table, "steps"), schema)
        self._upsert = _upsert(self._table, self._plain.dialect.name)
        self._asked = count(1)
        url = self._plain.url
        place = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        self._name = f"the steps in {place.render_as_string()}"

    def __repr__(self) -> str:
        return f"SqlSteps({self._name.removeprefix('the steps in ')})"

    async def prepare(self) -> None:
        """Create or upgrade the tables, as a store in the same database does; raises StoreUnavailable."""
        with translated(self._name):
            async with asyncio.timeout(WITHIN + 5):
                await prepare(self._plain, self._claims)

    async def load(self, job: str) -> Sequence[StepRecord]:
        """Give all that is known of a job."""
        row = self._table.c
        wanted = sa.select(self._table).where(row.job == stored_key(job)).order_by(row.position)

        async def work(connection: AsyncConnection) -> Sequence[StepRecord]:
            return [_record(found) for found in (await connection.execute(wanted)).mappings()]

        known = await self._ask(work)
        await self._tidy()
        return known

    async def save(self, job: str, record: StepRecord) -> StepRecord:
        """Write a record down unless the step is done."""
        row, values = self._table.c, _values(job, record)
        look = sa.select(self._table).where(row.job == values["job"], row.step == values["step"])

        async def work(connection: AsyncConnection) -> StepRecord:
            if (await connection.execute(self._upsert, values)).first() is not None:
                return record
            standing = (await connection.execute(look)).mappings().first()
            return record if standing is None else _record(standing)

        standing = await self._ask(work)
        await self._tidy()
        return standing

    async def close(self) -> None:
        """Close the connections of an engine of our own."""
        if self._owned:
            await self._plain.dispose()

    def recording(self, job: str, *, target: Any, record: Callable[[], StepRecord]) -> Transaction:
        """Run a block in the caller's transaction and write the record down right before its commit.

        `target` is as for `SqlStore.transaction`. Raises LeaseLost, rolled back, when the step was done by another
        meanwhile, ConsumerError when that database has no table of steps.
        """
        return begin(target, Recording(self._name, self._plain.dialect.name, job, self._upsert, record))

    async def _tidy(self) -> None:
        """Now and then delete some of what nobody asks for any more: of jobs that have no younger step."""
        if next(self._asked) % _PURGE_EVERY:
            return
        row, oldest, young = self._table.c, time.time() - self._keep, self._table.alias()
        is_young = sa.exists().where(young.c.job == row.job, young.c.updated >= oldest)
        outdated = sa.select(row.job).where(row.updated < oldest, ~is_young).distinct().limit(PURGED_AT_ONCE)
        unused = sa.delete(self._table).where(row.job.in_(outdated.scalar_subquery()))

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(unused)

        with suppress(StoreUnavailable):
            await self._ask(work)

    async def _ask(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        with translated(self._name):
            return await ask(self._engine, work)


@dataclass(frozen=True, slots=True)
class Recording:
    """A record to write at the end of a block in the caller's transaction."""

    store: str
    dialect: str
    job: str
    upsert: sa.Executable
    record: Callable[[], StepRecord]

    def run(self, connection: sa.Connection) -> None:
        """Write it; raises LeaseLost when the step is done already, ConsumerError when there is no such table."""
        record = self.record()
        try:
            written = connection.execute(self.upsert, _values(self.job, record)).first()
        except exc.DBAPIError as error:
            if misses_table(error):
                msg = f'rolled back: no table of steps where step "{record.name}" was done; give {self.store}\'s own'
                raise ConsumerError(msg) from error
            raise
        if written is None:
            raise LeaseLost(f'rolled back: step "{record.name}" of "{self.job}" was done by another worker meanwhile')


def _upsert(table: sa.Table, dialect: str) -> sa.Executable:
    """Write a row unless the step is done and is to be done again; returns it if that succeeds."""
    insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect](table)
    row, given = table.c, insert.excluded
    free = sa.or_(row.state != StepState.DONE.value, given.state != StepState.DONE.value)
    written: sa.Executable = insert.on_conflict_do_update(
        index_elements=[row.job, row.step], set_={name: given[name] for name in _NAMES}, where=free
    ).returning(row.step)
    return written


def _values(job: str, record: StepRecord) -> dict[str, Any]:
    return {
        "job": stored_key(job),
        "step": record.name,
        "state": record.state.value,
        "position": record.position,
        "undo": record.undo,
        "result": record.result,
        "updated": time.time(),
    }


def _record(row: Any) -> StepRecord:
    return StepRecord(row["step"], StepState(row["state"]), row["position"], row["result"], row["undo"])
