"""An export that did not come to its end is not taken for one that did."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import pytest
from pika.spec import BasicProperties

from tests.broker.life.ledger import send
from tests.cli.dlq_desk import Desk

BIG = b'{"fill": "' + b"x" * 4000 + b'"}'
MANY = 400


class Export:
    """An export that is held in its midst: its part is a pipe, which takes 64 KiB until somebody reads on."""

    def __init__(self, here: Desk, folder: Path) -> None:
        self.out, self.part = folder / "letters.jsonl", folder / "letters.jsonl.part"
        messages = ((BIG, BasicProperties(message_id=f"m-{n}")) for n in range(MANY))
        send(here.broker.url, "orders.dlq", messages)
        os.mkfifo(self.part)
        self._pipe = os.open(self.part, os.O_RDONLY | os.O_NONBLOCK)
        words = ["dlq", "export", "orders", str(here.file), "--out", str(self.out)]
        places = {"AMQP_URL": here.broker.url, "AMQP_API_URL": here.broker.api}
        self.program = subprocess.Popen(
            [sys.executable, "-m", "amqpkit.cli", *words],
            env={**os.environ, **places, "PYTHONPATH": str(Path(__file__).parents[2])},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert select.select([self._pipe], [], [], 30)[0], "nothing is written"

    def end(self) -> tuple[str, int]:
        """Read on to the end; give what was said on standard error, and how many lines were written."""
        os.set_blocking(self._pipe, True)
        lines = 0
        while piece := os.read(self._pipe, 65536):
            lines += piece.count(b"\n")
        os.close(self._pipe)
        _, err = self.program.communicate(timeout=60)
        self.part.unlink()
        assert "Traceback" not in err
        assert "cannot be written" not in err  # as a pipe would be told of that was to be finished
        assert f"not complete: {self.out} was not made; what was written so far is in {self.part}. " in err
        assert f"written to {self.out} " not in err
        assert not self.out.exists()
        return err, lines


def until(fact: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it does not become true"
        time.sleep(0.05)


@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGINT, signal.SIGTERM)], ids=["once", "twice"])
def test_a_stopped_export_leaves_a_part_that_is_called_one_and_can_be_run_again(
    here: Desk, tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    export = Export(here, tmp_path)
    for each in signals:
        export.program.send_signal(each)
    err, lines = export.end()

    assert (export.program.returncode, lines < MANY) == (130, True), err
    assert 'no letter has left "orders.dlq": run it again' in err
    until(lambda: here.depth("orders.dlq") == MANY)
    _, err = here.dlq("export", "orders", "--out", str(export.out))
    assert err == f"{MANY} letters written to {export.out} ({MANY} seen in orders.dlq)\n"
    assert export.out.read_bytes().count(b"\n") == MANY
    assert not export.part.exists()


def hung_up(here: Desk) -> bool:
    """Have the broker close the connection that the letters come on, once its statistics know of it."""
    _, connections = here.broker.http("GET", f"vhosts/{here.broker.vhost}/connections")
    names = {each.get("client_properties", {}).get("connection_name"): each["name"] for each in connections or ()}
    name = quote(names.get("amqpkit dlq export consume", ""), safe="")
    return bool(name) and here.broker.http("DELETE", f"connections/{name}")[0] == HTTPStatus.NO_CONTENT


def test_a_lost_broker_leaves_a_part(here: Desk, tmp_path: Path) -> None:
    export = Export(here, tmp_path)
    until(lambda: hung_up(here))
    err, _ = export.end()

    assert export.program.returncode == 1, err
    until(lambda: here.depth("orders.dlq") == MANY)


def test_a_full_disk_leaves_a_part_and_every_letter(here: Desk, tmp_path: Path) -> None:
    here.bury(5, body=BIG)
    out, part = tmp_path / "letters.jsonl", tmp_path / "letters.jsonl.part"
    part.symlink_to("/dev/full")  # whatever is written there fails as on a full disk

    _, err = here.dlq("export", "orders", "--out", str(out), code=1)

    assert f"the letters cannot be written to {out}: No space left on device" in err
    assert f"what was written so far is in {part}" in err
    assert not out.exists()
    part.unlink()
    here.dlq("export", "orders", "--out", str(out))
    assert out.read_bytes().count(b"\n") == 5
    assert [letter.message_id for letter in here.take("orders.dlq")] == [f"m-{n}" for n in range(5)]
