"""Steps of one message's handling: done once, remembered, and undone when the job fails for good."""

import asyncio
import inspect
import json
import logging
import typing
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.effects import Compensate, GivenUp, Undone
from amqpkit.deliver.headers import Past, text_of
from amqpkit.deliver.retry import Dead
from amqpkit.errors import ConsumerError, StepsUnavailable, StoreUnavailable
from amqpkit.ports import StepRecord, Steps, StepState, Transaction, TransactionalSteps

log = logging.getLogger("amqpkit.worker")
T = TypeVar("T")

NAME_MAX: Final = 200
RESULT_MAX: Final = 256 * 1024
"""Characters of JSON; a step that makes more keeps it elsewhere and returns where."""
PATIENCE: Final = 30.0
"""Seconds for which a thread waits for its loop to answer."""

InThread = Callable[..., Awaitable[Any]]
Call = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class _Todo:
    """A step that is not done: what will be written down of it once it is."""

    name: str
    undo: str
    adapter: TypeAdapter[Any]
    position: int
    record: StepRecord | None = None

    def done(self, value: object) -> StepRecord:
        """Make its record; raises ConsumerError when the result could not be read back."""
        try:
            text = self.adapter.dump_json(value, warnings="error").decode()
            self.adapter.validate_json(text)
        except (PydanticSerializationError, ValidationError, UnicodeDecodeError) as error:
            msg = f'step "{self.name}" returned what cannot be kept as JSON and read back: {str(error)[:300]}'
            raise ConsumerError(msg) from error
        if len(text) > RESULT_MAX:
            msg = f'step "{self.name}" returned {len(text)} characters of JSON; keep it elsewhere and return where'
            raise ConsumerError(msg)
        self.record = StepRecord(self.name, StepState.DONE, self.position, text, self.undo)
        return self.record

    def recorded(self) -> StepRecord:
        """Give the record that was made; asked for at the end of a transaction."""
        if self.record is None:
            raise AssertionError  # pragma: no cover - the block has ended well, so the function has returned
        return self.record


class Stepper:
    """Does the steps of one message: `job` is its key, `run` the attempt, `in_thread` calls what is no `async def`."""

    def __init__(self, steps: Steps, consumer: Consumer[Any], *, job: str, run: str, in_thread: InThread) -> None:
        """Know nothing yet; what is known is loaded at the first step."""
        self._steps, self._consumer, self._job, self._run, self._in_thread = steps, consumer, job, run, in_thread
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, StepRecord] | None = None
        self._named: set[str] = set()
        self._given_up: GivenUp | None = None
        self._over = False

    def end(self) -> None:
        """The handler is done, or not waited for any more: a thread that runs on finishes no step."""
        self._over = True

    async def look_back(self) -> GivenUp | None:
        """Say whether an earlier delivery of this attempt gave the job up; raises StepsUnavailable."""
        await self._load()
        return self._given_up

    # --- doing ---------------------------------------------------------------------------------

    async def step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], *, compensate: Any, inside: Any
    ) -> Any:
        """Do a step, awaited; see `Context.step`."""
        todo, saved = await self._begin(name, function, compensate)
        if saved is None and inside is None:
            record = todo.done(await self._call(function, *args))
            saved = await self._save(record)
        elif saved is None:
            with _told():
                await self._inside(todo, function, args, inside)
            saved = todo.recorded()
        return self._result(todo, saved)

    def step_blocking(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], *, compensate: Any, inside: Any
    ) -> Any:
        """Do a step in the handler's own thread; see `Context.step_blocking`."""
        if _in_loop():
            raise ConsumerError("context.step_blocking() is for handlers that are a plain `def`: await context.step()")
        if asyncio.iscoroutinefunction(function):
            raise ConsumerError(f'step "{name}": an `async def` cannot be called in a handler that is a plain `def`')
        todo, saved = self._wait(self._begin(name, function, compensate))
        if saved is None and inside is None:
            saved = self._wait(self._save(todo.done(function(*args))))
        elif saved is None:
            with _told():
                self._inside_blocking(todo, function, args, inside)
            saved = todo.recorded()
        return self._result(todo, saved)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        if asyncio.iscoroutinefunction(function):
            return await function(*args)
        return await self._in_thread(function, *args)

    async def _inside(self, todo: _Todo, function: Callable[..., Any], args: tuple[Any, ...], target: Any) -> None:
        if not asyncio.iscoroutinefunction(function):
            await self._in_thread(self._inside_blocking, todo, function, args, target)
            return
        async with self._recording(todo, target) as work:
            todo.done(await function(work, *args))

    def _inside_blocking(self, todo: _Todo, function: Callable[..., Any], args: tuple[Any, ...], target: Any) -> None:
        with self._recording(todo, target) as work:
            todo.done(function(work, *args))

    def _recording(self, todo: _Todo, target: Any) -> Transaction:
        def record() -> StepRecord:
            self._require_time()
            return todo.recorded()

        return self.transaction(target, record)

    def transaction(self, target: Any, record: Callable[[], StepRecord]) -> Transaction:
        """Give a transaction that writes a record down; raises ConsumerError when these steps have none."""
        if not isinstance(self._steps, TransactionalSteps):
            msg = "a step inside a transaction needs steps in a database: --jobs postgresql://…, or Worker(steps=…)"
            raise ConsumerError(msg)
        return self._steps.recording(self._job, target=target, record=record)

    def _require_time(self) -> None:
        if self._over:
            raise StepsUnavailable("the handling has ended before this step did: it is not written down any more")

    async def _begin(self, name: str, function: Any, compensate: Any) -> tuple[_Todo, StepRecord | None]:
        self._require_time()
        if not (isinstance(name, str) and name and name.isprintable() and len(name) <= NAME_MAX):
            raise ConsumerError(f"a step needs a name of 1 to {NAME_MAX} printable characters, not {name!r:.80}")
        if name in self._named:
            raise ConsumerError(f'there are two steps "{name}" in one handling; give each a name of its own')
        self._named.add(name)
        undo, adapter = self._method(name, compensate), _adapter(function)
        known = await self._load()
        if self._given_up is not None:
            raise self._given_up
        found = known.get(name)
        done = found if found is not None and found.state is StepState.DONE else None
        position = 1 + max((record.position for record in known.values()), default=0)
        todo = _Todo(name, undo, adapter, position)
        if done is None:
            known[name] = StepRecord(name, StepState.UNDONE, position)  # its place is taken, should two be on their way
        return todo, done

    def _method(self, step: str, compensate: Any) -> str:
        if compensate is None:
            return ""
        name = getattr(compensate, "__name__", "")
        if getattr(compensate, "__self__", None) is not self._consumer or not hasattr(self._consumer, name):
            msg = (
                f'step "{step}": compensate must be a method of {type(self._consumer).__name__}, such as '
                "compensate=self.delete_rows: after a crash another worker must find it by its name"
            )
            raise ConsumerError(msg)
        return str(name)

    def _result(self, todo: _Todo, record: StepRecord) -> Any:
        try:
            return todo.adapter.validate_json(record.result)
        except ValidationError as error:
            msg = f'step "{todo.name}": the saved result no longer fits what the function says it returns: {error}'
            raise ConsumerError(msg[:500]) from error

    async def _load(self) -> dict[str, StepRecord]:
        if self._known is None:
            with _told():
                records = await self._steps.load(self._job)
            if self._known is None:  # two steps may be on their way
                self._known = {record.name: record for record in records if record.name}
                self._given_up = next((_mark_of(each, self._run) for each in records if not each.name), None)
        return self._known

    async def _save(self, record: StepRecord) -> StepRecord:
        self._require_time()
        with _told():
            return await self._steps.save(self._job, record)

    def _wait(self, work: Any) -> Any:
        answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result(PATIENCE)
        except TimeoutError as error:
            answer.cancel()
            raise StepsUnavailable("the worker's loop does not answer: it may have ended") from error

    # --- undoing -------------------------------------------------------------------------------

    async def compensate(self, effect: Compensate, context: Context, call: Call) -> tuple[Undone, ...]:
        """Undo what is done, the last first, and tell what became of each; raises StoreUnavailable.

        Another call goes on where this one ended. `call` calls a method of the consumer, in its timeout.
        """
        records = [record for record in await self._steps.load(self._job) if record.name and record.undo]
        if any(record.state is StepState.DONE for record in records):
            # first the mark: should we die on the way, no handler begins the job again
            await self._steps.save(self._job, _mark(effect))
        told = []
        for record in reversed(records):
            error = await self._undo(record, context, call) if record.state is StepState.DONE else ""
            told.append(Undone(record.name, error))
        return tuple(told)

    async def _undo(self, record: StepRecord, context: Context, call: Call) -> str:
        undone, name = replace(record, state=StepState.UNDONE), type(self._consumer).__name__

        def transact(target: Any, *, result: bytes | None = None) -> Transaction:  # noqa: ARG001 - a handler's word
            return self.transaction(target, lambda: undone)

        try:
            method = getattr(self._consumer, record.undo, None)
            if method is None:
                return f"{name} has no method {record.undo} any more: undo it by hand"
            result = _argument(method).validate_json(record.result)
            await call(method, result, replace(context, transact=transact, job=None, steps=None))
        except StoreUnavailable:
            raise  # nobody's failure: the same again, when the database is back
        except Exception as error:  # whatever it is: it goes onto the letter, and the others are still to be undone
            log.warning('step "%s" of %s could not be undone', record.name, self._job, exc_info=True)
            return f"{type(error).__qualname__}: {text_of(error)}"
        await self._steps.save(self._job, undone)
        log.info('step "%s" of %s is undone', record.name, self._job)
        return ""


def has_been_out(past: Past, *, redelivered: bool) -> bool:
    """Whether a worker may have died over this attempt, after it had given the job up."""
    return bool(redelivered or past.crashes or past.snoozes)


def _mark(effect: Compensate) -> StepRecord:
    given_up = effect.given_up
    facts = {
        "run": effect.run,
        "fate": given_up.dead.fate,
        "reason": given_up.dead.reason,
        "kind": given_up.kind,
        "message": given_up.message,
    }
    return StepRecord("", StepState.GIVEN_UP, 0, json.dumps(facts))


def _mark_of(record: StepRecord, run: str) -> GivenUp | None:
    """Read the mark, if it holds for this run: for what is left of the same life, which is at most as far.

    There may be copies of earlier attempts: those whose worker died between a retry's copy and its ack. A letter that
    comes back is further: its attempt was used up.
    """
    facts = json.loads(record.result)
    (life, attempt), (marked_life, marked_attempt) = (map(int, each.split(".")) for each in (run, facts["run"]))
    if life != marked_life or attempt > marked_attempt:
        return None
    return GivenUp(Dead(facts["fate"], facts["reason"]), facts["kind"], facts["message"])


def _adapter(function: Any) -> TypeAdapter[Any]:
    """What reads a step's result back: its return annotation, or plain JSON without one."""
    return TypeAdapter(_hints(function).get("return", Any))


def _argument(method: Any) -> TypeAdapter[Any]:
    """What reads a saved result for a compensation: the annotation of its first parameter."""
    first = next(iter(inspect.signature(method).parameters), "")  # of what is under a decorator, too
    return TypeAdapter(_hints(method).get(first, Any))


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        msg = f"the annotations of {getattr(function, '__qualname__', function)!s} cannot be read: {error}"
        raise ConsumerError(msg) from error


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _told() -> Iterator[None]:
    """Make an outage what it is to a handler: a failure."""
    try:
        yield
    except StoreUnavailable as error:
        raise StepsUnavailable(str(error)) from error
