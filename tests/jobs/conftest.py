"""Databases for jobs: SQLite and PostgreSQL, each with a table for effects beside those of the kit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from amqpkit.stores.sql import SqlSteps

EFFECTS = sa.Table(
    "effects",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
)


@dataclass
class Database:
    """A database by its URLs, and engines of the user's own on it."""

    url: str
    steps: SqlSteps
    engine: AsyncEngine
    sync_engine: sa.Engine

    async def effects(self, job: str) -> list[str]:
        """What was written for a job, in order."""
        wanted = sa.select(EFFECTS.c.what).where(EFFECTS.c.job == job).order_by(EFFECTS.c.id)
        async with self.engine.connect() as connection:
            return list(await connection.scalars(wanted))


def effect(job: str | None, what: str) -> Any:
    """Write an effect down."""
    return EFFECTS.insert().values(job=job, what=what)


def urls(url: str) -> tuple[str, str]:
    """The drivers for threads and for loops."""
    kind, _, rest = url.partition("://")
    return (url, f"sqlite+aiosqlite://{rest}") if kind == "sqlite" else (f"postgresql+psycopg://{rest}",) * 2


@pytest.fixture(params=["sqlite", "postgresql-server"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/jobs.db" if sqlite else request.getfixturevalue("postgres")
    sync_url, async_url = urls(url)
    steps = SqlSteps(url)
    await steps.prepare()
    engine, sync_engine = create_async_engine(async_url), sa.create_engine(sync_url)
    if sqlite:

        @sa.event.listens_for(engine.sync_engine, "connect")
        def relax(connection: Any, _: object) -> None:  # a killed process is survived without waiting for the disk
            connection.execute("PRAGMA synchronous=NORMAL")

    await asyncio.to_thread(EFFECTS.create, sync_engine)
    yield Database(url, steps, engine, sync_engine)
    await steps.close()
    await engine.dispose()
    await asyncio.to_thread(sync_engine.dispose)
