"""Which of a database's errors mean that it cannot be asked now, and which that somebody wrote something wrong."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc

from amqpkit.errors import StoreUnavailable

_STATES: Final = ("08", "25006", "28", "3D", "40", "42501", "53", "55P03", "57", "58")
"""Connection, read-only, credentials, no database, serialization and deadlock, permission, resources, locks, shutdown,
system."""

_SQLITE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)
_PRIMARY: Final = 0xFF
"""SQLite's extended codes keep the primary one in their last byte."""


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Turn what says that the database cannot be asked into StoreUnavailable; everything else passes."""
    try:
        yield
    except (exc.TimeoutError, OSError) as error:
        raise StoreUnavailable(f"{store} does not answer in time: {_said(error)}") from error
    except exc.DBAPIError as error:
        if is_outage(error):
            raise StoreUnavailable(f"{store} cannot be asked: {_said(error.orig or error)}") from error
        if misses_table(error):
            error.add_note(
                f"{store} has not the table that this needs: call `await store.prepare()` once before its first use"
            )
        raise


def is_outage(error: exc.DBAPIError) -> bool:
    """Say whether another try may work."""
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_STATES)
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & _PRIMARY in _SQLITE
    # without a statement there was no connection: an option in the URL that the driver does not know
    return isinstance(error, exc.OperationalError | exc.InterfaceError) or error.statement is None


def misses_table(error: exc.DBAPIError) -> bool:
    """Say whether the table is not there."""
    return getattr(error.orig, "sqlstate", "") == "42P01" or "no such table" in str(error.orig)


def _said(error: BaseException) -> str:
    """Give the first line of what a driver said; drivers name host and port there, never a password."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
