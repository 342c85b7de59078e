"""The shop's own database: one row for each charge. A shop of your own would have migrations for it."""

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, String, Table, create_engine, insert, select

TABLES = MetaData()
# No UNIQUE: that each invoice is booked once is the claim's doing, and it would show here if it were not.
CHARGES = Table(
    "charges",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("invoice", String, nullable=False),
    Column("cents", Integer, nullable=False),
)


def open_books(database: str) -> Engine:
    """Open the database that a URL names, and make the table if it is not there."""
    books = create_engine(database)
    TABLES.create_all(books)
    return books


def book(page: Connection, invoice: str, cents: int) -> None:
    """Write a charge down, in the transaction that is under way."""
    page.execute(insert(CHARGES).values(invoice=invoice, cents=cents))


def booked(books: Engine) -> list[str]:
    """List the invoices that were charged, one entry for each charge."""
    with books.connect() as page:
        return list(page.scalars(select(CHARGES.c.invoice).order_by(CHARGES.c.id)))
