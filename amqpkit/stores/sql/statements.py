"""The table and the statements that ask it: one set for SQLite and PostgreSQL, each verb a single statement.

Knows no connection. Times are seconds since 1970 by the database's own clock.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from amqpkit.stores.sql.tables import jobs_table, steps_table

TABLE: Final = "amqpkit_claims"
PURGED_AT_ONCE: Final = 500


class clock(FunctionElement[float]):  # noqa: N801 - a function of SQL, named as such
    """The database's clock at this moment, also late in a long transaction."""

    inherit_cache = True
    type = sa.Double()


@compiles(clock, "postgresql")
def _clock_of_postgresql(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


@compiles(clock, "sqlite")
def _clock_of_sqlite(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    # The machine's own, since all who share a file share a machine. Of use in every SQLite, unlike unixepoch('subsec').
    return "((julianday('now') - 2440587.5) * 86400.0)"


def claims_table(metadata: sa.MetaData, name: str = TABLE, schema: str | None = None) -> sa.Table:
    """Describe the table of claims: a row is held `until` then, or done and remembered `until` then."""
    return sa.Table(
        name,
        metadata,
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("result", sa.LargeBinary),
        sa.Index(f"{name}_until", "until"),
        schema=schema,
    )


metadata: Final = sa.MetaData()
"""The default tables, for users who run their own Alembic: add them to `target_metadata`."""
claims_table(metadata)
jobs_table(metadata)
steps_table(metadata)


@dataclass(frozen=True, slots=True)
class Statements:
    """The verbs for one table; their parameters are `of_key`, `by_owner`, `for_seconds`, `with_result`."""

    claim: sa.Executable
    look: sa.Executable
    renew: sa.Executable
    complete: sa.Executable
    release: sa.Executable
    purge: sa.Executable

    @classmethod
    def of(cls, table: sa.Table, dialect: str) -> Self:
        """Write them for a table; `dialect` is `sqlite` or `postgresql`."""
        row = table.c
        ours = (row.key == _key, row.owner == _owner)
        outdated = sa.select(row.key).where(row.until < clock() - sa.case((row.done, 0.0), else_=_seconds))
        return cls(
            claim=_claim(table, dialect),
            look=sa.select(row.owner, row.done, (row.until - clock()).label("left")).where(row.key == _key),
            renew=sa.update(table).where(*ours).values(until=sa.case((row.done, row.until), else_=clock() + _seconds)),
            complete=sa.update(table)
            .where(*ours)
            .values(done=True, until=clock() + _seconds, result=sa.func.coalesce(_result, row.result)),
            release=sa.delete(table).where(*ours, ~row.done),
            purge=sa.delete(table).where(
                row.key.in_(outdated.limit(PURGED_AT_ONCE).with_for_update(skip_locked=True).scalar_subquery())
            ),
        )


_key: Final = sa.bindparam("of_key", type_=sa.Text)
_owner: Final = sa.bindparam("by_owner", type_=sa.Text)
_seconds: Final = sa.bindparam("for_seconds", type_=sa.Double)
_result: Final = sa.bindparam("with_result", type_=sa.LargeBinary)


def _claim(table: sa.Table, dialect: str) -> sa.Executable:
    """Take a row that is new, has run out, or is ours and not done; returns it if that succeeds."""
    row = table.c
    values = {"key": _key, "owner": _owner, "done": False, "until": clock() + _seconds, "result": None}
    wanted = {"owner": _owner, "done": False, "until": clock() + _seconds, "result": None}
    free = sa.or_(row.until <= clock(), sa.and_(row.owner == _owner, ~row.done))
    insert = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}.get(dialect)
    if insert is None:
        raise ValueError(f"a store in {dialect} is not supported: use SQLite or PostgreSQL")
    statement: Any = insert(table).values(values)
    taken: sa.Executable = statement.on_conflict_do_update(index_elements=[row.key], set_=wanted, where=free).returning(
        row.key
    )
    return taken
