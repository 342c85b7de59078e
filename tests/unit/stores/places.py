"""Databases with a store in them and a table for effects, for tests of both together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from amqpkit.ports import Hold
from amqpkit.stores.sql import SqlStore

FORMS = ("engine", "connection", "session", "async engine", "async connection", "async session")
effects = sa.Table("effects", sa.MetaData(), sa.Column("what", sa.Text, nullable=False))
EFFECT = effects.insert().values(what="effect")

Ends = Callable[[], Awaitable[object]]


@dataclass
class Place:
    """A database: the store has engines of its own on it, the tests have theirs."""

    kind: str
    store_url: str
    sync_url: str
    async_url: str
    ends: list[Ends] = field(default_factory=list)

    async def prepare(self) -> SqlStore:
        self.store = SqlStore(self.store_url)
        self.ends.append(self.store.close)
        await self.store.prepare()
        self.engine = sa.create_engine(self.sync_url)
        self.ends.append(lambda: asyncio.to_thread(self.engine.dispose))
        self.async_engine = create_async_engine(self.async_url)
        self.ends.append(self.async_engine.dispose)
        await asyncio.to_thread(effects.create, self.engine)
        return self.store

    async def close(self) -> None:
        for end in reversed(self.ends):
            await end()

    async def count(self) -> int:
        async with self.async_engine.connect() as connection:
            return int(await connection.scalar(sa.select(sa.func.count()).select_from(effects)) or 0)

    async def hold(self, key: str = "k", owner: str = "spy") -> Hold:
        return (await self.store.claim(key, owner=owner, lease=60)).hold

    async def handle(
        self, form: str, *, owner: str = "me", joined: bool = False, fail: bool = False, **kw: Any
    ) -> None:
        """Have an effect in a transaction that completes the claim, on a target of a form."""
        if form.startswith("async"):
            await self._handle_async(form, owner, joined, fail, kw)
        else:
            await asyncio.to_thread(self._handle, form, owner, joined, fail, kw)

    def _handle(self, form: str, owner: str, joined: bool, fail: bool, kw: dict[str, Any]) -> None:
        opened = {"connection": self.engine.connect, "session": lambda: Session(self.engine)}.get(form, lambda: None)()
        target: Any = self.engine if opened is None else opened
        try:
            if joined:
                target.execute(EFFECT)
            with self.store.transaction("k", owner=owner, target=target, **kw) as work:
                work.execute(EFFECT)
                if fail:
                    raise ZeroDivisionError
        finally:
            if opened is not None:
                opened.close()

    async def _handle_async(self, form: str, owner: str, joined: bool, fail: bool, kw: dict[str, Any]) -> None:
        opened: Any = None
        if form == "async connection":
            opened = await self.async_engine.connect()
        elif form == "async session":
            opened = AsyncSession(self.async_engine)
        target = self.async_engine if opened is None else opened
        try:
            if joined:
                await target.execute(EFFECT)
            async with self.store.transaction("k", owner=owner, target=target, **kw) as work:
                await work.execute(EFFECT)
                if fail:
                    raise ZeroDivisionError
        finally:
            if opened is not None:
                await opened.close()


def sqlite(path: str) -> Place:
    return Place("sqlite", f"sqlite:///{path}", f"sqlite:///{path}", f"sqlite+aiosqlite:///{path}")


def postgresql(url: str) -> Place:
    rest = url.removeprefix("postgresql://")
    return Place("postgresql", url, f"postgresql+psycopg://{rest}", f"postgresql+psycopg://{rest}")
