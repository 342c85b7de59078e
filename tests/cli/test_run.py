"""`amqpkit run` and `amqpkit publish` as people meet them: a process, its output, its signals, its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqpkit.cli import main
from amqpkit.cli.modules import find_consumers
from amqpkit.errors import ConsumerError
from tests.containers.brokers import Broker

FILE = """
version: 1
work_queues:
  letter.send:
    consume: {prefetch: 4, concurrency: 2}
    retry: {delays: [200ms]}
    dead_letter: {owner: team-post}
"""
MODULE = """
import os
import time

from amqpkit import Consumer, Context, Payload


class Letter(Payload, type="letter.send"):
    to: str


class SendLetter(Consumer[Letter], queue="letter.send"):
    def handle(self, letter: Letter, context: Context) -> None:
        with open(os.environ["LETTERS"], "a") as file:
            file.write(f"begun {letter.to}\\n")
        if letter.to == "nobody":
            raise LookupError("no such person")
        if letter.to.startswith("slow"):
            time.sleep(1)
        with open(os.environ["LETTERS"], "a") as file:
            file.write(f"sent {letter.to}\\n")


def needy():
    return [SendLetter]


class Picky(SendLetter, queue="letter.send"):
    def __init__(self, stamp):
        self.stamp = stamp
"""


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a user has it: a topology file and a module, and nothing of ours in the environment."""
    (tmp_path / "topology.yaml").write_text(FILE)
    (tmp_path / "post.py").write_text(MODULE)
    (tmp_path / "letters").touch()
    monkeypatch.setenv("LETTERS", str(tmp_path / "letters"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("post", None)


def until(condition: Callable[[], bool], what: str, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.02)


class Running:
    """A worker process and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    @property
    def said(self) -> str:
        return self.log.read_text()


@contextmanager
def running(broker: Broker, folder: Path, *options: str) -> Iterator[Running]:
    root = Path(__file__).parents[2]
    log = folder / "log"
    environment = os.environ | {"AMQP_URL": broker.url, "PYTHONPATH": str(root)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "amqpkit.cli", "run", "post:needy", *options],
            cwd=folder,
            env=environment,
            stderr=output,
            stdout=output,
        )
        try:
            worker = Running(process, log)
            until(lambda: "consuming letter.send" in worker.said or process.poll() is not None, "the worker consumes")
            yield worker
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def at(broker: Broker, *command: str) -> int:
    where = ["--url", broker.url] + (["--api", broker.api, "--yes"] if command[0] == "apply" else [])
    return main([*command, *where])


def test_a_worker_says_what_it_runs_handles_and_stops_when_told(
    broker: Broker, post: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert at(broker, "apply") == 0
    with running(broker, post, "--concurrency", "3") as worker:
        capfd.readouterr()
        assert at(broker, "publish", "letter.send", '{"to": "ann"}') == 0
        message_id = capfd.readouterr().out.strip()
        assert at(broker, "publish", "letter.send", '{"to": "nobody"}') == 0
        assert at(broker, "publish", "letter.send", '{"from": "ann"}') == 0
        until(lambda: worker.said.count(" dead: ") == 2, "two letters are dead")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0
    said = worker.said
    assert "SendLetter handles letter.send v1" in said
    assert "prefetch 4 (file), concurrency 3 (command line), timeout none (default)" in said
    assert "retries after 200ms, then dead letters in letter.send.dlq (owner: team-post)" in said
    assert "LookupError: no such person" in said
    assert "not a valid Letter: to: Field required" in said
    assert "stopped: 2 dead, 1 handled, 1 retried" in said
    assert broker.url not in said
    assert "begun ann\nsent ann" in (post / "letters").read_text()
    assert len(message_id) == 36


def test_a_drain_finishes_what_has_begun_and_gives_back_the_rest(broker: Broker, post: Path) -> None:
    assert at(broker, "apply") == 0
    with running(broker, post) as worker:
        for n in range(6):
            assert at(broker, "publish", "letter.send", json.dumps({"to": f"slow-{n}"})) == 0
        until(lambda: "begun" in (post / "letters").read_text(), "a letter has begun")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0
    letters = (post / "letters").read_text().splitlines()
    begun = {line.removeprefix("begun ") for line in letters if line.startswith("begun")}
    sent = {line.removeprefix("sent ") for line in letters if line.startswith("sent")}
    assert begun == sent
    assert messages(broker, "letter.send") == 6 - len(sent)


def test_a_second_signal_ends_the_grace_period(broker: Broker, post: Path) -> None:
    text = (post / "post.py").read_text().replace("time.sleep(1)", "time.sleep(8)")
    (post / "post.py").write_text(text)
    assert at(broker, "apply") == 0
    with running(broker, post) as worker:
        assert at(broker, "publish", "letter.send", '{"to": "slow"}') == 0
        until(lambda: "begun slow" in (post / "letters").read_text(), "the letter has begun")
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in worker.said, "it drains")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(6) == 0
    assert "sent" not in (post / "letters").read_text()
    assert messages(broker, "letter.send") == 1


def test_a_worker_with_a_store_handles_a_duplicate_once(broker: Broker, post: Path) -> None:
    assert at(broker, "apply") == 0
    with running(broker, post, "--store", "sqlite:///claims.db") as worker:
        for _ in range(3):
            assert at(broker, "publish", "letter.send", '{"to": "ann"}', "--key", "ann-1") == 0
        until(lambda: "begun ann" in (post / "letters").read_text(), "the letter is handled")
        until(lambda: messages(broker, "letter.send") == 0, "the queue is empty")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0
    assert "stopped: 2 duplicate, 1 handled" in worker.said
    assert "store    SqlStore(sqlite:///claims.db)" in worker.said
    assert (post / "letters").read_text() == "begun ann\nsent ann\n"


@pytest.mark.usefixtures("post")
@pytest.mark.parametrize(
    ("store", "code", "says"),
    [
        ("mysql://user:secret@host/db", 64, 'no store for "mysql:"'),
        ("sqlite:////nowhere/at/all/claims.db", 1, "claims.db"),
        ("redis://:secret@127.0.0.1:1/0", 1, "127.0.0.1:1"),
        ("postgresql://user:secret@127.0.0.1:1/db", 1, "127.0.0.1:1"),
    ],
)
def test_a_store_that_cannot_be_used_is_an_error_without_its_password(
    capsys: pytest.CaptureFixture[str], store: str, code: int, says: str
) -> None:
    assert main(["run", "post:needy", "--url", "amqp://127.0.0.1:1", "--store", store]) == code
    error = capsys.readouterr().err
    assert says in error
    assert "secret" not in error
    assert "Traceback" not in error


def test_a_worker_without_its_queue_says_what_to_do(broker: Broker, post: Path) -> None:
    with running(broker, post) as worker:
        assert worker.process.wait(30) == 1
    assert 'queue "letter.send" does not exist on the broker; run `amqpkit apply` first' in worker.said
    assert "Traceback" not in worker.said


def messages(broker: Broker, queue: str) -> int:
    """How many are ready, as the queue itself says."""
    import pika  # a second opinion, not the library under test

    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        declared = connection.channel().queue_declare(queue, passive=True)
        return int(declared.method.message_count)
    finally:
        connection.close()


def test_a_message_that_reaches_no_queue_is_an_error(
    broker: Broker, post: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert at(broker, "publish", "letter.send", '{"to": "ann"}') == 1
    assert "reaches no queue" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["letter.send", "{"], "the body is not JSON"),
        (["letter.send", '{"to": NaN}'], "NaN is not JSON"),
        (["letter.send", "[" * 100_000], "the body is not JSON"),
        (["letter.lost", "{}"], 'no work queue accepts type "letter.lost"'),
    ],
)
def test_what_cannot_be_published_is_refused_before_connecting(
    post: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["publish", *arguments, "--url", "amqp://nowhere.invalid"]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_a_consumer_that_does_not_fit_is_told_with_the_file_and_its_queues(
    post: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (post / "topology.yaml").write_text(FILE.replace("letter.send:", "orders:"))

    assert main(["run", "post:SendLetter", "--url", "amqp://127.0.0.1:1/"]) == 1
    said = capsys.readouterr().err
    assert 'SendLetter: queue "letter.send" is not in the topology; its work queues are orders' in said
    assert "the topology is that of topology.yaml" in said


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nothing_here", "there is no module 'nothing_here'"),
        ("post:Nobody", "module post has no Nobody"),
        ("post:Letter", "not a Consumer"),
        ("post:Picky", "Picky needs stamp to be made"),
        ("json", "module json defines no Consumer class"),
        ("..", "is not the name of a module"),
        (":x", "is not the name of a module"),
    ],
)
@pytest.mark.usefixtures("post")
def test_a_target_that_cannot_run_is_named_with_the_remedy(target: str, says: str) -> None:
    with pytest.raises(ConsumerError, match=says):
        find_consumers(target)


@pytest.mark.usefixtures("post")
def test_consumers_are_found_by_class_list_function_and_instance() -> None:
    assert [type(c).__name__ for c in find_consumers("post:SendLetter")] == ["SendLetter"]
    assert [type(c).__name__ for c in find_consumers("post:needy")] == ["SendLetter"]


def test_an_error_inside_the_users_module_keeps_its_traceback(post: Path) -> None:
    (post / "broken.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        find_consumers("broken")
