"""A job that somebody waits for: the rows of an uploaded file become products, a hundred at a time.

    amqpkit run examples.shop.imports:importer topology/shop.yaml --jobs sqlite:///shop.db

Each hundred is a step: its rows and the record that they are written are one commit. So a worker that dies, or a
database that fails, is followed by one that goes on after the last finished hundred; and when the import fails for
good or is cancelled, what was written is taken out again. The steps must be in the shop's own database.
"""

import asyncio
import csv
import io
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine

from amqpkit import Consumer, Context

from .catalogue import Product, UploadGone, add, open_catalogue, remove, text_of
from .payloads import CatalogueImport

DATABASE = "sqlite:///shop.db"
COLUMNS = ("sku", "name", "price")
CHUNK = 100
PICTURES = 0.2
"""Seconds in which the pictures of a chunk are fetched, pretended: else it is over before anybody can look."""
SHOWN = 40
"""Characters of a cell that a sentence repeats."""
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_PRICE = re.compile(r"([0-9]{1,7})(?:\.([0-9]{1,2}))?")

Sleep = Callable[[float], Awaitable[object]]


class BadRow(ValueError):
    """A row that cannot be; the text is the sentence that its user reads."""

    def __init__(self, row: int, what: str) -> None:
        """Say which row, as a spreadsheet numbers them, and what is wrong with it."""
        super().__init__(f"Row {row}: {what}")


@dataclass(frozen=True, slots=True)
class Written:
    """What one step has written: all that is needed to undo it."""

    upload: str
    first: int
    last: int


class ImportCatalogue(Consumer[CatalogueImport], queue="catalogue.import"):
    """A bad row is not tried again: no second look makes it better. Everything else is."""

    never_retry = (BadRow, UploadGone)
    errors: ClassVar[Mapping[type[BaseException], tuple[str, str]]] = {
        BadRow: ("bad-input", "{error}"),
        UploadGone: ("permanent", "{error}"),
    }

    def __init__(self, catalogue: Engine, sleep: Sleep = asyncio.sleep) -> None:
        """Write into this catalogue; pictures take as long as `sleep` does."""
        self.catalogue, self.sleep = catalogue, sleep

    async def handle(self, order: CatalogueImport, context: Context) -> None:
        """Check all rows before the first is written; then write, tell how far it is, and stop when asked to."""
        text = await asyncio.to_thread(text_of, self.catalogue, order.upload)
        total = await context.step("check all rows", check, text)
        context.progress(0, f"0 of {total:,} rows")
        products, done = products_in(text), 0
        while chunk := list(islice(products, CHUNK)):
            await self.sleep(PICTURES)
            context.raise_if_cancelled()
            await context.step(
                f"rows {chunk[0].row} to {chunk[-1].row}",
                self.write,
                order.upload,
                chunk,
                inside=self.catalogue,
                compensate=self.take_out,
            )
            done += len(chunk)
            context.progress(done / total, f"{done:,} of {total:,} rows")

    def write(self, page: Connection, upload: str, chunk: list[Product]) -> Written:
        """Write some rows; that they are written is in the same commit."""
        add(page, upload, chunk)
        return Written(upload, chunk[0].row, chunk[-1].row)

    def take_out(self, written: Written, context: Context) -> None:
        """Undo a step; that it is undone is in the same commit."""
        with context.transaction(self.catalogue) as page:
            remove(page, written.upload, written.first, written.last)


def importer(catalogue: Engine | None = None, *, sleep: Sleep = asyncio.sleep) -> tuple[Consumer[Any], ...]:
    """Make it; `catalogue` must be in the database that keeps the worker's steps."""
    return (ImportCatalogue(open_catalogue(DATABASE) if catalogue is None else catalogue, sleep),)


# --- the file --------------------------------------------------------------------------------------


def check(text: str) -> int:
    """Read all rows and count them; raises BadRow for the first that cannot be."""
    return sum(1 for _ in products_in(text))


def products_in(text: str) -> Iterator[Product]:
    """Read a file row by row; raises BadRow. Empty lines are passed over."""
    lines = enumerate(_cells(text), start=1)
    columns = _columns(next(lines, (1, []))[1])
    seen: dict[str, int] = {}
    for row, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        product = _product(row, {name: cells[at].strip() if at < len(cells) else "" for name, at in columns.items()})
        if product.sku in seen:
            raise BadRow(row, f"the sku {_shown(product.sku)} is in row {seen[product.sku]} already.")
        seen[product.sku] = row
        yield product
    if not seen:
        raise BadRow(2, "there is no product.")


def _cells(text: str) -> Iterator[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    for number in count(1):
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise BadRow(number, f"it cannot be read: {error}.") from error
        if cells is None:
            return
        yield cells


def _columns(header: list[str]) -> dict[str, int]:
    names = [cell.strip().casefold() for cell in header]
    for name in COLUMNS:
        if name not in names:
            raise BadRow(1, f'there is no column "{name}"; it must name {", ".join(COLUMNS)}, separated by commas.')
    return {name: names.index(name) for name in COLUMNS}


def _product(row: int, cells: Mapping[str, str]) -> Product:
    for name in COLUMNS:
        if not cells[name]:
            raise BadRow(row, f"there is no {name}.")
    price = cells["price"]
    if not _NUMBER.fullmatch(price):
        raise BadRow(row, f"the price {_shown(price)} is not a number.")
    parts = _PRICE.fullmatch(price)
    if parts is None:
        raise BadRow(row, f"the price {_shown(price)} must be from 0 to 9999999.99, with two decimals at most.")
    cents = 100 * int(parts[1]) + int((parts[2] or "").ljust(2, "0"))
    return Product(row, cells["sku"], cells["name"], cents)


def _shown(cell: str) -> str:
    return f'"{cell if len(cell) <= SHOWN else cell[: SHOWN - 1] + "…"}"'
