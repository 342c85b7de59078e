"""`amqpkit publish --many` when the disk is full, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqpkit.cli import main
from amqpkit.cli.lines import Tally, spans
from amqpkit.cli.resume import Resume, ResumeUnwritableError
from amqpkit.deliver.outgoing import Outcome
from amqpkit.errors import PublishUncertain
from tests.cli.office import apply, letters, lines, taken
from tests.cli.terminal import hears_ctrl_c, read_until
from tests.containers.brokers import Broker

PAGE = 4096


def start(office: Path, broker: Broker, *more: str, **streams: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "amqpkit.cli", "publish", "letter.send", "--many", "letters.jsonl", *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "AMQP_URL": broker.url, "TERM": "xterm"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **streams}
    return subprocess.Popen(command, cwd=office, env=environment, **options)  # type: ignore[call-overload,no-any-return]


# --- a full disk -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("office")
def test_a_resume_file_that_cannot_be_begun_keeps_all_from_being_sent(
    office: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(office, *letters(3))
    words = ["publish", "letter.send", "--many", "letters.jsonl", "--resume", "/dev/full"]
    assert main([*words, "--url", "amqp://nowhere.invalid"]) == 1  # which is not even asked
    out, err = capsys.readouterr()
    assert out == "0 confirmed, 3 not tried\n"
    assert "amqpkit: the resume file /dev/full cannot be written: No space left on device; " in err


class Volume:
    """A small place for the resume file: a file system of one page, or a limit on the size of files."""

    def __init__(self, folder: Path, *, limited: bool) -> None:
        self.file, self._limited = folder / "resume", limited

    @property
    def limit(self) -> Callable[[], None] | None:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, PAGE))

        return limit if self._limited else None

    def widen(self) -> None:
        if not self._limited:
            subprocess.run(["mount", "-o", "remount,size=1m", str(self.file.parent)], check=True)


@pytest.fixture(params=["file system", "size limit"])
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Volume]:
    folder = tmp_path / "small"
    folder.mkdir()
    if request.param == "size limit":
        yield Volume(folder, limited=True)
        return
    if os.geteuid():
        pytest.skip("only root mounts a file system; the size limit tests the same")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={PAGE}", "tmpfs", str(folder)], check=True)
    yield Volume(folder, limited=False)
    subprocess.run(["umount", str(folder)], check=True)


def test_when_the_disk_fills_the_run_ends_and_names_what_would_be_sent_twice(
    broker: Broker, office: Path, volume: Volume, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(broker)
    lines(office, *letters(700))
    with start(office, broker, "--resume", str(volume.file), preexec_fn=volume.limit) as program:
        out, err = program.communicate(timeout=60)

    assert program.returncode == 1, err
    assert "Traceback" not in err
    assert re.search(r"the resume file .* cannot be written: (No space left on device|File too large)", err)
    told = re.search(
        r"Stored, though it does not say so: line ([\d, -]+)\. A run that goes on from it sends these", err
    )
    assert told is not None, err
    forgotten = numbers(told[1])
    first = [each.message_id for each in taken(broker)]
    assert out == f"{len(first)} confirmed, {700 - len(first)} not tried\n"
    assert 0 < len(forgotten) < len(first) < 700

    volume.widen()
    capsys.readouterr()
    words = ["publish", "letter.send", "--many", "letters.jsonl", "--resume", str(volume.file), "--url", broker.url]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"{len(first) - len(forgotten)} stored before, ")
    again = [each.message_id for each in taken(broker)]
    twice = {name for name, count in Counter(first + again).items() if count > 1}
    memory = Resume.read(volume.file, "letter.send")
    assert len({*first, *again}) == 700
    assert twice == {memory.id_of(number, json.dumps({"to": f"p{number - 1}"})) for number in forgotten}


def numbers(told: str) -> set[int]:
    found = set[int]()
    for span in told.split(", "):
        first, _, last = span.partition("-")
        found |= {*range(int(first), int(last or first) + 1)}
    return found


def test_only_what_is_stored_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Resume.read(tmp_path / "r", "letter.send")
    tally = Tally(3, memory)
    tally.numbers += [1, 2, 3]
    with memory:
        memory.begin("letter.send")
        tally.note(Outcome(0, "a"))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / "r").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        try:
            with pytest.raises(ResumeUnwritableError):
                tally.note(Outcome(1, "b"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        tally.note(Outcome(2, "c", PublishUncertain("gone")))  # there is room again

    assert tally.forgotten == [2]
    assert "line 3: gone" in capsys.readouterr().err
    told = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]
    assert [(entry["line"], entry["fate"]) for entry in told[1:]] == [(1, "confirmed"), (3, "uncertain")]


@pytest.mark.parametrize(
    ("given", "told"), [([], ""), ([5], "5"), ([3, 1, 2], "1-3"), ([1, 3, 4, 9], "1, 3-4, 9"), ([1, 2], "1-2")]
)
def test_numbers_are_told_in_few_words(given: list[int], told: str) -> None:
    assert spans(given) == told


# --- a terminal --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stopped", [False, True], ids=["to its end", "stopped"])
def test_a_terminal_shows_how_far_it_is_and_gets_its_cursor_back(
    broker: Broker, office: Path, is_stopped: bool
) -> None:
    apply(broker)
    lines(office, *letters(12 if not is_stopped else 500))
    main_end, other_end = pty.openpty()
    with start(office, broker, "--rate", "8/s", stderr=other_end, preexec_fn=hears_ctrl_c) as program:
        os.close(other_end)
        said = read_until(main_end, b" 4/")
        if is_stopped:
            program.send_signal(signal.SIGINT)
        said += read_until(main_end, None)
        out, _ = program.communicate(timeout=30)
        os.close(main_end)

    assert b"publishing" in said
    assert said.count(b"\x1b[?25l") == said.count(b"\x1b[?25h") > 0, "the cursor is hidden meanwhile only"
    assert b"Traceback" not in said
    if is_stopped:
        assert program.returncode == 130
        told = re.fullmatch(r"(\d+) confirmed, (\d+) not tried\n", out)
        assert told is not None, out
        assert int(told[1]) == len(taken(broker))
        assert int(told[1]) + int(told[2]) == 500
    else:
        assert (program.returncode, out) == (0, "12 confirmed\n")
        assert b"12/12" in said


def test_a_pipe_gets_no_bar(broker: Broker, office: Path) -> None:
    apply(broker)
    lines(office, *letters(3))
    with start(office, broker) as program:
        out, err = program.communicate(timeout=30)
    assert (out, err.splitlines()[1:]) == ("3 confirmed\n", []), err
