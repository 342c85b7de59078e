"""Where claims are kept: in memory, in SQLite or PostgreSQL, in Redis. Libraries are loaded when a store is opened."""

from typing import Protocol
from urllib.parse import urlsplit

from amqpkit.ports import IdempotencyStore, JobLog, Steps
from amqpkit.stores.memory import MemoryStore
from amqpkit.stores.memory_jobs import MemoryJobLog
from amqpkit.stores.memory_steps import MemorySteps

__all__ = [
    "Log",
    "MemoryJobLog",
    "MemorySteps",
    "MemoryStore",
    "StepStore",
    "Store",
    "open_jobs",
    "open_steps",
    "open_store",
]


class Store(IdempotencyStore, Protocol):
    """What `open_store` gives: a store, and how to make it ready."""

    async def prepare(self) -> None:
        """Create or upgrade what the store keeps its claims in, if anything; raises StoreUnavailable."""


class Log(JobLog, Protocol):
    """What `open_jobs` gives: a log of jobs, and how to make it ready."""

    async def prepare(self) -> None:
        """Create or upgrade what the log is kept in, if anything; raises StoreUnavailable."""


def open_jobs(url: str) -> Log:
    """Make the log of jobs that a URL names; nothing is connected yet.

    `memory:`, `sqlite:///path` (four slashes for an absolute one) or `postgresql://user:password@host/database`.
    Raises ValueError for another scheme, ImportError (naming the extra to install) when a library is missing.
    """
    match urlsplit(url).scheme.partition("+")[0]:
        case "memory":
            return MemoryJobLog()
        case "sqlite" | "postgresql" | "postgres":
            from amqpkit.stores.sql import SqlJobLog  # noqa: PLC0415 - half a second that only its users pay

            return SqlJobLog(url)
        case other:
            raise ValueError(f'no job log for "{other}:": use memory:, sqlite:///path or postgresql://')


class StepStore(Steps, Protocol):
    """What `open_steps` gives: finished steps, and how to make them ready."""

    async def prepare(self) -> None:
        """Create or upgrade what they are kept in, if anything; raises StoreUnavailable."""


def open_steps(url: str) -> StepStore:
    """Make the place for finished steps that a URL names, as `open_jobs` does; nothing is connected yet."""
    match urlsplit(url).scheme.partition("+")[0]:
        case "memory":
            return MemorySteps()
        case "sqlite" | "postgresql" | "postgres":
            from amqpkit.stores.sql import SqlSteps  # noqa: PLC0415 - half a second that only its users pay

            return SqlSteps(url)
        case other:
            raise ValueError(f'no place for steps in "{other}:": use memory:, sqlite:///path or postgresql://')


def open_store(url: str) -> Store:
    """Make the store that a URL names; nothing is connected yet.

    `memory:`, `sqlite:///path` (four slashes for an absolute one), `postgresql://user:password@host/database`,
    `redis://host/0` or `rediss://host/0`. Raises ValueError for another scheme, ImportError (naming the extra to
    install) when the store's library is missing.
    """
    match urlsplit(url).scheme.partition("+")[0]:
        case "memory":
            return MemoryStore()
        case "sqlite" | "postgresql" | "postgres":
            from amqpkit.stores.sql import SqlStore  # noqa: PLC0415 - half a second that only its users pay

            return SqlStore(url)
        case "redis" | "rediss":
            from amqpkit.stores.redis import RedisStore  # noqa: PLC0415 - the same

            return RedisStore(url)
        case other:
            raise ValueError(
                f'no store for "{other}:": use memory:, sqlite:///path, postgresql://, redis:// or rediss://'
            )
