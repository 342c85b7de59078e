"""What the Prometheus listener counts, and that no stranger can make it grow."""

from typing import Any

import pytest

from amqpkit import Context, DeadLetter
from amqpkit.events import (
    Begun,
    ClaimLost,
    Connected,
    ConnectionLost,
    ConsumerLost,
    CopyHeld,
    DuplicateWindow,
    Fate,
    Outcome,
    Published,
    Settled,
    StoreDown,
)
from amqpkit.operate.metrics.listener import Metrics, handling_buckets
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, Task, topology


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


async def test_a_message_that_fails_once_is_seen_as_two_deliveries_and_one_end() -> None:
    sim: Simulator

    async def does(_task: Task, context: Context) -> None:
        await sim.clock.sleep(2)
        if context.attempt == 1:
            raise LookupError

    async with Simulator(topology(), [Does(does)]) as sim:
        metrics = Metrics(topology(), [Does()])
        await sim.publish(Task())
        tell(metrics, sim)
        assert value(metrics, "amqpkit_in_flight", queue="task") == 1
        await sim.advance("30s")
        tell(metrics, sim)

    task = {"queue": "task", "type": "task"}
    assert value(metrics, "amqpkit_in_flight", queue="task") == 0
    assert value(metrics, "amqpkit_deliveries_total", **task, outcome="retried") == 1
    assert value(metrics, "amqpkit_deliveries_total", **task, outcome="handled") == 1
    assert value(metrics, "amqpkit_handling_seconds_count", **task) == 2
    assert value(metrics, "amqpkit_handling_seconds_sum", **task) == 4.0
    assert value(metrics, "amqpkit_attempts_sum", **task) == 2
    assert value(metrics, "amqpkit_attempts_count", **task) == 1
    assert value(metrics, "amqpkit_age_at_handling_seconds_sum", **task) == 12.0


def tell(metrics: Metrics, sim: Simulator) -> None:
    for event in sim.events:
        metrics(event)
    sim.events.clear()


async def test_dead_letters_are_counted_by_fate() -> None:
    def does(*_: Any) -> None:
        raise DeadLetter("no such person")

    metrics = Metrics(topology(), [Does()])
    async with Simulator(topology(), [Does(does)]) as sim:
        await sim.publish(Task())
        tell(metrics, sim)

    assert value(metrics, "amqpkit_dead_lettered_total", queue="task", type="task", fate="permanent") == 1


def test_a_million_types_and_queues_make_no_more_series() -> None:
    metrics = Metrics(topology(), [Does()])

    def series() -> int:
        return sum(len(family.samples) for family in metrics.registry.collect())

    def stranger(number: int) -> None:
        queue, kind = f"q{number}", f"type-{number}"
        metrics(Begun(queue, "m", kind, 1, 1.0))
        metrics(Settled(queue, "m", kind, 1, Outcome.DEAD, fate=f"fate{number % 40}", handling=1.0))
        metrics(Published(kind, "x", "k", "m", Fate.CONFIRMED, 1, 0.1))
        metrics(DuplicateWindow(queue, "m", f"window {number % 40}"))

    for number in range(100):
        stranger(number)
    before = series()
    for number in range(100, 20_000):
        stranger(number)

    assert series() == before
    assert value(metrics, "amqpkit_deliveries_total", queue="other", type="other", outcome="dead") == 20_000


@pytest.mark.parametrize(
    ("events", "name", "labels", "expected"),
    [
        ([ClaimLost("task", "m")], "amqpkit_leases_lost_total", {"queue": "task"}, 1),
        ([CopyHeld("task", "m", "e", 1, 0.2)], "amqpkit_copies_held_total", {"queue": "task"}, 1),
        ([StoreDown("task", "m", "e", 1, 0.2)], "amqpkit_store_down_total", {"queue": "task"}, 1),
        ([ConsumerLost("task", "gone", 0.2)], "amqpkit_consumers_lost_total", {"queue": "task"}, 1),
        ([DuplicateWindow("task", "m", "w")], "amqpkit_duplicate_windows_total", {"queue": "task", "window": "w"}, 1),
        ([Connected("consume", "b")], "amqpkit_reconnects_total", {"purpose": "consume"}, None),
        (
            [Connected("consume", "b"), *[ConnectionLost("consume", "r", 1)] * 3, Connected("consume", "b")],
            "amqpkit_reconnects_total",
            {"purpose": "consume"},
            1,
        ),
        (
            [Published("task", "", "k", "m", Fate.NACKED, 3, 2.0)],
            "amqpkit_published_total",
            {"type": "task", "fate": "nacked"},
            1,
        ),
        ([Published("task", "", "k", "m", Fate.NACKED, 3, 2.0)], "amqpkit_publish_tries_total", {"type": "task"}, 3),
        (
            [Settled("task", "m", None, 1, Outcome.REFUSED)],
            "amqpkit_deliveries_total",
            {"queue": "task", "type": "none", "outcome": "refused"},
            1,
        ),
        (
            [Begun("task", "m", "task", 1, -5.0)],
            "amqpkit_age_at_handling_seconds_sum",
            {"queue": "task", "type": "task"},
            0,
        ),
        (
            [Begun("task", "m", "task", 1), Settled("task", "m", "task", 1, Outcome.REQUEUED, handling=9.0)],
            "amqpkit_handling_seconds_count",
            {"queue": "task", "type": "task"},
            0,
        ),
    ],
)
def test_each_trouble_is_counted(events, name, labels, expected) -> None:
    metrics = Metrics(topology(), [Does()])

    for event in events:
        metrics(event)

    assert value(metrics, name, **labels) == expected


def test_a_publishers_pressure_is_read_when_asked() -> None:
    class Publisher:
        pressure = 0.25

    metrics, publisher = Metrics(topology()), Publisher()
    metrics.watch(publisher)
    publisher.pressure = 0.75

    assert value(metrics, "amqpkit_publisher_pressure") == 0.75


def test_the_buckets_know_the_files_timeouts() -> None:
    assert {24.0, 30.0} <= set(handling_buckets(topology()))


def test_what_a_rule_compares_with_is_a_bound_however_long_it_is() -> None:
    file = """
version: 1
work_queues:
  film: {consumer-timeout: 5h}
  video: {consumer-timeout: 3h, consume: {timeout: 2h}}
"""
    assert {0.8 * 18_000, 18_000.0, 0.8 * 7200, 7200.0} <= set(handling_buckets(topology(file)))


def test_of_many_timeouts_the_longest_are_bounds() -> None:
    queues = "\n".join(f"  q{number}: {{consume: {{timeout: {number}m}}}}" for number in range(1, 26))
    buckets = handling_buckets(topology(f"version: 1\nwork_queues:\n{queues}\n"))
    assert {1200.0, 1500.0} <= set(buckets), "an alert above the last bound would never fire"
    assert len(buckets) <= 40


def test_rabbitmqs_own_consumer_timeout_is_known() -> None:
    assert {0.8 * 1800, 1800.0} <= set(handling_buckets(topology("version: 1\nwork_queues: {a: {}}\n")))


def test_what_may_be_counted_is_there_from_the_start_at_nought() -> None:
    metrics, task = Metrics(topology(), [Does()]), {"queue": "task", "type": "task"}
    # Prometheus's rate() and increase() do not see how high a series begins
    for outcome in Outcome:
        assert value(metrics, "amqpkit_deliveries_total", **task, outcome=outcome.value) == 0
    assert value(metrics, "amqpkit_handling_seconds_bucket", **task, le="+Inf") == 0
    for fate in ("exhausted", "permanent", "invalid", "too-new", "crashed"):
        assert value(metrics, "amqpkit_dead_lettered_total", **task, fate=fate) == 0
    for name in ("leases_lost", "copies_held", "store_down", "consumers_lost"):
        assert value(metrics, f"amqpkit_{name}_total", queue="task") == 0


def test_a_clock_that_is_set_back_takes_nothing_from_what_is_summed() -> None:
    metrics = Metrics(topology(), [Does()])
    metrics(Begun("task", "1", "task", 1, -5.0))
    metrics(Settled("task", "1", "task", 1, Outcome.HANDLED, handling=-3600.0))
    metrics(Published("task", "", "task", "1", Fate.CONFIRMED, 1, -3600.0))
    for name in ("handling", "age_at_handling"):
        assert value(metrics, f"amqpkit_{name}_seconds_sum", queue="task", type="task") == 0
    assert value(metrics, "amqpkit_publish_seconds_sum", type="task") == 0
