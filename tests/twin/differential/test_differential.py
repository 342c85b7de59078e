"""Random scripts on RabbitMQ and in memory: every answer, every count, every header must be the same.

Each seed is a script. The suite plays the same few; for a longer run, name a range of seeds, the last one included:

    AMQPKIT_TWIN_SEEDS=1000-1400 .venv/bin/python -m pytest -n 2 tests/twin/differential
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.containers.brokers import Broker
from tests.twin.differential import in_memory, on_rabbitmq
from tests.twin.differential.course import Answer, Course, Moment, Seen, difference
from tests.twin.differential.script import write_script

AT_ONCE = 8
# A fault of the model is deterministic and shows in each play. On a machine that is busy elsewhere a message may also
# expire before the script comes to it, which is nobody's fault: a difference counts only when it is there every time.
PLAYS = 3


def seeds() -> range:
    """Give the seeds of this run."""
    first, _, last = os.environ.get("AMQPKIT_TWIN_SEEDS", "1-24").partition("-")
    return range(int(first), int(last or first) + 1)


def lasting_difference(seed: int, *, broker: Broker) -> str | None:
    """Play a script in memory and on RabbitMQ, there up to three times, and say how they differ each time."""
    script = write_script(seed)
    ours = in_memory.play(script, "{}.{}".format(*broker.release))
    found: str | None = None
    for _ in range(PLAYS):
        found = difference(script, on_rabbitmq.play(script, broker.url, ours), ours)
        if found is None:
            return None
    return found


# Eight scripts at a time take ten seconds; thirty, when the machine is busy and each is played three times.
@pytest.mark.timeout(120 + 4 * len(seeds()))
def test_random_scripts_run_alike_in_memory_and_on_rabbitmq(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", logger="pika")  # it warns of every nack, and nacks are part of the play
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [each for each in pool.map(partial(lasting_difference, broker=broker), seeds()) if each]

    assert not found, f"{len(found)} of {len(seeds())} scripts differ\n\n" + "\n\n".join(found)


def got(message_id: str = "m0", **headers: int) -> Seen:
    return Seen(message_id, "", "1.dlq", redelivered=True, headers=headers)


def test_a_seed_always_writes_the_same_script() -> None:
    assert write_script(7) == write_script(7) != write_script(8)


def test_a_difference_names_the_seed_the_steps_up_to_it_and_only_what_differs() -> None:
    script = write_script(1)
    alike = Moment(Answer.CONFIRMED, {"1.work": 1})
    real = Moment((got(count=1),), {"1.work": 0})
    ours = Moment((got(count=2),), {"1.work": 0})

    found = difference(script, Course((alike, real), {}), Course((alike, ours), {}))

    assert found is not None
    assert found.startswith("seed 1\n")
    assert found.endswith("result 0 headers count\n      real: 1\n      ours: 2")
    assert f"step 2: {script.steps[1]}" in found
    assert "step 3" not in found
    assert difference(script, Course((alike,), {}), Course((alike,), {})) is None


def test_what_is_left_at_the_end_is_compared_in_order() -> None:
    script = write_script(1)
    first, second = got("m0"), got("m1")

    found = difference(script, Course((), {"1.dlq": (first, second)}), Course((), {"1.dlq": (second, first)}))

    assert found is not None
    assert "left at the end" in found
    assert "1.dlq 0 message_id\n      real: m0\n      ours: m1" in found
