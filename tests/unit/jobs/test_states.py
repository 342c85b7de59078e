"""Jobs end where their news leads them, whatever the order in which it arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.jobs import FIRST, Change, ErrorKind, Job, JobError, JobQuery, JobState, News, Place, Progress, merge

START = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = JobError(ErrorKind.PERMANENT, "It failed.")
LATER = JobError(ErrorKind.WILL_RETRY, "Something went wrong.")


def news(kind: News, second: int = 0, place: Place = FIRST, **more: object) -> Change:
    fixed = {"type": "csv.import", "queue": "imports", "attempts": 3, "summary": {"file": "a.csv"}}
    return Change("j-1", kind, START + timedelta(seconds=second), place, **{**fixed, **more})


def after(*changes: Change) -> Job:
    job = None
    for change in changes:
        job, _ = merge(job, change)
    assert job is not None
    return job


P, R, Y, S, F, C = (
    JobState.PENDING,
    JobState.RUNNING,
    JobState.RETRYING,
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELLED,
)
COLUMNS = (
    News.QUEUED,
    News.BEGUN,
    News.PROGRESS,
    News.RETRYING,
    News.FAILED,
    News.KNOWN_DONE,
    News.CANCELLED,
    News.SUCCEEDED,
)
SAME_DELIVERY = {
    # what stands: and what stands after each news of the same delivery
    News.QUEUED: (P, R, R, Y, F, S, C, S),
    News.BEGUN: (R, R, R, Y, F, S, C, S),
    News.RETRYING: (Y, Y, Y, Y, F, S, C, S),
    News.FAILED: (F, F, F, F, F, S, C, S),
    News.CANCELLED: (C, C, C, C, C, C, C, S),
    News.SUCCEEDED: (S, S, S, S, S, S, S, S),
}
NEXT_ATTEMPT = {
    News.QUEUED: (P, R, R, Y, F, S, C, S),
    News.BEGUN: (P, R, R, Y, F, S, C, S),
    News.RETRYING: (P, R, R, Y, F, S, C, S),
    News.FAILED: (F, F, F, F, F, S, C, S),
    News.CANCELLED: (C, C, C, C, C, C, C, S),
    News.SUCCEEDED: (S, S, S, S, S, S, S, S),
}


@pytest.mark.parametrize("table", ["same delivery", "next attempt"])
@pytest.mark.parametrize("stands", SAME_DELIVERY)
def test_the_table_of_transitions(table: str, stands: News) -> None:
    rows, place = (SAME_DELIVERY, Place(attempt=1)) if table == "same delivery" else (NEXT_ATTEMPT, Place(attempt=2))
    for column, (heard, state) in enumerate(zip(COLUMNS, rows[stands], strict=True)):
        assert after(news(stands, 0, Place(attempt=1)), news(heard, 1, place)).state is state, (stands, heard, column)


@pytest.mark.parametrize("stands", SAME_DELIVERY)
def test_a_replay_begins_another_life(stands: News) -> None:
    for heard in (News.BEGUN, News.RETRYING, News.FAILED, News.CANCELLED):
        job = after(news(stands, 0, Place(attempt=2)), news(heard, 1, Place(replays=1)))
        assert job.state is after(news(heard)).state


def test_late_news_is_told_apart_and_changes_nothing() -> None:
    done, late = merge(None, news(News.SUCCEEDED, 9, Place(attempt=1)))
    assert not late
    for change in (
        news(News.SUCCEEDED, 9, Place(attempt=1)),
        news(News.BEGUN, 8, Place(attempt=1)),
        news(News.QUEUED, 8),
        news(News.FAILED, 8, Place(attempt=2)),
    ):
        job, late = merge(done, change)
        assert late
        assert (job.state, job.attempt, job.updated) == (S, 2, done.updated)
    _, late = merge(done, news(News.PROGRESS, 8, Place(attempt=1), progress=Progress(0.5)))
    assert not late, "progress that is out of date is no mistake"


def test_a_whole_run_is_told_as_it_was() -> None:
    queued = after(news(News.QUEUED, 0))
    assert (queued.state, queued.attempt, queued.attempts, queued.created) == (P, 0, 3, START)

    due = START + timedelta(seconds=12)
    failed_once = after(
        news(News.QUEUED, 0),
        news(News.BEGUN, 1, progress=Progress()),
        news(News.PROGRESS, 2, progress=Progress(0.6, "1,200 of 2,000 rows")),
        news(News.RETRYING, 2, error=LATER, next_attempt=due),
    )
    assert (failed_once.state, failed_once.attempt, failed_once.next_attempt) == (Y, 1, due)
    assert (failed_once.error, failed_once.progress.text) == (LATER, "1,200 of 2,000 rows")

    again, _ = merge(failed_once, news(News.BEGUN, 12, Place(attempt=1), progress=Progress()))
    assert (again.state, again.attempt, again.next_attempt, again.progress) == (R, 2, None, Progress())
    assert again.error == LATER, "the last error stays to be read"

    done, _ = merge(again, news(News.SUCCEEDED, 20, Place(attempt=1), progress=Progress(1.0, "2,000 rows")))
    assert (done.state, done.created, done.updated) == (S, START, START + timedelta(seconds=20))
    assert done.progress == Progress(1.0, "2,000 rows")


RUN = (
    news(News.QUEUED, 0),
    news(News.BEGUN, 1, progress=Progress()),
    news(News.PROGRESS, 2, progress=Progress(0.9, "almost")),
    news(News.RETRYING, 3, error=LATER, next_attempt=START + timedelta(seconds=13)),
    news(News.BEGUN, 13, Place(attempt=1), progress=Progress()),
    news(News.FAILED, 14, Place(attempt=1), error=FAILED),
)


def test_every_order_of_a_run_ends_in_the_same_job() -> None:
    ends = {repr(after(*order)) for order in permutations(RUN)}
    assert len(ends) == 1
    assert after(*RUN).state is F


places = st.builds(Place, *[st.integers(0, 2)] * 4)
changes = st.builds(
    news,
    st.sampled_from(News),
    st.integers(0, 5),
    places,
    progress=st.none() | st.builds(Progress, st.sampled_from([0.0, 0.5, 1.0])),
    error=st.none() | st.sampled_from([FAILED, LATER]),
)


@given(st.lists(changes, min_size=1, max_size=12, unique_by=lambda c: (c.rank, c.place, c.at, c.news)), st.randoms())
def test_any_order_and_any_repetition_end_in_the_same_job(run: list[Change], chance: object) -> None:
    # two tellers never speak of one delivery at one instant in two ways; all else is allowed
    run = list({(c.rank, c.at): c for c in run}.values())
    again = [*run, *chance.choices(run, k=5)]  # type: ignore[attr-defined]
    chance.shuffle(again)  # type: ignore[attr-defined]
    assert after(*again) == after(*run)


@given(st.lists(changes, min_size=2, max_size=12))
def test_a_job_never_moves_backwards(run: list[Change]) -> None:
    job, stood = None, ()
    for change in run:
        job, _ = merge(job, change)
        assert job.standing.state[0] >= stood
        stood = job.standing.state[0]
    final = {each.place.replays for each in run if after(each).state.final}
    life = max(each.place.replays for each in run)
    assert job is not None
    assert job.state.final == (life in final), "an end within the last life is the end"


def test_a_job_is_told_as_json() -> None:
    told = after(*RUN).as_json()
    assert told == {
        "id": "j-1",
        "type": "csv.import",
        "queue": "imports",
        "state": "failed",
        "attempt": 2,
        "attempts": 3,
        "input": {"file": "a.csv"},
        "progress": {"fraction": 0.0, "text": ""},
        "error": {"kind": "permanent", "sentence": "It failed."},
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:14.000Z",
        "next_attempt_at": None,
        "cancel_requested_at": None,
    }


def test_a_query_asks_for_what_it_names() -> None:
    job = after(*RUN)
    for yes, no in (
        ({"states": (F,)}, {"states": (P, R)}),
        ({"queue": "imports"}, {"queue": "exports"}),
        ({"type": "csv.import"}, {"type": "csv"}),
        ({"ids": ("j-0", "j-1")}, {"ids": ("j-2",)}),
    ):
        assert JobQuery(**yes).matches(job)
        assert not JobQuery(**no).matches(job)
    for one, two in product(JobState, repeat=2):
        assert JobQuery(states=(one,)).matches(after(news(News.FAILED))) == (one is F), two
