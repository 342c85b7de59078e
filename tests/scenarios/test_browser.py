"""The shop's page in a real browser: an import is begun, watched, cancelled, and its failure understood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

from amqpkit import load_topology
from examples.shop.api import TOPOLOGY
from examples.shop.catalogue import rows_of
from tests.broker.life.rig import until
from tests.containers.brokers import Broker
from tests.scenarios.shop import products, topology
from tests.scenarios.web import Site, in_memory, on_broker
from tests.servers import packages

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 20_000
"""Milliseconds in which what is expected on the page must come true."""

# The browser may have to be installed first.
pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Debian's browser."""
    try:
        return packages.program("chromium", "chromium", print)
    except packages.NoServerError as error:
        pytest.fail(f"no browser to look at the page with (Debian's package chromium): {error}", pytrace=False)


class Visitor:
    """Somebody at the page; `trouble` is what the browser complained about."""

    def __init__(self, it: Site, page: Page) -> None:
        self.it, self.page, self.trouble = it, page, list[str]()
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("console", self.hear)
        page.on("dialog", lambda dialog: self.trouble.append(f"a dialog: {dialog.message}"))
        self.bar, self.state, self.text = page.locator("#bar"), page.locator("#state"), page.locator("#text")
        self.error, self.refused = page.locator("#error"), page.locator("#refused")
        self.cancel = page.get_by_role("button", name="Cancel")

    def hear(self, told: ConsoleMessage) -> None:
        """Note an error, but for a log of jobs that could not be asked for a moment: the page asks again."""
        if told.type == "error" and "status of 503" not in told.text:
            self.trouble.append(told.text)

    async def bring(self, text: str, name: str = "products.csv") -> str:
        """Choose a file, press the button, and give the job's id."""
        await self.page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": text.encode()})
        await self.page.get_by_role("button", name="Import").click()
        await expect(self.page.locator("#job")).to_be_visible()
        return self.page.url.partition("?job=")[2]

    async def reads(self, state: str, text: str) -> None:
        """See a state and a text."""
        await expect(self.state).to_have_text(state)
        await expect(self.text).to_have_text(text)


@asynccontextmanager
async def visiting(it: Site, chromium: Path) -> AsyncIterator[Visitor]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            page = await browser.new_page()
            expect.set_options(timeout=PATIENCE)
            visitor = Visitor(it, page)
            await page.goto(it.url)
            yield visitor
        finally:
            await browser.close()


async def test_an_import_on_a_real_broker_is_begun_watched_through_a_reload_and_done(
    tmp_path: Path, broker: Broker, chromium: Path
):
    async with on_broker(tmp_path, topology(), broker) as it, visiting(it, chromium) as ann:
        job = await ann.bring(products(2000))
        await ann.reads("Waiting for its turn", "")
        assert await ann.bar.get_attribute("value") is None
        async with it.working():
            await ann.reads("Importing", "0 of 2,000 rows")
            it.pictures.let(12)
            await ann.reads("Importing", "1,200 of 2,000 rows")
            await expect(ann.bar).to_have_attribute("value", "0.6")

            await ann.page.reload()
            await ann.reads("Importing", "1,200 of 2,000 rows")
            await expect(ann.page.get_by_role("heading", name="Import of products.csv")).to_be_visible()

            it.pictures.let(8)
            await ann.reads("Done: all rows are in the catalogue", "2,000 of 2,000 rows")
            await expect(ann.bar).to_have_attribute("value", "1")
            await expect(ann.cancel).to_be_hidden()
        assert rows_of(it.catalogue, job) == list(range(2, 2002))
        assert ann.trouble == []


async def test_an_import_that_is_cancelled_leaves_nothing(tmp_path: Path, chromium: Path):
    async with in_memory(tmp_path, topology()) as it, it.working(), visiting(it, chromium) as ann:
        job = await ann.bring(products(8000))
        it.pictures.let(3)
        await ann.reads("Importing", "300 of 8,000 rows")
        assert len(rows_of(it.catalogue, job)) == 300
        await ann.cancel.click()
        await expect(ann.state).to_have_text("Cancelling…")

        async def cancelled() -> bool:
            it.pictures.let(1)  # the worker learns of it within some two seconds, and obeys at the next chunk
            await asyncio.sleep(0.1)
            return (await ann.state.text_content()) == "Cancelled: nothing was imported"

        await until(cancelled, "the import is cancelled")
        await expect(ann.cancel).to_be_hidden()
        assert rows_of(it.catalogue, job) == []
        assert ann.trouble == []


async def test_a_failure_is_understood_whatever_the_file_says(tmp_path: Path, chromium: Path):
    hostile = "<img src=x onerror=alert(1)>"
    async with in_memory(tmp_path, topology()) as it, it.working(), visiting(it, chromium) as ann:
        await ann.bring(products(9, bad={7: "A-7,Cup,abc"}))
        await ann.reads("Failed", "")
        await expect(ann.error).to_contain_text('Row 7: the price "abc" is not a number.')
        await expect(ann.error).to_contain_text("Nothing was imported. Please mend the file and import it again.")

        await ann.bring(products(9, bad={3: f"A-3,Cup,{hostile}"}), name=f"{hostile}.csv")
        await expect(ann.error).to_contain_text(f'Row 3: the price "{hostile}" is not a number.')
        await expect(ann.page.locator("h2")).to_have_text(f"Import of {hostile}.csv")
        assert await ann.page.locator("img").count() == 0
        # and were it not put in as text, the page would still not run it
        await ann.page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=alert(1)>')"
        )
        await until(lambda: ann.trouble, "the browser refuses to run it")
        assert all("Content Security Policy" in each for each in ann.trouble)


async def test_what_is_tried_again_and_what_is_not_known_is_said(
    tmp_path: Path, chromium: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("amqpkit.web.jobs.PATIENCE", 0.2)
    short = tmp_path / "short.yaml"
    short.write_text("work_queues: {catalogue.import: {retry: {delays: [2s]}}}\n")
    async with in_memory(tmp_path, load_topology(TOPOLOGY, short)) as it, it.working(), visiting(it, chromium) as ann:
        it.pictures.failing = True
        it.pictures.let(1)
        await ann.bring(products(100))
        await expect(ann.state).to_contain_text("It has to be tried again at")
        await expect(ann.error).to_have_text(
            "Something went wrong. It will be tried again by itself.You need to do nothing."
        )
        it.pictures.let(1)
        await expect(ann.state).to_have_text("Done: all rows are in the catalogue")
        await expect(ann.error).to_be_hidden()

        await ann.page.goto(f"{it.url}/?job=nobody-s")
        await expect(ann.refused).to_have_text(
            "No such import is known here, or it is somebody else's.", timeout=60_000
        )
        await expect(ann.page.locator("#job")).to_be_hidden()
