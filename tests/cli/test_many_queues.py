"""Hundreds of queues from a definitions file on a real broker: a run that is killed half-way, and the next one."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

from amqpkit.cli import main
from tests.unit.declare.test_many import definitions

COUNT = 500
ALL = 2 * COUNT + 1
ROOT = Path(__file__).parents[2]


def test_an_apply_that_is_killed_is_finished_by_the_next_one_which_does_the_rest_only(broker, tmp_path, capsys):
    document = definitions(COUNT)
    for item in (*document["queues"], *document["exchanges"], *document["bindings"]):
        item["vhost"] = broker.vhost
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    where = ["--url", broker.url, "--api", broker.api]

    killed_on_the_way(broker, ["apply", str(file), "--yes", *where])
    assert main(["apply", str(file), "--yes", *where]) == 0

    done = re.search(r"^Created (\d+), changed 0; (\d+) were as declared\.$", capsys.readouterr().out, re.MULTILINE)
    assert done is not None
    created, there = int(done[1]), int(done[2])
    assert created + there == ALL
    assert there >= COUNT // 10
    assert created > 0
    assert main(["plan", str(file), *where, "--detailed-exitcode"]) == 0


def killed_on_the_way(broker, arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "amqpkit.cli", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    listing = f"queues/{quote(broker.vhost, safe='')}?disable_stats=true&page=1&page_size=1"
    deadline = time.monotonic() + 60
    try:
        while broker.http("GET", listing)[1]["filtered_count"] < COUNT // 10:
            assert process.poll() is None
            assert time.monotonic() < deadline
    finally:
        process.kill()
        process.wait()
