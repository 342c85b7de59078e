"""A worker that is watched from outside: its port, its health, its logs; and what keeps it from being."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from amqpkit.cli import main
from tests.cli.service import MODULE
from tests.containers.brokers import Broker, free_port

FILE = """
version: 1
work_queues:
  letter.send:
    consume: {timeout: 30s}
    retry: {delays: [200ms]}
    dead_letter: {owner: team-post, alert: {messages: 1}}
"""


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "topology.yaml").write_text(FILE)
    (tmp_path / "post.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("post", None)


def until(condition: Callable[[], bool], what: str, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.05)


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def test_a_watched_worker_answers_and_logs_as_json(broker: Broker, post: Path, capfd) -> None:
    at = ("--url", broker.url, "--api", broker.api)
    assert main(["apply", "--yes", *at]) == 0
    port = free_port()
    command = (sys.executable, "-m", "amqpkit.cli", "run", "post", *at, "--metrics-port", str(port))
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONWARNINGS": "error"}
    with (post / "log").open("wb") as log:
        worker = subprocess.Popen([*command, "--log-format", "json", "--trace"], cwd=post, stderr=log, env=environ)
    try:
        until(lambda: ask(f"http://127.0.0.1:{port}/healthz")[0] == 200, "it is healthy")
        capfd.readouterr()
        assert main(["publish", "letter.send", '{"to": "nobody"}', "--url", broker.url]) == 0
        message_id = capfd.readouterr().out.strip()
        dead = 'amqpkit_dead_letters{fate="exhausted",queue="letter.send"} 1.0'
        until(lambda: dead in ask(f"http://127.0.0.1:{port}/metrics")[1], "the dead letter is shown")
        assert main(["status", *at, "--metrics", f"127.0.0.1:{port}", "--json"]) == 2
        told = json.loads(capfd.readouterr().out)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()
    (queue,) = told["queues"]
    assert 0 < queue["p95"] < 1
    assert (queue["timeout"], queue["consumers"]) == (30.0, 1)
    lines = [json.loads(line) for line in (post / "log").read_text().splitlines()]
    ends = [line for line in lines if line.get("event") == "settled"]
    assert [(line["message_id"], line["attempt"], line["outcome"]) for line in ends] == [
        (message_id, 1, "retried"),
        (message_id, 2, "dead"),
    ]
    assert lines[-1]["message"] == "stopped: 1 dead, 1 retried"


def test_a_port_that_is_taken_is_an_error_that_says_so(broker: Broker, post: Path, capfd) -> None:
    at = ("--url", broker.url, "--api", broker.api)
    assert main(["apply", "--yes", *at]) == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["run", "post", *at, "--metrics-port", str(port)]) == 1
    assert f"--metrics-port {port}: cannot listen on 127.0.0.1 (Address already in use)" in capfd.readouterr().err


@pytest.mark.usefixtures("post")
def test_a_worker_without_the_extra_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for name in [name for name in sys.modules if name.startswith("amqpkit.operate.metrics")]:
        monkeypatch.delitem(sys.modules, name)

    assert main(["run", "post", "--metrics-port", "1"]) == 1
    assert "--metrics-port needs the extra prometheus: pip install 'amqpkit[prometheus]'" in capsys.readouterr().err
