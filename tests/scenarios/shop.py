"""The shop's topology and consumers for tests, in memory and on a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

from sqlalchemy import Engine, create_engine

from amqpkit import Consumer, Context, Topology, load_topology
from amqpkit.stores.sql import SqlStore
from examples.shop.books import open_books
from examples.shop.consumers import ChargeCard, EnrichLead, ReportLead, ResizeImage, SendEmail
from examples.shop.payloads import EmailSendV1
from examples.shop.services import EmailProvider

ROOT = Path(__file__).parents[2]
FILE = ROOT / "topology" / "shop.yaml"
SHORT_DELAYS = ROOT / "examples" / "shop" / "short-delays.yaml"


def topology(*, short_delays: bool = False) -> Topology:
    """Load it."""
    return load_topology(FILE, SHORT_DELAYS) if short_delays else load_topology(FILE)


class Shop:
    """The shop's consumers, with what a test wants to look at; without `books` no charge may succeed."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        crash: Callable[[], None] | None = None,
        books: Engine | None = None,
    ) -> None:
        self.at_once = self.most_at_once = 0
        self._sleep = sleep
        crash = crash or _no_crash
        self.email, self.enrich, self.report = SendEmail(), EnrichLead(), ReportLead()
        self.resize = ResizeImage(sleep=self._counted_sleep, crash=crash)
        self.bill = ChargeCard(books or create_engine("sqlite://"), crash=crash)

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        return (self.email, self.resize, self.bill, self.enrich, self.report)

    async def _counted_sleep(self, seconds: float) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._sleep(seconds)
        self.at_once -= 1


def _no_crash() -> None:
    msg = "this test has nothing that crashes its reader"
    raise AssertionError(msg)


# --- handled once ----------------------------------------------------------------------------------


@asynccontextmanager
async def shop_database(folder: Path) -> AsyncIterator[tuple[Engine, SqlStore]]:
    """The shop's books, and the store of its workers, in one database."""
    url = f"sqlite:///{folder}/shop.db"
    books, store = open_books(url), SqlStore(url)
    try:
        await store.prepare()
        yield books, store
    finally:
        await store.close()
        books.dispose()


class Died(Exception):
    """What a dead worker says; nobody hears it."""


def death(cut_off: Callable[[], Awaitable[None]]) -> Callable[[], NoReturn]:
    """Make a crash for a handler in a thread: its worker is cut off from the broker, and says nothing any more."""
    loop = asyncio.get_running_loop()

    def die() -> NoReturn:
        asyncio.run_coroutine_threadsafe(_awaited(cut_off), loop).result(timeout=30)
        raise Died

    return die


async def _awaited(cut_off: Callable[[], Awaitable[None]]) -> None:
    await cut_off()


# --- a deploy --------------------------------------------------------------------------------------


class SendEmailOfTheLastRelease(Consumer[EmailSendV1], queue="email.send"):
    """What handled e-mail before it had a language."""

    def __init__(self, provider: EmailProvider) -> None:
        self.provider = provider

    async def handle(self, email: EmailSendV1, context: Context) -> None:
        await self.provider.send(email.to, email.template, "en", key=context.message_id)


class PatientProvider(EmailProvider):
    """A provider that works, and remembers for which keys it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str | None] = []

    async def send(self, to: str, template: str, language: str, *, key: str | None) -> None:
        self.asked.append(key)
        self.tries[to] = 2
        await super().send(to, template, language, key=key)


# --- an import -------------------------------------------------------------------------------------


def products(count: int, bad: Mapping[int, str] | None = None) -> str:
    """Write a file of so many products, with other rows in place of some."""
    rows = {row: f"A-{row},Teapot {row},{row}.50" for row in range(2, count + 2)} | dict(bad or {})
    return "\n".join(["sku,name,price", *(rows[row] for row in sorted(rows))]) + "\n"
