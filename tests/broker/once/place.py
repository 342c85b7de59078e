"""Where the claims of a test are, and the table of effects beside them: what outlives every worker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import redis
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from amqpkit.stores import Store, open_store
from amqpkit.stores.redis import RedisStore
from amqpkit.stores.sql.connect import make_engine

metadata = sa.MetaData()
EFFECTS = sa.Table(
    "effects",
    metadata,
    # no key but its own: an effect that happens twice must be seen twice
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("message_id", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A store by its URL; `prefix` is for Redis, which tests share."""

    url: str
    prefix: str = ""

    @property
    def is_sql(self) -> bool:
        """Whether it has transactions."""
        return self.url.startswith(("sqlite", "postgresql"))

    def open(self) -> Store:
        """Open the store."""
        return RedisStore(self.url, prefix=self.prefix) if self.prefix else open_store(self.url)

    async def prepare(self) -> None:
        """Make the tables."""
        store = self.open()
        await store.prepare()
        await store.close()
        if self.is_sql:
            with self.begin() as connection:
                metadata.create_all(connection)

    def begin(self) -> Any:
        """A transaction to look with, on a connection that is closed after it."""
        return self.engine(poolclass=sa.NullPool).begin()

    # --- the user's own engines ----------------------------------------------------------------

    def engine(self, **settings: Any) -> sa.Engine:
        """An engine for handlers in threads."""
        return _tuned(sa.create_engine(self._url("sqlite"), **self._settings(**settings)))

    def async_engine(self, **settings: Any) -> AsyncEngine:
        """An engine for handlers that await."""
        engine = create_async_engine(self._url("sqlite+aiosqlite"), **self._settings(**settings))
        _tuned(engine.sync_engine)
        return engine

    def _url(self, sqlite: str) -> sa.URL:
        url = sa.make_url(self.url)
        return url.set(drivername=sqlite if url.drivername == "sqlite" else "postgresql+psycopg")

    def _settings(self, **settings: Any) -> dict[str, Any]:
        if "poolclass" in settings:
            return settings
        if self.url.startswith("sqlite"):
            # one writer at a time: a queue for one connection is fairer than several that poll for the lock
            return {"pool_size": 1, "max_overflow": 0, "connect_args": {"timeout": 10}} | settings
        return {"pool_size": 3, "max_overflow": 0, "pool_timeout": 2, "connect_args": {"connect_timeout": 3}} | settings

    # --- what is there in the end --------------------------------------------------------------

    def effects(self) -> Counter[str]:
        """Count the rows of the table of effects by message id."""
        with self.begin() as connection:
            return Counter(connection.scalars(sa.select(EFFECTS.c.message_id)))

    def claims(self) -> Counter[str]:
        """Count the claims that are done and those that are held."""
        if not self.is_sql:
            with redis.Redis.from_url(self.url) as client:
                found = [client.hexists(key, "done") for key in client.scan_iter(f"{self.prefix}*", count=1000)]
        else:
            with self.begin() as connection:
                found = list(connection.scalars(sa.text("SELECT done FROM amqpkit_claims")))
        return Counter("done" if done else "held" for done in found)


def entry(message_id: str | None, pid: int) -> sa.Executable:
    """Write down an effect."""
    return sa.insert(EFFECTS).values(message_id=message_id, pid=pid)


def _tuned(engine: sa.Engine) -> sa.Engine:
    """A killed process is survived without waiting for the disk."""
    if engine.dialect.name == "sqlite":

        @sa.event.listens_for(engine, "connect")
        def relax(connection: Any, _: object) -> None:
            cursor = connection.cursor()
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.close()

    return engine


def load() -> None:
    """Import what the stores import when they are opened: a fork then finds it there."""
    for url in ("sqlite:///none", "postgresql://nobody@localhost/none"):
        make_engine(url)
