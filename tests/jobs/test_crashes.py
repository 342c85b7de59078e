"""A worker that dies before and after every step, every record, every compensation and every effect of the walk.

Where an effect and its record share a transaction it happens once; where they do not, only a death between the two
repeats it. The job's end is right whatever the moment.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from amqpkit import Consumer, Context
from amqpkit.deliver import stepper as stepper_module
from amqpkit.deliver.case import Terms
from amqpkit.deliver.context import context_of
from amqpkit.deliver.drive import drive
from amqpkit.deliver.effects import AskCancelled, Compensate, Effect, Invoke, Moment, Raised, Returned
from amqpkit.deliver.headers import read_past, run_of
from amqpkit.deliver.payload import decode, registry
from amqpkit.deliver.stepper import Stepper, has_been_out
from amqpkit.model import Properties
from amqpkit.ports import StepRecord
from amqpkit.stores.sql import SqlSteps
from tests.jobs.conftest import Database, effect
from tests.jobs.parts import ImportCsv
from tests.walk.world import WORK, Got, World, delay

RULES = Terms(
    "orders",
    lambda received: decode(received, registry([ImportCsv]), ("csv.import",)),
    replace(WORK, accepts=("csv.import",), delays=(delay(10),)),
)
ONCE = ("wrote", "charged")
"""Steps inside a transaction; `mailed` is the one that has none."""


class Gone(BaseException):
    """The process is no more: nothing can catch this."""


@dataclass
class Fate:
    """Counts the moments at which a worker may die, and lets it die at some of them."""

    at: frozenset[int]
    moments: int = 0
    deaths: int = 0

    def pass_by(self) -> None:
        self.moments += 1
        if self.moments - 1 in self.at:
            self.deaths += 1
            raise Gone


class Fatal:
    """A transaction at whose end a worker may die: before the commit, which is then none, and after it."""

    def __init__(self, inner: Any, fate: Fate) -> None:
        self._inner, self._fate = inner, fate

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        if not any(error):
            try:
                self._fate.pass_by()
            except Gone as gone:
                await self._inner.__aexit__(Gone, gone, gone.__traceback__)
                raise
        await self._inner.__aexit__(*error)
        if not any(error):
            self._fate.pass_by()


class FatalSteps:
    """Steps around whose every word a worker may die."""

    def __init__(self, inner: SqlSteps, fate: Fate) -> None:
        self._inner, self._fate = inner, fate

    async def load(self, job: str) -> Sequence[StepRecord]:
        self._fate.pass_by()
        return await self._inner.load(job)

    async def save(self, job: str, record: StepRecord) -> StepRecord:
        self._fate.pass_by()
        standing = await self._inner.save(job, record)
        self._fate.pass_by()
        return standing

    async def close(self) -> None:
        await self._inner.close()

    def recording(self, job: str, **more: Any) -> Any:
        return Fatal(self._inner.recording(job, **more), self._fate)


class Imports(Consumer[ImportCsv], queue="orders"):
    """Two steps in transactions and one without, each with a compensation; then it fails, or not."""

    def __init__(self, engine: Any, fate: Fate, *, fails: int) -> None:
        self.engine, self.fate, self.fails = engine, fate, fails
        self.plain: Counter[str] = Counter()

    async def handle(self, payload: ImportCsv, context: Context) -> None:
        job = context.message_id
        await context.step("write", self.write, job, inside=self.engine, compensate=self.unwrite)
        await context.step("mail", self.mail, compensate=self.unmail)
        await context.step("charge", self.charge, job, inside=self.engine, compensate=self.refund)
        if context.attempt <= self.fails:
            raise ConnectionError("down")

    async def write(self, connection: Any, job: str) -> int:
        await connection.execute(effect(job, "wrote"))
        return 7

    async def mail(self) -> str:
        self.plain["mailed"] += 1
        self.fate.pass_by()
        return "mail-1"

    async def charge(self, connection: Any, job: str) -> str:
        await connection.execute(effect(job, "charged"))
        return "charge-1"

    async def unwrite(self, rows: int, context: Context) -> None:
        assert rows == 7
        await self._undo(context, "unwrote")

    async def refund(self, charge: str, context: Context) -> None:
        assert charge == "charge-1"
        await self._undo(context, "refunded")

    async def unmail(self, mail: str, context: Context) -> None:
        assert mail == "mail-1"
        self.plain["apologised"] += 1
        self.fate.pass_by()

    async def _undo(self, context: Context, what: str) -> None:
        async with context.transaction(self.engine) as connection:
            await connection.execute(effect(context.message_id, what))


@dataclass
class Life:
    """The hands of a worker that may die, on a queue of plain values and a real database."""

    world: World
    consumer: Imports
    steps: FatalSteps
    fate: Fate
    got: Got | None = None

    async def perform(self, effect: Effect) -> object:
        self.fate.pass_by()
        match effect:
            case AskCancelled():
                return False
            case Invoke(payload, past):
                return await self._handle(payload, past)
            case Compensate():
                return await self._stepper().compensate(effect, self._context(), _call)
            case _:
                return self.world._do(effect)

    def _stepper(self) -> Stepper:
        assert self.got is not None
        run = run_of(read_past(self.got))
        job = f"orders:{self.got.properties.message_id}"
        return Stepper(self.steps, self.consumer, job=job, run=run, in_thread=asyncio.to_thread)

    def _context(self) -> Context:
        assert self.got is not None
        return replace(context_of(self.got, read_past(self.got), 2), steps=self._stepper())

    async def _handle(self, payload: Any, past: Any) -> Returned | Raised:
        context = self._context()
        try:
            if has_been_out(past, redelivered=context.redelivered):
                given_up = await context.steps.look_back()  # type: ignore[union-attr]
                if given_up is not None:
                    return Raised(given_up, Moment(self.world.now))
            await self.consumer.handle(payload, context)
        except Exception as error:  # noqa: BLE001 - judged by the walk
            return Raised(error, Moment(self.world.now))
        self.world.handled["o-1"] += 1
        return Returned(None, Moment(self.world.now))


async def _call(method: Any, *arguments: Any) -> Any:
    return await method(*arguments)


async def live(database: Database, job: str, fails: int, at: frozenset[int]) -> Life:
    """Take one message to its end, with a death at each of the moments."""
    fate = Fate(at)
    received = Got(b"{}", Properties(message_id=job, type="csv.import"))
    world = World(lambda _call: None, ready=[received], terms=RULES)
    consumer = Imports(database.engine, fate, fails=fails)
    life = Life(world, consumer, FatalSteps(database.steps, fate), fate)
    for walk in world.deliveries():
        life.got = world.unacked
        try:
            await drive(walk, life)
        except Gone:
            world.came_back()
    return life


async def check(database: Database, life: Life, job: str, fails: int) -> None:
    """Look at everything that is left behind, whenever it was that the worker died."""
    effects, plain, deaths = await database.effects(job), life.consumer.plain, life.fate.deaths
    where = f"fails {fails}, dies at {sorted(life.fate.at)}"
    assert life.world.unacked is None, where
    assert Counter(each for each in effects if each in ONCE) == Counter(ONCE), where
    assert 1 <= plain["mailed"] <= 1 + deaths, where
    if fails < 2:
        # one death makes at most one more handling, of which all steps are done already
        assert 1 <= life.world.handled["o-1"] <= 1 + deaths, where
        assert effects == list(ONCE), where
        assert (plain["apologised"], life.world.dead) == (0, []), where
        return
    assert life.world.handled["o-1"] == 0, where
    assert effects == [*ONCE, "refunded", "unwrote"], where
    assert 1 <= plain["apologised"] <= 1 + deaths, where
    assert 1 <= len(life.world.dead) <= 1 + deaths, where
    for letter in life.world.dead:
        headers = letter.properties.headers
        told = [(line["step"], line["outcome"]) for line in headers["amqpkit-compensations"]]
        assert told == [("charge", "undone"), ("mail", "undone"), ("write", "undone")], where
        assert headers["amqpkit-error"]["message"] == "down", where
        assert headers["amqpkit-fate"] == "exhausted", where


async def die_at_every_moment(database: Database, fails: int) -> int:
    """Live as often as there are moments, and return how many there are."""
    for moment in count():
        job = f"m-{fails}-{moment}"
        life = await live(database, job, fails, frozenset({moment}))
        await check(database, life, job, fails)
        if life.fate.deaths == 0:
            return moment
    raise AssertionError


@pytest.mark.parametrize(
    ("fails", "least"), [(0, 12), (1, 18), (2, 30)], ids=["succeeds", "fails once", "fails for good"]
)
async def test_a_death_at_any_moment_leaves_each_effect_once_and_the_right_end(
    database: Database, fails: int, least: int
) -> None:
    assert await die_at_every_moment(database, fails) > least


async def test_several_deaths_of_one_job(database: Database) -> None:
    chance = random.Random(11)
    for number in range(12):
        at = frozenset(chance.sample(range(60), 2))  # more in a row would be a message that kills its workers
        job = f"m-{number}"
        life = await live(database, job, 2, at)
        await check(database, life, job, 2)


async def _unmarked(self: Stepper, effect: Compensate, context: Context, call: Any) -> Any:
    records = [record for record in await self._steps.load(self._job) if record.name and record.undo]
    return tuple([stepper_module.Undone(each.name, await self._undo(each, context, call)) for each in records[::-1]])


async def _forgetful(self: Stepper, record: StepRecord, context: Context, _call: Any) -> str:
    method = getattr(self._consumer, record.undo)
    target = replace(context, transact=lambda target, **_: target.begin(), steps=None)
    await method(stepper_module._argument(method).validate_json(record.result), target)
    return ""


BUGS = {
    "the mark is not written": ("compensate", _unmarked),
    "what is undone is not written down": ("_undo", _forgetful),
}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("name", "bug"), BUGS.values(), ids=BUGS)
async def test_a_planted_bug_is_found(database: Database, monkeypatch, name: str, bug: Any) -> None:
    monkeypatch.setattr(Stepper, name, bug)
    with pytest.raises(AssertionError, match="dies at"):
        await die_at_every_moment(database, 2)
