"""What every place for finished steps must do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from amqpkit.errors import StoreUnavailable
from amqpkit.ports import StepRecord, StepState, TransactionalSteps
from amqpkit.stores import MemorySteps, open_steps
from amqpkit.stores.sql import SqlSteps

Open = Callable[[], Any]


@pytest.fixture(params=["memory", "sqlite", "postgresql-server"])
async def opened(request, tmp_path) -> AsyncIterator[Open]:
    """Opens any number of them in one place."""
    made: list[Any] = []
    one = MemorySteps()
    url = request.getfixturevalue("postgres") if request.param == "postgresql-server" else f"sqlite:///{tmp_path}/s.db"

    async def make() -> Any:
        steps = one if request.param == "memory" else SqlSteps(url)
        made.append(steps)
        await steps.prepare()
        return steps

    yield make
    for steps in made:
        await steps.close()


def done(name: str, position: int = 1, result: str = "1", undo: str = "") -> StepRecord:
    return StepRecord(name, StepState.DONE, position, result, undo)


async def test_records_are_given_back_whole_and_in_order(opened) -> None:
    steps = await opened()
    records = [done("b", 1, '{"rows": [1, "заказ \\u0000"]}', "undo_b"), done("a", 2), done("ъ 🐇", 3, "null")]
    for record in reversed(records):
        assert await steps.save("q:m-1", record) == record

    assert list(await steps.load("q:m-1")) == records
    assert list(await steps.load("q:m-2")) == []


async def test_what_is_done_stands_and_what_is_undone_may_be_done_again(opened) -> None:
    steps, other = await opened(), await opened()
    first = await steps.save("j", done("a", 1, "1"))
    assert await other.save("j", done("a", 2, "2")) == first

    undone = StepRecord("a", StepState.UNDONE, 1, "1")
    assert await other.save("j", undone) == undone
    assert await steps.save("j", done("a", 3, "3")) == done("a", 3, "3")
    assert list(await other.load("j")) == [done("a", 3, "3")]


async def test_a_mark_is_replaced_by_the_next(opened) -> None:
    steps = await opened()
    for run in ("0.1", "1.0"):
        await steps.save("j", StepRecord("", StepState.GIVEN_UP, 0, f'"{run}"'))
    assert [record.result for record in await steps.load("j")] == ['"1.0"']


async def test_one_of_twenty_is_the_one_who_did_it(opened) -> None:
    each = [await opened() for _ in range(2)]
    standing = await asyncio.gather(*(each[n % 2].save("j", done("a", 1, str(n))) for n in range(20)))
    assert len({record.result for record in standing}) == 1


@pytest.mark.parametrize("job", ["", "q:" + "k" * 3000, "q:a\x00b", "заказ"])
async def test_any_text_is_a_job(opened, job) -> None:
    steps = await opened()
    await steps.save(job, done("a"))
    assert list(await steps.load(job)) == [done("a")]
    assert list(await steps.load(job + "!")) == []


async def test_steps_that_are_not_there_say_so(tmp_path) -> None:
    for url in ("postgresql://127.0.0.1:1/none", f"sqlite:///{tmp_path}/missing/s.db"):
        steps = open_steps(url)
        for verb in (steps.load("j"), steps.save("j", done("a")), steps.prepare()):
            with pytest.raises(StoreUnavailable, match="the steps"):
                await verb
        await steps.close()


def test_they_are_named_by_their_url() -> None:
    assert not isinstance(open_steps("memory:"), TransactionalSteps)
    assert isinstance(open_steps("sqlite:///x.db"), TransactionalSteps)
    with pytest.raises(ValueError, match="no place for steps"):
        open_steps("redis://localhost")
    assert "secret" not in repr(open_steps("postgresql://me:secret@localhost/x"))


async def test_memory_forgets_the_oldest_jobs() -> None:
    steps = MemorySteps(room=2)
    for job in "abc":
        await steps.save(job, done("s"))
    assert [len(await steps.load(job)) for job in "abc"] == [0, 1, 1]


# --- forgetting ------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql-server"])
async def short(request, tmp_path, monkeypatch) -> AsyncIterator[SqlSteps]:
    """Steps that are tidied at every question, and remembered for an hour."""
    monkeypatch.setattr("amqpkit.stores.sql.steps._PURGE_EVERY", 1)
    url = request.getfixturevalue("postgres") if request.param == "postgresql-server" else f"sqlite:///{tmp_path}/s.db"
    steps = SqlSteps(url, keep=timedelta(hours=1))
    await steps.prepare()
    yield steps
    await steps.close()


def at(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    now = 1_800_000_000.0 + hours * 3600
    monkeypatch.setattr("amqpkit.stores.sql.steps.time.time", lambda: now)


async def test_steps_are_forgotten_when_none_of_their_job_is_young(short, monkeypatch) -> None:
    at(monkeypatch, 0)
    await short.save("old", done("a"))
    await short.save("replayed", done("a", 1))
    at(monkeypatch, 0.9)
    await short.save("replayed", done("b", 2))
    at(monkeypatch, 1.5)
    await short.save("other", done("a"))

    assert list(await short.load("old")) == []
    # half of what a job has done would be done again, and the other half not be undone
    assert list(await short.load("replayed")) == [done("a", 1), done("b", 2)]

    at(monkeypatch, 2)
    await short.save("other", done("b", 2))
    assert list(await short.load("replayed")) == []


async def test_steps_that_are_only_written_in_transactions_are_forgotten_too(short, monkeypatch) -> None:
    at(monkeypatch, 0)
    await short.save("old", done("a"))
    at(monkeypatch, 2)
    await short.load("other")  # a worker whose steps all have `inside` saves none by itself

    assert list(await short.load("old")) == []
