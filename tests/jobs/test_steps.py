"""Steps in a handler: done once through retries, undone in reverse when the job fails for good."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import create_async_engine

from amqpkit import Cancelled, Consumer, ConsumerError, Context, DeadLetter
from amqpkit.deliver.stepper import Stepper
from amqpkit.errors import LeaseLost, StepsUnavailable, StoreUnavailable
from amqpkit.events import Settled
from amqpkit.jobs import JobState
from amqpkit.model import Message, Properties
from amqpkit.ports import StepRecord, StepState
from amqpkit.stores import MemorySteps
from amqpkit.testing.simulator import Simulator
from tests.jobs.conftest import Database, effect
from tests.jobs.parts import ImportCsv, topology


class Rows(BaseModel):
    """A result with a shape."""

    written: tuple[int, ...]


class Importing(Consumer[ImportCsv], queue="imports"):
    """Three steps, of which the last fails as often as it is told."""

    def __init__(self, failures: int = 0, error: Callable[[], BaseException] = ConnectionError) -> None:
        self.failures, self.error = failures, error
        self.done: list[str] = []
        self.seen: list[Any] = []

    async def handle(self, payload: ImportCsv, context: Context) -> None:
        rows = await context.step("write-rows", self.write_rows, payload.rows, compensate=self.delete_rows)
        self.seen.append(rows)
        self.seen.append(await context.step("index", self.index, compensate=self.drop_index))
        await context.step("tell", self.tell)

    async def write_rows(self, count: int) -> Rows:
        self.done.append("write-rows")
        return Rows(written=(1, count))

    def index(self) -> str:  # a plain def: in a thread
        self.done.append("index")
        return "idx"

    async def tell(self) -> None:
        self.done.append("tell")
        if self.failures > 0:
            self.failures -= 1
            raise self.error()

    async def delete_rows(self, rows: Rows, context: Context) -> None:
        self.done.append(f"delete {rows.written} of {context.message_id}")

    def drop_index(self, name: str, context: Context) -> None:
        self.done.append(f"drop {name}")


async def test_a_finished_step_is_not_done_again_and_its_result_keeps_its_shape() -> None:
    consumer = Importing(failures=2)
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv(rows=5))
        await world.advance("2m")
        assert (await world.jobs.get(job)).state is JobState.SUCCEEDED  # type: ignore[union-attr]
    assert consumer.done == ["write-rows", "index", "tell", "tell", "tell"]
    assert consumer.seen == [Rows(written=(1, 5)), "idx"] * 3


async def test_a_job_that_fails_for_good_is_undone_in_reverse_before_its_letter() -> None:
    consumer = Importing(failures=9)
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv(rows=5))
        await world.advance("2m")
        assert world.ledger() == {"imports.dlq": [job]}
        assert (await world.jobs.get(job)).state is JobState.FAILED  # type: ignore[union-attr]
    undoing = ["drop idx", f"delete (1, 5) of {job}"]
    assert consumer.done == ["write-rows", "index", "tell", "tell", "tell", *undoing]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(lambda *args: function(*args))  # noqa: PLW0108 - a function of its own


async def test_a_compensation_under_a_decorator_gets_its_result_in_its_shape() -> None:
    class Decorated(Importing, queue="imports"):
        @logged
        def delete_rows(self, rows: Rows, context: Context) -> None:
            self.done.append(f"delete {rows.written}")

    consumer = Decorated(failures=1, error=lambda: DeadLetter("no"))
    async with Simulator(topology(), [consumer]) as world:
        await world.publish(ImportCsv(rows=5))
    assert consumer.done[-1] == "delete (1, 5)"


async def test_a_replay_after_that_does_the_steps_anew() -> None:
    consumer = Importing(failures=1, error=lambda: DeadLetter("no"))
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv())
        again = Message(b"{}", Properties(message_id=job, type="csv.import", headers={"amqpkit-replays": 1}))
        await world.publish_raw(again, routing_key="imports")
        assert (await world.jobs.get(job)).state is JobState.SUCCEEDED  # type: ignore[union-attr]
    assert consumer.done.count("write-rows") == consumer.done.count("index") == 2


async def test_a_step_without_compensation_is_not_done_again_by_a_replay() -> None:
    class Charge(Importing, queue="imports"):
        async def handle(self, payload: ImportCsv, context: Context) -> None:
            await context.step("charge", self.index)
            await self.tell()

    consumer = Charge(failures=1, error=lambda: DeadLetter("no"))
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv())
        again = Message(b"{}", Properties(message_id=job, type="csv.import", headers={"amqpkit-replays": 1}))
        await world.publish_raw(again, routing_key="imports")
    assert consumer.done == ["index", "tell", "tell"]


async def test_a_cancelled_job_is_undone() -> None:
    consumer = Importing(failures=1, error=lambda: Cancelled("stop"))
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv(rows=5))
        assert world.ledger() == {}
        assert (await world.jobs.get(job)).state is JobState.CANCELLED  # type: ignore[union-attr]
    assert consumer.done[-2:] == ["drop idx", f"delete (1, 5) of {job}"]


async def test_what_cannot_be_undone_does_not_keep_the_rest_from_being_undone() -> None:
    class Stuck(Importing, queue="imports"):
        def drop_index(self, name: str, context: Context) -> None:
            raise PermissionError(name)

    consumer = Stuck(failures=1, error=lambda: DeadLetter("no"))
    async with Simulator(topology(), [consumer]) as world:
        await world.publish(ImportCsv())
        (letter,) = world.broker.messages("imports.dlq")
    assert consumer.done[-1].startswith("delete")
    assert letter.properties.headers["amqpkit-compensations"] == [
        {"step": "index", "outcome": "failed", "error": "PermissionError: idx"},
        {"step": "write-rows", "outcome": "undone"},
    ]


class Once(Consumer[ImportCsv], queue="imports"):
    """Does what its function says, with a method to undo with."""

    def __init__(self, does: Callable[[Once, Context], Any]) -> None:
        self.does = does

    async def handle(self, payload: ImportCsv, context: Context) -> object:
        return await self.does(self, context)

    def undo(self, result: int, context: Context) -> None: ...

    async def one(self) -> int:
        return 1

    async def thing(self) -> object:
        return object()

    async def lies(self) -> int:
        return "one"  # type: ignore[return-value]

    async def huge(self) -> str:
        return "x" * 300_000


async def twice(consumer: Once, context: Context) -> None:
    await context.step("a", consumer.one)
    await context.step("a", consumer.one)


async def stranger(consumer: Once, context: Context) -> None:
    await context.step("a", consumer.one, compensate=lambda _result, _context: None)


def doing(method: str, name: str = "a", **more: Any) -> Callable[[Once, Context], Any]:
    async def does(consumer: Once, context: Context) -> None:
        await context.step(name, getattr(consumer, method), **more)

    return does


MISTAKES: dict[str, tuple[Callable[[Once, Context], Any], str]] = {
    "two of one name": (twice, 'two steps "a"'),
    "a compensation that nobody could find again": (stranger, "must be a method of Once"),
    "no name": (doing("one", ""), "needs a name"),
    "a name that cannot be shown": (doing("one", "a\nb"), "needs a name"),
    "a result that is no JSON": (doing("thing"), "cannot be kept as JSON"),
    "a result that is not what it says": (doing("lies"), "cannot be kept as JSON"),
    "a result that is too large": (doing("huge"), "keep it elsewhere"),
    "a transaction without a database": (doing("one", inside="engine"), "needs steps in a database"),
}


@pytest.mark.parametrize(("does", "says"), MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_in_using_steps_is_said(does: Callable[[Once, Context], Any], says: str) -> None:
    async with Simulator(topology(), [Once(does)]) as world:
        await world.publish(ImportCsv())
        (settled,) = [event for event in world.events if isinstance(event, Settled)]
    assert settled.outcome == "retried"
    assert says in settled.reason


async def test_without_a_key_or_without_steps_it_is_said() -> None:
    for worker, message_id in (({"steps": None}, "m-1"), ({}, None)):
        async with Simulator(topology(), [Once(doing("one"))], worker=worker) as world:
            message = Message(b"{}", Properties(message_id=message_id, type="csv.import"))
            await world.publish_raw(message, routing_key="imports")
            (settled,) = [event for event in world.events if isinstance(event, Settled)]
        assert "context.step() " in settled.reason


class Away(MemorySteps):
    """Steps that cannot be asked for a while."""

    verbs: ClassVar[set[str]] = set()

    async def load(self, job: str) -> Any:
        if "load" in self.verbs:
            raise StoreUnavailable("away")
        return await super().load(job)

    async def save(self, job: str, record: Any) -> Any:
        if "save" in self.verbs:
            raise StoreUnavailable("away")
        return await super().save(job, record)


@pytest.mark.parametrize("verb", ["load", "save"])
async def test_an_outage_is_a_failure_of_the_handler(verb: str) -> None:
    steps = Away()
    steps.verbs = {verb}
    consumer = Importing()
    async with Simulator(topology(), [consumer], worker={"steps": steps}) as world:
        job = await world.publish(ImportCsv())
        (settled,) = [event for event in world.events if isinstance(event, Settled)]
        assert (settled.outcome, settled.reason) == ("retried", "StepsUnavailable: away")
        steps.verbs = set()
        await world.advance("10s")
        assert (await world.jobs.get(job)).state is JobState.SUCCEEDED  # type: ignore[union-attr]
    assert consumer.done.count("write-rows") == (2 if verb == "save" else 1)


async def test_undoing_waits_for_steps_that_are_away() -> None:
    steps = Away()
    consumer = Importing(failures=1, error=lambda: DeadLetter("no"))
    async with Simulator(topology(), [consumer], worker={"steps": steps}) as world:
        original = consumer.tell

        async def tell() -> None:
            steps.verbs = {"load", "save"}
            await original()

        consumer.tell = tell  # type: ignore[method-assign]
        job = await world.publish(ImportCsv())
        await world.advance("1m")
        assert world.ledger() == {"imports": [job]}
        steps.verbs = set()
        await world.advance("1m")
        assert world.ledger() == {"imports.dlq": [job]}
    assert [done for done in consumer.done if done.startswith(("drop", "delete"))] == [
        "drop idx",
        f"delete (1, 2000) of {job}",
    ]


class Blocking(Consumer[ImportCsv], queue="imports"):
    """Steps in a handler that runs in a thread."""

    def __init__(self, target: Any = None) -> None:
        self.target, self.failures = target, 1
        self.done: list[str] = []

    def handle(self, payload: ImportCsv, context: Context) -> None:
        inside = {} if self.target is None else {"inside": self.target}
        job = context.message_id
        rows = context.step_blocking("write", self.write, job, compensate=self.unwrite, **inside)
        self.done.append(f"{rows}")
        if self.failures:
            self.failures -= 1
            raise ConnectionError("down")

    def write(self, *arguments: Any) -> int:
        *connection, job = arguments
        for each in connection:
            each.execute(effect(job, "written"))
        self.done.append("write")
        return 7

    def unwrite(self, rows: int, context: Context) -> None: ...


async def test_steps_in_a_thread() -> None:
    consumer = Blocking()
    async with Simulator(topology(), [consumer]) as world:
        job = await world.publish(ImportCsv())
        await world.advance("10s")
        assert (await world.jobs.get(job)).state is JobState.SUCCEEDED  # type: ignore[union-attr]
    assert consumer.done == ["write", "7", "7"]


async def test_step_and_step_blocking_are_not_mixed_up() -> None:
    async def awaits(consumer: Once, context: Context) -> None:
        context.step_blocking("a", consumer.one)

    async with Simulator(topology(), [Once(awaits)]) as world:
        await world.publish(ImportCsv())
        (settled,) = [event for event in world.events if isinstance(event, Settled)]
    assert "await context.step()" in settled.reason


# --- in a transaction ----------------------------------------------------------------------------------


async def test_a_step_in_a_thread_writes_its_effect_and_its_record_in_one_transaction(database: Database) -> None:
    consumer = Blocking(database.sync_engine)
    async with Simulator(topology(), [consumer], worker={"steps": database.steps}) as world:
        job = await world.publish(ImportCsv())
        await world.advance("10s")
        assert (await world.jobs.get(job)).state is JobState.SUCCEEDED  # type: ignore[union-attr]
    assert consumer.done == ["write", "7", "7"]
    assert await database.effects(job) == ["written"]


def done(result: str) -> Callable[[], StepRecord]:
    return lambda: StepRecord("a", StepState.DONE, 1, result)


async def test_what_another_has_done_meanwhile_is_rolled_back_here(database: Database) -> None:
    await database.steps.save("j", done("1")())
    with pytest.raises(LeaseLost, match='step "a" of "j" was done by another worker'):
        async with database.steps.recording("j", target=database.engine, record=done("2")) as connection:
            await connection.execute(effect("j", "mine"))

    def in_thread() -> None:
        with database.steps.recording("j", target=database.sync_engine, record=done("3")) as connection:
            connection.execute(effect("j", "mine"))

    with pytest.raises(LeaseLost):
        await asyncio.to_thread(in_thread)
    assert await database.effects("j") == []
    assert [record.result for record in await database.steps.load("j")] == ["1"]


async def test_a_step_that_fails_in_its_transaction_leaves_nothing(database: Database) -> None:
    async def fails() -> None:
        async with database.steps.recording("j", target=database.engine, record=done("1")) as connection:
            await connection.execute(effect("j", "mine"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert await database.effects("j") == []
    assert list(await database.steps.load("j")) == []


async def test_a_transaction_elsewhere_is_a_mistake_that_is_named(database: Database, tmp_path) -> None:
    elsewhere = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/elsewhere.db")
    try:
        with pytest.raises((ConsumerError, TypeError), match=r"no table of steps|cannot write to"):
            async with database.steps.recording("j", target=elsewhere, record=done("1")) as connection:
                await connection.execute(sa.text("SELECT 1"))
    finally:
        await elsewhere.dispose()


async def test_a_thread_that_outlives_its_handling_finishes_no_step(database: Database) -> None:
    loop, ended = asyncio.get_running_loop(), threading.Event()
    stepper = Stepper(database.steps, Blocking(database.sync_engine), job="j", run="0.0", in_thread=asyncio.to_thread)

    def end() -> None:
        stepper.end()
        ended.set()

    def writes(connection: Any) -> int:
        connection.execute(effect("j", "late"))
        loop.call_soon_threadsafe(end)  # the handler's time is up
        assert ended.wait(10)
        return 7

    for target in (database.sync_engine, None):
        with pytest.raises(StepsUnavailable, match="has ended before this step did"):
            await asyncio.to_thread(stepper.step_blocking, "write", writes, (), compensate=None, inside=target)
    assert await database.effects("j") == []
    assert list(await database.steps.load("j")) == []
