"""Fifty thousand queues in one definitions file are judged within bounds that only a square would break."""

import json
import resource
import subprocess
import sys
from pathlib import Path

COUNT = 50_000
SECONDS, BYTES = 30, 2**30
JUDGE = """\
import sys
from amqpkit.cli import main, rare_collections
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.model import Topology

assert main(["validate", sys.argv[1]]) == 0
with rare_collections():
    print(len(make_plan(load_topology(sys.argv[1]), Actual(Topology())).changes))
"""


def definitions(count, *, exchange=True):
    """One topic exchange, queues, and a binding for each: what a public report imported."""
    about = {"vhost": "cases", "durable": True, "auto_delete": False, "arguments": {}}
    return {
        "rabbit_version": "3.12.0",
        "queues": [{"name": f"q.{number}", **about} for number in range(count)],
        "exchanges": [{"name": "topic", "type": "topic", "internal": False, **about}] if exchange else [],
        "bindings": [
            {
                "source": "topic",
                "vhost": "cases",
                "destination": f"q.{number}",
                "destination_type": "queue",
                "routing_key": f"k.{number}.#",
                "arguments": {},
            }
            for number in range(count)
        ],
    }


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def judged(*command):
    """Run within the bounds, of time on the processor, whatever else the machine does."""
    return subprocess.run(
        [sys.executable, *command],
        preexec_fn=limited,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_they_are_validated_and_planned_in_half_a_minute_and_a_gibibyte(tmp_path):
    file = tmp_path / "big.json"
    file.write_text(json.dumps(definitions(COUNT)), encoding="utf-8")

    done = judged("-c", JUDGE, str(file))

    assert (done.returncode, done.stderr) == (0, "")
    validated, planned = done.stdout.splitlines()
    assert validated == f"{file}: ok, 0 work queues, 50000 queues, 1 exchange, 50000 bindings, 0 policies"
    assert planned == "100001"


def test_an_exchange_that_none_of_their_bindings_finds_is_told_before_anything_is_sent(tmp_path):
    file = tmp_path / "big.json"
    file.write_text(json.dumps(definitions(5_000, exchange=False)), encoding="utf-8")

    # nobody listens at that address: it is not asked
    done = judged("-m", "amqpkit.cli", "plan", "--url", "amqp://127.0.0.1:9/cases", str(file))

    assert (done.returncode, done.stdout) == (1, "")
    first, *_, last = done.stderr.splitlines()
    at = file.read_text(encoding="utf-8").index('{"source"') + 1
    text = 'queues.q.0.bindings[0].source: exchange "topic" is not declared; declare it under `exchanges`'
    assert first == f"{file}:1:{at}: {text}"
    assert last == "… and 4,900 more; `amqpkit validate --json` names them all"
