"""Without a broker the tests that need one fail, and say what to do; they do not skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_tests(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run some tests as a person would, in a world without an engine."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AMQPKIT", "DOCKER", "COV_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**inherited, "DOCKER_HOST": "unix:///nowhere/docker.sock", "AMQPKIT_BOOTSTRAP": "0", **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_without_an_engine_broker_tests_fail_with_a_message_that_helps(workers):
    done = run_tests("-n", workers, "tests/house/test_brokers.py", "-k", "test_a_message_goes_through_each_broker")

    assert done.returncode == 1
    assert "2 errors" in done.stdout
    assert "skipped" not in done.stdout
    assert "No RabbitMQ to test on: no Docker engine answers, and AMQPKIT_BOOTSTRAP=0 forbids" in done.stdout
    assert "AMQPKIT_TEST_URL=amqp://" in done.stdout


def test_a_given_broker_that_does_not_answer_is_named_and_no_engine_is_tried():
    done = run_tests(
        "tests/house/test_brokers.py",
        "-k",
        "test_a_message_goes_through_each_broker",
        AMQPKIT_TEST_URL="amqp://guest:guest@127.0.0.1:1/",
        AMQPKIT_TEST_API_URL="http://127.0.0.1:1",
    )

    assert done.returncode == 1
    assert "the broker of AMQPKIT_TEST_URL (management API at port 1) does not answer" in done.stdout


def test_what_needs_no_broker_runs_without_one():
    done = run_tests("tests/house/test_brokers.py", "tests/house/test_apt.py", "-m", "not broker")

    assert done.returncode == 0
    assert "No RabbitMQ" not in done.stdout
