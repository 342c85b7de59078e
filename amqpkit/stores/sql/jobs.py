"""What is known of jobs, in a table of SQLite or PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import Change, Job, JobQuery, merge
from amqpkit.stores.sql.connect import ask, make_engine
from amqpkit.stores.sql.faults import misses_table, translated
from amqpkit.stores.sql.prepare import WITHIN, prepare
from amqpkit.stores.sql.statements import PURGED_AT_ONCE, TABLE, claims_table
from amqpkit.stores.sql.tables import beside, jobs_table

T = TypeVar("T")

KEEP: Final = timedelta(days=30)
"""How long a job is remembered after the last news of it."""
_PURGE_EVERY: Final = 100
_JOBS: Final = TypeAdapter(Job)


class SqlJobLog:
    """A `JobLog` in SQLite or PostgreSQL, for any number of workers and publishers.

    Call `await log.prepare()` before the first use. Every verb ends within some five seconds and raises
    StoreUnavailable when the database cannot be asked.
    """

    def __init__(
        self, database: str | AsyncEngine, *, keep: timedelta = KEEP, table: str = TABLE, schema: str | None = None
    ) -> None:
        """Use a URL (`sqlite:///path`, `postgresql://...`), or an AsyncEngine that stays the caller's to dispose of.

        `table` is that of claims, after which the one of jobs is named. Jobs are remembered for `keep`.
        """
        self._owned = isinstance(database, str)
        self._plain = make_engine(database) if isinstance(database, str) else database
        self._dialect = self._plain.dialect.name
        level = "SERIALIZABLE" if self._dialect == "sqlite" else "READ COMMITTED"
        self._engine = self._plain.execution_options(isolation_level=level)
        self._keep = keep.total_seconds()
        metadata = sa.MetaData()
        self._claims = claims_table(metadata, table, schema)
        self._table = jobs_table(metadata, beside(table, "jobs"), schema)
        self._recorded = count(1)
        url = self._plain.url
        place = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        self._name = f"the job log {place.render_as_string()}"

    def __repr__(self) -> str:
        return f"SqlJobLog({self._name.removeprefix('the job log ')})"

    async def prepare(self) -> None:
        """Create or upgrade the tables, as a store in the same database does; raises StoreUnavailable."""
        with translated(self._name):
            async with asyncio.timeout(WITHIN + 5):
                await prepare(self._plain, self._claims)

    async def record(self, changes: Sequence[Change]) -> int:
        """Take news in, in one transaction."""
        if not changes:
            return 0

        async def work(connection: AsyncConnection) -> int:
            await self._begin(connection)
            known = await self._locked(connection, sorted({change.id for change in changes}))
            late = 0
            for change in changes:
                known[change.id], ignored = merge(known.get(change.id), change)
                late += ignored
            await self._write(connection, known)
            if next(self._recorded) % _PURGE_EVERY == 0:
                await connection.execute(self._purge())
            await connection.commit()
            return late

        return await self._ask(work)

    async def get(self, job: str) -> Job | None:
        """Look one up."""
        found = await self.find(JobQuery(ids=(job,), limit=1))
        return found[0] if found else None

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look several up, the newest first."""
        row, wanted = self._table.c, sa.select(self._table)
        for column, values in (
            (row.state, tuple(state.value for state in query.states)),
            (row.queue, (query.queue,) if query.queue else ()),
            (row.type, (query.type,) if query.type else ()),
            (row.id, query.ids),
        ):
            if values:
                wanted = wanted.where(column.in_(map(_storable, values)))
        wanted = wanted.order_by(row.created.desc(), row.id.desc()).limit(query.limit)

        async def work(connection: AsyncConnection) -> Sequence[Job]:
            return [_job(found) for found in (await connection.execute(wanted)).mappings()]

        return await self._ask(work)

    async def cancel(self, job: str) -> Job | None:
        """Ask that it be given up, unless it has ended."""
        row = self._table.c
        now = datetime.now(UTC).timestamp()
        wanted = row.cancel_requested.is_(None) & row.state.not_in(("succeeded", "failed", "cancelled"))

        async def work(connection: AsyncConnection) -> None:
            asked = sa.update(self._table).where(row.id == _storable(job), wanted).values(cancel_requested=now)
            await connection.execute(asked)
            await connection.commit()

        await self._ask(work)
        return await self.get(job)

    async def close(self) -> None:
        """Close the connections of an engine of our own."""
        if self._owned:
            await self._plain.dispose()

    async def _begin(self, connection: AsyncConnection) -> None:
        # SQLite: taken at once, since a transaction that has read may find that it cannot write any more
        if self._dialect == "sqlite":
            await connection.exec_driver_sql("BEGIN IMMEDIATE")

    async def _locked(self, connection: AsyncConnection, ids: list[str]) -> dict[str, Job]:
        """Read what is known of jobs; nobody else writes them until the commit.

        Two who hear of a new job at once must wait for each other too, so its row is made first; in one order, or
        they would wait for each other for ever.
        """
        row = self._table.c
        if self._dialect == "postgresql":
            blank = {"type": "", "queue": "", "state": "", "created": 0.0, "updated": 0.0, "document": ""}
            insert = postgresql.insert(self._table).on_conflict_do_nothing(index_elements=[row.id])
            await connection.execute(insert, [{"id": _storable(job), **blank} for job in ids])
        wanted = sa.select(self._table).where(row.id.in_(map(_storable, ids))).order_by(row.id).with_for_update()
        rows = (await connection.execute(wanted)).mappings().all()
        found = [_job(each) for each in rows if each["document"]]
        return {job.id: job for job in found}

    async def _write(self, connection: AsyncConnection, jobs: dict[str, Job]) -> None:
        row = self._table.c
        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[self._dialect](self._table)
        names = ("type", "queue", "state", "created", "updated", "cancel_requested", "document")
        upsert = insert.on_conflict_do_update(
            index_elements=[row.id], set_={name: insert.excluded[name] for name in names}
        )
        await connection.execute(upsert, [_row(job) for job in jobs.values()])

    def _purge(self) -> sa.Delete:
        row, oldest = self._table.c, datetime.now(UTC).timestamp() - self._keep
        outdated = sa.select(row.id).where(row.updated < oldest).limit(PURGED_AT_ONCE)
        return sa.delete(self._table).where(row.id.in_(outdated.with_for_update(skip_locked=True).scalar_subquery()))

    async def _ask(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        try:
            with translated(self._name):
                return await ask(self._engine, work)
        except exc.DBAPIError as error:
            if misses_table(error):  # somebody who prepares it may still come
                msg = f"{self._name} has no table of jobs: a worker with it makes one, or `await log.prepare()`"
                raise StoreUnavailable(msg) from error
            raise


def _row(job: Job) -> dict[str, Any]:
    document = _JOBS.dump_json(replace(job, cancel_requested=None)).decode()
    return {
        "id": _storable(job.id),
        "type": _storable(job.type),
        "queue": _storable(job.queue),
        "state": job.state.value,
        "created": job.created.timestamp(),
        "updated": job.updated.timestamp(),
        "cancel_requested": None if job.cancel_requested is None else job.cancel_requested.timestamp(),
        "document": document,
    }


def _job(row: Any) -> Job:
    job = _JOBS.validate_json(row["document"])
    asked = row["cancel_requested"]
    return job if asked is None else replace(job, cancel_requested=datetime.fromtimestamp(asked, UTC))


def _storable(text: str) -> str:
    """Write a stranger's text as every database takes it: PostgreSQL knows no NUL, and nobody a lone surrogate."""
    return text.encode(errors="backslashreplace").decode().replace("\x00", "\\x00")
