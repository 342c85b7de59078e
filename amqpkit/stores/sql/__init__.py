"""Claims in SQLite or PostgreSQL, through SQLAlchemy."""

try:
    import sqlalchemy.ext.asyncio  # noqa: F401 - only to say what to install; fails without greenlet too
except ImportError as error:
    raise ImportError(
        "a store in a database needs SQLAlchemy: pip install 'amqpkit[sqlite]' or 'amqpkit[postgres]'"
    ) from error

from amqpkit.stores.sql.jobs import SqlJobLog
from amqpkit.stores.sql.statements import metadata
from amqpkit.stores.sql.steps import SqlSteps
from amqpkit.stores.sql.store import SqlStore

__all__ = ["SqlJobLog", "SqlSteps", "SqlStore", "metadata"]
