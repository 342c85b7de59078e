"""`amqpkit jobs` as people and programs meet it: tables, JSON, lines, bars, exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from amqpkit.cli import main
from amqpkit.cli.joblog import Keeping, url_of
from amqpkit.cli.jobwatch import Lines, follow, open_jobs_of
from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import FIRST, Change, ErrorKind, Job, JobError, JobQuery, JobState, News, Place, Progress
from amqpkit.stores import MemoryJobLog, open_jobs
from amqpkit.stores.sql import SqlJobLog

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUOTA = JobError(ErrorKind.QUOTA, "This month's imports are used up.")


def news(job: str, kind: News, second: int = 0, place: Place = FIRST, **more: Any) -> Change:
    fixed = {"type": "csv.import", "queue": "imports", "attempts": 3}
    return Change(job, kind, START + timedelta(seconds=second), place, **{**fixed, **more})


def write(url: str, *changes: Change) -> None:
    async def work() -> None:
        log = open_jobs(url)
        await log.prepare()
        await log.record(changes)
        await log.close()

    asyncio.run(work())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log with one job in each state."""
    for name in ("AMQPKIT_STORE", "AMQPKIT_JOBS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    made = f"sqlite:///{tmp_path}/jobs.db"
    write(
        made,
        news("j-pending", News.QUEUED, 0, summary={"file": "a.csv"}),
        news("j-running", News.BEGUN, 1, progress=Progress(0.6, "1,200 of 2,000 rows")),
        news("j-retrying", News.RETRYING, 2, error=QUOTA, next_attempt=START + timedelta(minutes=1)),
        news("j-failed", News.FAILED, 3, Place(attempt=2), error=QUOTA, type="pdf.print", queue="prints"),
        news("j-done", News.SUCCEEDED, 4, progress=Progress(1.0, "\x1b[31mall\x07")),
    )
    return made


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["jobs", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_jobs_are_listed_the_newest_first(url, capsys) -> None:
    code, out, _ = said(capsys, "list", "--jobs", url)

    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", "j-done", "j-failed", "j-retrying", "j-running", "j-pending"]
    assert re.search(r"csv\.import +running +1/3 +60% 1,200 of 2,000 rows +2026-01-01 12:00:01", lines[4])
    assert lines[2].rstrip().endswith("This month's imports are used up.")
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_list_is_filtered_and_told_as_json(url, capsys) -> None:
    def ids(*words: str) -> list[str]:
        code, out, _ = said(capsys, "list", "--jobs", url, "--json", *words)
        assert code == 0
        return [job["id"] for job in json.loads(out)["jobs"]]

    assert ids("--limit", "2") == ["j-done", "j-failed"]
    assert ids("--state", "pending", "--state", "running") == ["j-running", "j-pending"]
    assert ids("--queue", "prints") == ids("--type", "pdf.print") == ["j-failed"]
    assert said(capsys, "list", "--jobs", url, "--queue", "none") == (0, "", "no such jobs\n")


def test_a_job_is_shown_whole(url, capsys) -> None:
    code, out, _ = said(capsys, "show", "j-retrying", "--jobs", url)
    assert code == 0
    assert "last error    quota: This month's imports are used up." in out
    assert "next attempt  2026-01-01 12:01:00" in out

    code, out, _ = said(capsys, "show", "j-pending", "--jobs", url, "--json")
    assert json.loads(out)["input"] == {"file": "a.csv"}

    code, out, err = said(capsys, "show", "j-\x1b[2J", "--jobs", url)
    assert (code, out) == (1, "")
    assert err.startswith("amqpkit: nothing is known of job j-\N{REPLACEMENT CHARACTER}[2J")


def test_a_job_is_asked_to_stop_unless_it_has_ended(url, capsys) -> None:
    assert said(capsys, "cancel", "j-running", "--jobs", url) == (0, "j-running: asked to stop; it is running\n", "")
    assert "asked to stop" in said(capsys, "list", "--jobs", url)[1]
    code, out, _ = said(capsys, "cancel", "j-pending", "--jobs", url, "--json")
    assert code == 0
    assert json.loads(out)["cancel_requested_at"]
    assert said(capsys, "cancel", "j-done", "--jobs", url) == (1, "", "amqpkit: j-done has ended: succeeded\n")
    assert said(capsys, "cancel", "j-none", "--jobs", url)[0] == 1


def test_where_the_jobs_are_is_said_or_found_and_mistakes_are_named(url, capsys, monkeypatch, tmp_path) -> None:
    code, _, err = said(capsys, "list")
    assert code == 64
    assert "AMQPKIT_JOBS" in err
    for wrong, code_of, says in (
        ("redis://localhost", 64, "no job log for"),
        ("memory:", 64, "its own process only"),
        (f"sqlite:///{tmp_path}/typo.db", 1, "there is no job log at"),
        ("postgresql://me:secret@127.0.0.1:1/x", 1, "cannot be asked"),
    ):
        code, _, err = said(capsys, "list", "--jobs", wrong)
        assert (code, says in err, "secret" in err) == (code_of, True, False), err
    assert not (tmp_path / "typo.db").exists()
    (tmp_path / "empty.db").touch()
    code, _, err = said(capsys, "list", "--jobs", f"sqlite:///{tmp_path}/empty.db")
    assert code == 1
    assert "has no table of jobs" in err

    monkeypatch.setenv("AMQPKIT_STORE", url)
    assert said(capsys, "list")[0] == 0
    assert url_of(None, "redis://localhost") is None
    assert url_of("sqlite:///b.db", "sqlite:///a.db") == "sqlite:///b.db"


END = (
    news("j-running", News.PROGRESS, 5, progress=Progress(0.9, "1,800 of 2,000 rows")),
    news("j-running", News.SUCCEEDED, 6, progress=Progress(1.0, "2,000 rows")),
)


def later(url: str, *changes: Change) -> threading.Thread:
    def work() -> None:
        for change in changes:
            threading.Event().wait(0.4)
            write(url, change)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_watch_without_a_terminal_prints_a_line_for_each_change(url, capsys) -> None:
    writing = later(url, *END)
    code, out, _ = said(capsys, "watch", "j-running", "--jobs", url, "--every", "0.05")
    writing.join()

    assert code == 0
    assert out.splitlines() == [
        "12:00:01 j-running csv.import running, 60%, 1,200 of 2,000 rows",
        "12:00:05 j-running csv.import running, 90%, 1,800 of 2,000 rows",
        "12:00:06 j-running csv.import succeeded, 2,000 rows",
    ]


def test_a_watch_for_programs_prints_documents_and_says_how_it_ended(url, capsys) -> None:
    code, out, _ = said(capsys, "watch", "j-failed", "j-done", "--jobs", url, "--json")
    assert code == 1
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["failed", "succeeded"]
    assert said(capsys, "watch", "j-none", "--jobs", url)[0] == 1
    assert said(capsys, "watch", "j-done", "--jobs", url)[0] == 0


def test_a_watch_at_a_terminal_shows_bars_that_move(url) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "amqpkit.cli", "jobs", "watch", "j-running", "--jobs", url, "--every", "0.1"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    os.close(slave)
    screen = b""
    writing = None
    while True:
        try:
            screen += os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if writing is None and b"60%" in screen:
            writing = later(url, *END)
    os.close(master)
    assert process.wait(timeout=10) == 0
    assert writing is not None
    writing.join()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.decode())
    assert "csv.import j-running" in text
    assert "60% running, 1,200 of 2,000 rows" in text
    assert "100% succeeded, 2,000 rows" in text
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in text


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--limit", "-1"),
        ("list", "--limit", "0"),
        ("list", "--limit", "99999999999999999999"),
        ("watch", "--every", "0"),
        ("watch", "--every", "-1"),
        ("watch", "--every", "nan"),
        ("watch", "--every", "inf"),
    ],
    ids=" ".join,
)
def test_a_number_that_cannot_be_is_a_usage_error(url, capsys, words: tuple[str, ...]) -> None:
    code, _, err = said(capsys, *words, "--jobs", url)
    assert code == 64
    assert words[1] in err


class Shown:
    """A face that remembers."""

    def __init__(self, enough: Callable[[Job], bool] = lambda _job: False) -> None:
        self.jobs: list[Job] = []
        self.enough = enough

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, job: Job) -> None:
        self.jobs.append(job)
        if self.enough(job):
            raise KeyboardInterrupt


async def test_a_watch_shows_what_runs_however_many_wait() -> None:
    log = MemoryJobLog()
    await log.record([news("j-running", News.BEGUN, 0), news("j-retrying", News.RETRYING, 1)])
    await log.record([news(f"j-{number}", News.QUEUED, 2 + number) for number in range(1000)])
    face = Shown(lambda job: job.id == "j-999")
    with pytest.raises(KeyboardInterrupt):
        await follow(log, open_jobs_of(), face, every=0)

    shown = {job.id for job in face.jobs}
    assert {"j-running", "j-retrying", "j-999"} <= shown
    assert len(shown) < 200, "a screen has no room for all that wait"


async def test_a_watch_goes_on_when_the_log_is_back(capsys) -> None:
    class Flickers(MemoryJobLog):
        looks = 0

        async def find(self, query: JobQuery) -> Sequence[Job]:
            self.looks += 1
            if self.looks in (2, 3):
                raise StoreUnavailable("the log is away")
            if self.looks == 4:
                await self.record([news("j-1", News.SUCCEEDED, 1)])
            return await super().find(query)

    log, face = Flickers(), Shown()
    await log.record([news("j-1", News.QUEUED)])
    (ended,) = await follow(log, [JobQuery(ids=("j-1",))], face, every=0)

    assert ended.state is JobState.SUCCEEDED
    assert [job.state for job in face.jobs] == [JobState.PENDING, JobState.SUCCEEDED]
    assert capsys.readouterr().err.count("the log is away") == 1


async def test_a_watch_of_a_log_that_never_answered_says_so() -> None:
    class Away(MemoryJobLog):
        async def find(self, query: JobQuery) -> Sequence[Job]:
            raise StoreUnavailable("the log is away")

    with pytest.raises(StoreUnavailable):
        await follow(Away(), [JobQuery(ids=("j-1",))], Shown(), every=0)


def test_a_job_that_is_forgotten_under_a_watch_has_not_succeeded(url, capsys, monkeypatch) -> None:
    find, shown = SqlJobLog.find, list[Job]()

    async def finds(self: SqlJobLog, query: JobQuery) -> Sequence[Job]:
        return [] if shown else await find(self, query)

    monkeypatch.setattr(SqlJobLog, "find", finds)
    monkeypatch.setattr(Lines, "show", lambda _self, job: shown.append(job))
    code, _, err = said(capsys, "watch", "j-running", "--jobs", url, "--every", "0.05")
    assert code == 1
    assert "nothing is known of job j-running" in err


async def test_a_worker_starts_without_its_job_log_and_prepares_it_later(tmp_path, monkeypatch) -> None:
    prepare: Callable[[SqlJobLog], Awaitable[None]] = SqlJobLog.prepare
    away = [True]

    async def sometimes(log: SqlJobLog) -> None:
        if away.pop() if away else False:
            raise StoreUnavailable("away")
        await prepare(log)

    monkeypatch.setattr(SqlJobLog, "prepare", sometimes)
    keeping = Keeping.at(f"sqlite:///{tmp_path}/jobs.db")
    await keeping.prepare()
    assert keeping._preparing is not None
    await asyncio.wait_for(keeping._preparing, 10)
    assert keeping.jobs is not None
    assert await keeping.jobs.record([news("j-1", News.QUEUED)]) == 0
    await keeping.close()
    await Keeping.at(None).prepare()
    await Keeping.at(None).close()
    assert "give one with --jobs" in str(Keeping.at(None))
