"""A block in the caller's transaction that completes a claim, or a step, right before the commit: both, or neither.

Written once for synchronous connections and sessions; the async ones run it on their synchronous core.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from amqpkit.errors import ConsumerError, LeaseLost
from amqpkit.ports import Transaction
from amqpkit.stores.sql.faults import misses_table, translated
from amqpkit.stores.sql.statements import Statements

Workplace = sa.Connection | Session

_ELSEWHERE: Final = "the store must be in the same database as the transaction"


@dataclass(frozen=True, slots=True)
class Completion:
    """A claim to complete, whose it is, and the statements that do it."""

    store: str
    dialect: str
    key: str
    owner: str
    statements: Statements
    values: dict[str, Any]

    def run(self, connection: sa.Connection) -> None:
        """Complete the claim; raises LeaseLost when it is another's, ConsumerError when there is none to be seen.

        The second is most likely another database: a failure like any other, so that it comes to an end.
        """
        try:
            if connection.execute(self.statements.complete, self.values).rowcount:
                return
            row = connection.execute(self.statements.look, {"of_key": self.values["of_key"]}).first()
        except exc.DBAPIError as error:
            if misses_table(error):
                raise ConsumerError(
                    f'rolled back: no table of claims where "{self.key}" was handled; {_ELSEWHERE}'
                ) from error
            raise
        if row is None:
            raise ConsumerError(
                f'rolled back: the database that handled "{self.key}" holds no claim on it; it was lost long ago, '
                f"or {self.store} is elsewhere ({_ELSEWHERE})"
            )
        raise LeaseLost(f'rolled back: another worker has {"done" if row.done else "taken over"} "{self.key}"')


class Ending(Protocol):
    """What is written right before the commit; the store and dialect say where it belongs."""

    @property
    def store(self) -> str: ...  # noqa: D102 - the protocol's docstring covers it
    @property
    def dialect(self) -> str: ...  # noqa: D102
    def run(self, connection: sa.Connection) -> None: ...  # noqa: D102


class _Block:
    """The transaction from its beginning to its end, on a connection or session."""

    __slots__ = ("_begun", "_completion")

    def __init__(self, completion: Ending) -> None:
        self._completion = completion
        self._begun: object = None

    def start(self, target: Workplace) -> None:
        if target.in_nested_transaction():
            raise RuntimeError(
                "transaction() commits at its end: it must not be used inside a savepoint (begin_nested)"
            )
        joined = target.in_transaction()
        connection = target.connection() if isinstance(target, Session) else target
        self._check(connection)
        if not joined:
            if isinstance(target, sa.Connection):
                target.begin()
            # Taken at once: a transaction that first reads and then wants to write may find that it cannot any more.
            driver: Any = connection.connection.driver_connection
            if connection.dialect.name == "sqlite" and not driver.in_transaction:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._begun = target.get_transaction()

    def _check(self, connection: sa.Connection) -> None:
        dialect: Any = connection.dialect
        if dialect.name != self._completion.dialect:
            raise TypeError(f"a transaction in {dialect.name} cannot write to {self._completion.store}; {_ELSEWHERE}")
        if dialect.detect_autocommit_setting(connection.connection.dbapi_connection):
            raise TypeError("transaction() needs an engine with transactions; this one is set to AUTOCOMMIT")

    def finish(self, target: Workplace) -> None:
        with self._or_undone(target):
            if target.get_transaction() is not self._begun:
                raise RuntimeError("the block ended its transaction itself: nothing can be completed in it any more")
            if isinstance(target, Session):
                target.flush()
            with translated(self._completion.store):
                self._completion.run(target.connection() if isinstance(target, Session) else target)
                target.commit()

    @contextmanager
    def _or_undone(self, target: Workplace) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.undo(target)
            raise

    def undo(self, target: Workplace) -> None:
        # A connection that cannot even roll back is gone, and its transaction with it; why is on its way already.
        with suppress(exc.SQLAlchemyError):
            target.rollback()


class _Sync:
    """`with store.transaction(...)`."""

    def __init__(self, target: sa.Engine | Workplace, completion: Ending) -> None:
        self._target, self._store, self._block = target, completion.store, _Block(completion)
        self._work: Workplace | None = None

    def __enter__(self) -> Workplace:
        with translated(self._store):
            self._work = self._target.connect() if isinstance(self._target, sa.Engine) else self._target
            try:
                self._block.start(self._work)
            except BaseException:
                self._leave()
                raise
        return self._work

    def __exit__(self, *error: object) -> None:
        assert self._work is not None  # noqa: S101 - for mypy: nobody leaves what he has not entered
        try:
            (self._block.undo if any(error) else self._block.finish)(self._work)
        finally:
            self._leave()

    def _leave(self) -> None:
        if isinstance(self._target, sa.Engine) and isinstance(self._work, sa.Connection):
            self._work.close()

    async def __aenter__(self) -> Any:
        raise TypeError(f"{type(self._target).__name__} is synchronous: use `with`, in a handler that is a plain `def`")

    async def __aexit__(self, *error: object) -> None:
        """Never reached."""


class _Async:
    """`async with store.transaction(...)`."""

    def __init__(self, target: AsyncEngine | AsyncConnection | AsyncSession, completion: Ending) -> None:
        self._target, self._store, self._block = target, completion.store, _Block(completion)
        self._work: AsyncConnection | AsyncSession | None = None

    async def __aenter__(self) -> AsyncConnection | AsyncSession:
        with translated(self._store):
            self._work = await self._target.connect() if isinstance(self._target, AsyncEngine) else self._target
            try:
                await self._work.run_sync(self._block.start)
            except BaseException:
                await self._leave()
                raise
        return self._work

    async def __aexit__(self, *error: object) -> None:
        assert self._work is not None  # noqa: S101 - for mypy: nobody leaves what he has not entered
        try:
            await self._work.run_sync(self._block.undo if any(error) else self._block.finish)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        if isinstance(self._target, AsyncEngine) and isinstance(self._work, AsyncConnection):
            await self._work.close()

    def __enter__(self) -> Any:
        raise TypeError(f"{type(self._target).__name__} is asynchronous: use `async with`")

    def __exit__(self, *error: object) -> None:
        """Never reached."""


def begin(target: Any, completion: Ending) -> Transaction:
    """Wrap a target as it is: sync or async. Raises TypeError when it is nothing of SQLAlchemy's."""
    if isinstance(target, sa.Engine | sa.Connection | Session):
        return _Sync(target, completion)
    if isinstance(target, AsyncEngine | AsyncConnection | AsyncSession):
        return _Async(target, completion)
    raise TypeError(
        "transaction() needs a SQLAlchemy Engine, Connection or Session, or "
        f"AsyncEngine, AsyncConnection or AsyncSession; got {type(target).__name__}"
    )
