"""The shop's products and the files they come from, in the shop's own database."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    insert,
    select,
)

TABLES = MetaData()
UPLOADS = Table(
    "uploads",
    TABLES,
    Column("id", String(36), primary_key=True),
    Column("owner", String, nullable=False),
    Column("text", Text, nullable=False),
)
# No UNIQUE: that each row is written once is the steps' doing, and it would show here if it were not.
PRODUCTS = Table(
    "products",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("upload", String(36), nullable=False, index=True),
    Column("row", Integer, nullable=False),
    Column("sku", String, nullable=False),
    Column("name", String, nullable=False),
    Column("cents", Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Product:
    """One row of a file, whose number is what a spreadsheet shows."""

    row: int
    sku: str
    name: str
    cents: int


class UploadGone(Exception):
    """The file of an import is not in the database; the text is for whoever waits."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("The file is no longer here. Please upload it again.")


def open_catalogue(database: str) -> Engine:
    """Open the database that a URL names, and make the tables if they are not there."""
    catalogue = create_engine(database)
    TABLES.create_all(catalogue)
    return catalogue


# --- files -----------------------------------------------------------------------------------------


def keep(catalogue: Engine, owner: str, text: str) -> str:
    """Keep a file, and give the id by which its owner and its import know it."""
    upload = str(uuid.uuid4())
    with catalogue.begin() as page:
        page.execute(insert(UPLOADS).values(id=upload, owner=owner, text=text))
    return upload


def forget(catalogue: Engine, upload: str) -> None:
    """Throw a file away."""
    with catalogue.begin() as page:
        page.execute(delete(UPLOADS).where(UPLOADS.c.id == upload))


def owner_of(catalogue: Engine, upload: str) -> str | None:
    """Say who brought a file."""
    with catalogue.connect() as page:
        return page.scalar(select(UPLOADS.c.owner).where(UPLOADS.c.id == upload))


def text_of(catalogue: Engine, upload: str) -> str:
    """Read a file; raises UploadGone."""
    with catalogue.connect() as page:
        text = page.scalar(select(UPLOADS.c.text).where(UPLOADS.c.id == upload))
    if text is None:
        raise UploadGone
    return str(text)


# --- products --------------------------------------------------------------------------------------


def add(page: Connection, upload: str, products: Iterable[Product]) -> None:
    """Write products down, in the transaction that is under way."""
    rows = [
        {"upload": upload, "row": each.row, "sku": each.sku, "name": each.name, "cents": each.cents}
        for each in products
    ]
    page.execute(insert(PRODUCTS), rows)


def remove(page: Connection, upload: str, first: int, last: int) -> None:
    """Take the products of some rows of a file out again, in the transaction that is under way."""
    column = PRODUCTS.c
    page.execute(delete(PRODUCTS).where(column.upload == upload, column.row.between(first, last)))


def rows_of(catalogue: Engine, upload: str) -> list[int]:
    """List the rows of a file that are in the catalogue, one entry for each time that they are."""
    with catalogue.connect() as page:
        return list(page.scalars(select(PRODUCTS.c.row).where(PRODUCTS.c.upload == upload).order_by(PRODUCTS.c.id)))
