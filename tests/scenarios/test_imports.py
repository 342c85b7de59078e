"""The shop's import in memory: how far it is, cancelled, resumed after a crash, undone, and what a bad row is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from amqpkit.brokers.memory.clock import HoldingExecutor
from amqpkit.jobs import ErrorKind, Job, JobState
from amqpkit.stores.sql import SqlSteps
from amqpkit.testing.simulator import Simulator
from examples.shop import page
from examples.shop.catalogue import PRODUCTS, forget, keep, open_catalogue, rows_of
from examples.shop.imports import DATABASE, PICTURES, BadRow, ImportCatalogue, check, products_in
from examples.shop.payloads import CatalogueImport
from tests.scenarios.shop import Died, products, topology

ALL = list(range(2, 502))
"""The rows of 500 products, as a spreadsheet numbers them."""


@dataclass
class Import:
    """One import on its way."""

    simulator: Simulator
    catalogue: sa.Engine
    job: str = ""
    upload: str = ""
    slept: int = 0
    at_chunk: Callable[[int], Awaitable[object]] | None = None

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        await self.simulator.clock.sleep(seconds)
        if self.at_chunk is not None:
            await self.at_chunk(self.slept)

    async def begin(self, text: str) -> None:
        self.upload = keep(self.catalogue, "ann", text)
        order = CatalogueImport(upload=self.upload, file="products.csv")
        self.job = await self.simulator.publish(order, message_id=self.upload)

    async def chunks(self, count: int) -> None:
        """Let so many chunks be written, and told: progress is told a few times a second."""
        await self.simulator.advance(count * PICTURES + 0.15)

    @property
    def rows(self) -> list[int]:
        return rows_of(self.catalogue, self.upload)

    async def seen(self) -> Job:
        job = await self.simulator.jobs.get(self.job)
        assert job is not None
        return job

    def letter(self) -> dict[str, Any]:
        (letter,) = self.simulator.broker.messages("catalogue.import.dlq")
        return dict(letter.properties.headers)


@asynccontextmanager
async def importing(folder: Path) -> AsyncIterator[Import]:
    url = f"sqlite:///{folder}/shop.db"
    catalogue, steps = open_catalogue(url), SqlSteps(url)
    await steps.prepare()
    simulator = Simulator(topology())
    simulator.use_steps(steps)
    asyncio.get_running_loop().set_default_executor(HoldingExecutor(simulator.clock))
    it = Import(simulator, catalogue)
    try:
        async with simulator:
            await simulator.start_worker([ImportCatalogue(catalogue, sleep=it.sleep)])
            yield it
    finally:
        await steps.close()
        catalogue.dispose()


async def test_it_tells_how_far_it_is_and_writes_each_row_once(tmp_path):
    async with importing(tmp_path) as it:
        await it.begin(products(500))
        assert (await it.seen()).state is JobState.RUNNING
        await it.chunks(3)
        job = await it.seen()
        assert (job.state, job.progress.fraction, job.progress.text) == (JobState.RUNNING, 0.6, "300 of 500 rows")
        assert it.rows == ALL[:300]

        await it.chunks(2)
        job = await it.seen()
        assert (job.state, job.progress.text) == (JobState.SUCCEEDED, "500 of 500 rows")
        assert it.rows == ALL
        assert it.simulator.ledger() == {}


async def test_thousands_are_told_as_people_write_them(tmp_path):
    async with importing(tmp_path) as it:
        await it.begin(products(2000))
        await it.chunks(12)
        assert (await it.seen()).progress.text == "1,200 of 2,000 rows"


async def test_cancelled_on_the_way_everything_that_was_written_is_taken_out_again(tmp_path):
    async with importing(tmp_path) as it:
        await it.begin(products(2000))
        await it.chunks(3)
        assert len(it.rows) == 300
        await it.simulator.jobs.cancel(it.job)
        await it.simulator.advance("2s")

        assert (await it.seen()).state is JobState.CANCELLED
        assert it.rows == []
        assert it.slept < 20, "it did not go on to the end first"
        assert it.simulator.ledger() == {}


async def test_cancelled_before_it_begins_it_never_does(tmp_path):
    async with importing(tmp_path) as it:
        await it.simulator.stop_worker()
        await it.begin(products(500))
        await it.simulator.jobs.cancel(it.job)
        await it.simulator.start_worker()
        await it.chunks(5)

        assert (await it.seen()).state is JobState.CANCELLED
        assert (it.rows, it.slept, it.simulator.ledger()) == ([], 0, {})


async def test_a_worker_that_dies_is_followed_by_one_that_goes_on_after_the_finished_chunks(tmp_path):
    async with importing(tmp_path) as it:

        async def die(chunk: int) -> None:
            if chunk == 3:
                it.simulator.broker.drop_connections()
                raise Died

        it.at_chunk = die
        await it.begin(products(500))
        await it.chunks(3)
        assert it.rows == ALL[:200]
        await it.simulator.advance("1m")

        job = await it.seen()
        assert (job.state, job.attempt, it.rows) == (JobState.SUCCEEDED, 1, ALL)


async def test_a_worker_that_does_not_know_that_it_was_given_up_writes_no_row_twice(tmp_path):
    async with importing(tmp_path) as it:

        async def cut_off(chunk: int) -> None:
            if chunk == 3:
                it.simulator.broker.drop_connections()

        it.at_chunk = cut_off  # the handler goes on, beside the one that gets the message next
        await it.begin(products(500))
        await it.simulator.advance("2m")

        assert (await it.seen()).state is JobState.SUCCEEDED
        assert it.rows == ALL


async def test_a_database_that_fails_between_two_chunks_is_tried_again_from_there(tmp_path):
    async with importing(tmp_path) as it:
        failures = iter([False, False, True])

        @sa.event.listens_for(it.catalogue, "before_cursor_execute", retval=False)
        def fail(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith(f"INSERT INTO {PRODUCTS.name}") and next(failures, False):
                raise sa.exc.OperationalError(statement, {}, OSError("the disk is full"))

        await it.begin(products(500))
        await it.chunks(3)
        job = await it.seen()
        assert (job.state, it.rows) == (JobState.RETRYING, ALL[:200])
        assert job.error is not None
        assert job.error.kind is ErrorKind.WILL_RETRY
        assert "disk" not in job.error.sentence

        await it.simulator.advance("10s")
        job = await it.seen()
        assert (job.state, job.attempt, it.rows) == (JobState.SUCCEEDED, 2, ALL)


async def test_a_database_that_always_fails_ends_with_a_letter_and_with_nothing_written(tmp_path):
    async with importing(tmp_path) as it:

        async def fail(chunk: int) -> None:
            if chunk >= 3:
                raise ConnectionError("no pictures")

        it.at_chunk = fail
        await it.begin(products(500))
        await it.simulator.advance("5m")

        assert ((await it.seen()).state, it.rows) == (JobState.FAILED, [])
        letter = it.letter()
        assert letter["amqpkit-fate"] == "exhausted"
        assert letter["amqpkit-compensations"] == [
            {"step": "rows 102 to 201", "outcome": "undone"},
            {"step": "rows 2 to 101", "outcome": "undone"},
        ]


async def test_a_bad_row_is_told_to_its_user_and_not_tried_again(tmp_path):
    async with importing(tmp_path) as it:
        await it.begin(products(500, bad={7: "A-7,Teapot,abc"}))

        job = await it.seen()
        assert (job.state, job.attempt, it.rows) == (JobState.FAILED, 1, [])
        assert job.error is not None
        assert (job.error.kind, job.error.sentence) == (
            ErrorKind.BAD_INPUT,
            'Row 7: the price "abc" is not a number.',
        )
        assert it.letter()["amqpkit-fate"] == "permanent"


async def test_a_file_that_is_gone_is_said_in_words(tmp_path):
    async with importing(tmp_path) as it:
        await it.simulator.stop_worker()
        await it.begin(products(5))
        forget(it.catalogue, it.upload)
        await it.simulator.start_worker()

        job = await it.seen()
        assert job.error is not None
        assert (job.state, job.error.kind) == (JobState.FAILED, ErrorKind.PERMANENT)
        assert job.error.sentence == "The file is no longer here. Please upload it again."


HEADER = "sku,name,price\n"
BAD = {
    "": 'Row 1: there is no column "sku"; it must name sku, name, price, separated by commas.',
    "sku;name;price\n": 'Row 1: there is no column "sku"; it must name sku, name, price, separated by commas.',
    HEADER: "Row 2: there is no product.",
    HEADER + "\n , \n": "Row 2: there is no product.",
    HEADER + "A,Cup,1\n\nA,Mug,2\n": 'Row 4: the sku "A" is in row 2 already.',
    HEADER + "A,Cup\n": "Row 2: there is no price.",
    HEADER + ",Cup,3\n": "Row 2: there is no sku.",
    HEADER + 'A,Cup,"1,50"\n': 'Row 2: the price "1,50" is not a number.',
    HEADER + "A,Cup,nan\n": 'Row 2: the price "nan" is not a number.',
    HEADER + "A,Cup,1e3\n": 'Row 2: the price "1e3" is not a number.',
    HEADER + "A,Cup,\N{ARABIC-INDIC DIGIT ONE}\n": 'Row 2: the price "\N{ARABIC-INDIC DIGIT ONE}" is not a number.',
    HEADER + "A,Cup,-1\n": 'Row 2: the price "-1" must be from 0 to 9999999.99, with two decimals at most.',
    HEADER + "A,Cup,1.999\n": 'Row 2: the price "1.999" must be from 0 to 9999999.99, with two decimals at most.',
    HEADER + f"A,Cup,{'9' * 400}x\n": f'Row 2: the price "{"9" * 39}…" is not a number.',
    HEADER + 'A,"Cup"s,1\n': "Row 2: it cannot be read: ',' expected after '\"'.",
    HEADER + 'A,"Cup,1\n': "Row 2: it cannot be read: unexpected end of data.",
    HEADER + f"A,{'x' * 200_000},1\n": "Row 2: it cannot be read: field larger than field limit (131072).",
}


@pytest.mark.parametrize(("text", "sentence"), BAD.items(), ids=range(len(BAD)))
def test_each_mistake_has_its_row_and_its_sentence(text, sentence):
    with pytest.raises(BadRow) as raised:
        check(text)
    assert str(raised.value) == sentence


def test_what_spreadsheets_write_is_read():
    text = ' Price ,SKU,name,colour\r\n1.5,A-1,"Cup, blue",blue\r\n"0",B,"Two\nlines",\r\n'
    assert [(each.row, each.sku, each.name, each.cents) for each in products_in(text)] == [
        (2, "A-1", "Cup, blue", 150),
        (3, "B", "Two\nlines", 0),
    ]


def test_its_readme_runs_it_with_log_and_steps_in_the_database_of_the_page():
    readme = (Path(page.__file__).parent / "README.md").read_text()

    assert f"amqpkit run examples.shop.imports:importer topology/shop.yaml --jobs {DATABASE}" in readme
    assert page.DATABASE == DATABASE
    assert "uvicorn --factory examples.shop.page:shop" in readme
