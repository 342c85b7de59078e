"""What a handler is told of its message, and what it may ask of the worker that calls it.

No I/O here: what is asked for, the worker does.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, overload

from amqpkit.deliver import headers as h
from amqpkit.errors import ConsumerError
from amqpkit.model import Cancelled, Properties, Received
from amqpkit.ports import Transaction

R = TypeVar("R")


class Transact(Protocol):
    """Makes a transaction that completes the claim on the message in hand."""

    def __call__(self, target: Any, *, result: bytes | None = None) -> Transaction:
        """See `Context.transaction`."""


class Running(Protocol):
    """A job that is being handled."""

    @property
    def cancelled(self) -> bool:
        """See `Context.cancelled`."""

    def progress(self, fraction: float, text: str) -> None:
        """See `Context.progress`."""


class Stepping(Protocol):
    """Whoever does steps once."""

    async def step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], *, compensate: Any, inside: Any
    ) -> Any:
        """See `Context.step`."""

    def step_blocking(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], *, compensate: Any, inside: Any
    ) -> Any:
        """See `Context.step_blocking`."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know of its message besides the payload.

    `exchange` and `routing_key` are those of the first publish, also after retries. `attempt` counts from 1.
    """

    queue: str
    exchange: str
    routing_key: str
    attempt: int
    attempts: int
    properties: Properties = field(repr=False)
    redelivered: bool = False
    published_at: datetime | None = None
    transact: Transact | None = field(default=None, repr=False)
    job: Running | None = field(default=None, repr=False)
    steps: Stepping | None = field(default=None, repr=False)

    def transaction(self, target: Any, *, result: bytes | None = None) -> Transaction:
        """Give a transaction in which your effect and the claim on this message are one: exactly once, or not at all.

        `target` is a SQLAlchemy engine, connection or session on the store's own database, used with `with` or, when
        it is async, `async with`. In a compensation it is the record that the step is undone that becomes one with
        your effect. Raises ConsumerError without an SQL store or a key, and at its end LeaseLost, rolled back, when
        another worker has taken the message over.
        """
        if self.transact is None:
            msg = "context.transaction() works while a worker with an SQL store handles the message"
            raise ConsumerError(msg)
        return self.transact(target, result=result)

    # --- jobs ----------------------------------------------------------------------------------

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the job is, from 0 to 1, and how its reader would put it: `progress(0.6, "1,200 of 2,000 rows")`.

        A plain call, in threads too, and cheap: however often it is called, a few a second are told. It does nothing
        for payloads without `track=True`. Raises TypeError when `fraction` is no number.
        """
        if self.job is not None:
            self.job.progress(fraction, text)

    @property
    def cancelled(self) -> bool:
        """Whether somebody has asked that the job be given up; known within some two seconds. It is yours to obey."""
        return self.job is not None and self.job.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if the job is cancelled: it then ends as such, and what its steps did is undone."""
        if self.cancelled:
            raise Cancelled("cancelled while it ran")

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, R]],
        *args: Any,
        compensate: Callable[..., object] | None = None,
        inside: Any = None,
    ) -> R: ...
    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., R],
        *args: Any,
        compensate: Callable[..., object] | None = None,
        inside: Any = None,
    ) -> R: ...
    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        compensate: Callable[..., object] | None = None,
        inside: Any = None,
    ) -> Any:
        """Call `function(*args)` and remember its result, or give the result of an earlier attempt that finished it.

        A function that is no `async def` runs in a thread. The result is kept as JSON and read back by the function's
        return annotation. A worker that dies between the function's end and its record runs it again; with `inside`,
        a SQLAlchemy engine, connection or session on the database of the steps, the function gets a connection (or
        session) as its first argument, and what it writes there and the record are one transaction.

        `compensate` is a method of the consumer, called as `compensate(result, context)` when the job fails for good
        or is cancelled: of all finished steps, the last first. `context.transaction()` there makes its effect and the
        record that the step is undone one.

        Raises what the function raises, StepsUnavailable when steps cannot be asked for (a failure like any other),
        and ConsumerError for a name that was used before in this handling, without steps, or without a message key.
        """
        return await self._stepping().step(name, function, args, compensate=compensate, inside=inside)

    def step_blocking(
        self,
        name: str,
        function: Callable[..., R],
        *args: Any,
        compensate: Callable[..., object] | None = None,
        inside: Any = None,
    ) -> R:
        """Do a step in a handler that is a plain `def`; the same as `step` but for the word `await`."""
        done: R = self._stepping().step_blocking(name, function, args, compensate=compensate, inside=inside)
        return done

    def _stepping(self) -> Stepping:
        if self.steps is None:
            msg = "context.step() works while a worker with steps handles the message: --jobs, or Worker(steps=…)"
            raise ConsumerError(msg)
        return self.steps

    # --- the message ---------------------------------------------------------------------------

    @property
    def message_id(self) -> str | None:
        """The message's id, the same through retries and replays; None when its producer gave none."""
        return self.properties.message_id

    @property
    def correlation_id(self) -> str | None:
        """The producer's correlation id."""
        return self.properties.correlation_id

    @property
    def headers(self) -> Mapping[str, Any]:
        """All headers, read-only by convention."""
        return self.properties.headers

    @property
    def last_attempt(self) -> bool:
        """Whether the message is dead if this attempt fails."""
        return self.attempt >= self.attempts


def context_of(
    received: Received,
    past: h.Past,
    attempts: int,
    *,
    transact: Transact | None = None,
    steps: Stepping | None = None,
) -> Context:
    """Tell a handler about its message."""
    exchange, routing_key = h.read_origin(received)
    return Context(
        queue=received.queue,
        exchange=exchange,
        routing_key=routing_key,
        attempt=past.attempt + 1,
        attempts=attempts,
        properties=received.properties,
        redelivered=received.redelivered,
        published_at=h.read_published_at(received),
        transact=transact,
        steps=steps,
    )
