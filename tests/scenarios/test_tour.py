"""The nine decisions of a queue in production: kept in memory and on RabbitMQ, and named when one is not kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from amqpkit import load_topology
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.model import Queue
from examples.shop import tour
from examples.shop.decisions import DECISIONS
from tests.containers.brokers import Broker

NINE = [
    "producer",
    "consumer",
    "payload",
    "visibility",
    "retry",
    "dead letters",
    "idempotency",
    "back pressure",
    "monitoring",
]


def told(text: str) -> list[str]:
    """The decisions that a text tells of."""
    return [line.partition(" ")[2].partition(":")[0] for line in text.splitlines() if line[:1].isdigit()]


def test_in_memory_all_are_kept(capsys):
    assert tour.main([]) == 0

    text = capsys.readouterr().out
    assert told(text) == NINE
    assert "All 9 are as promised." in text
    assert len(DECISIONS) == 9


def test_on_a_real_broker_all_are_kept_and_nothing_is_left(broker: Broker, capsys):
    assert tour.main(["--url", broker.url, "--api", broker.api]) == 0

    text = capsys.readouterr().out
    assert told(text) == NINE
    assert "On RabbitMQ" in text
    left = asyncio.run(read(broker))
    assert (left.queues, left.exchanges, left.policies) == ((), (), ())


async def read(broker: Broker):
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        return await admin.read()


@pytest.mark.parametrize(
    ("planted", "broken"),
    [
        ("tour.order: {retry: {delays: [300ms, 900ms]}}", "retry"),
        ("tour.order: {consume: {prefetch: 3}}", "consumer"),
        ("tour.order: {dead_letter: {alert: {messages: 100}}}", "monitoring"),
        ("tour.flood: {limits: {depth: 50}}", "back pressure"),
        ("tour.count: {consumer-timeout: 1h}", "visibility"),
    ],
)
async def test_one_that_is_not_kept_is_named(tmp_path: Path, planted: str, broken: str, capsys):
    other = tmp_path / "planted.yaml"
    other.write_text(f"work_queues:\n  {planted}\n")

    assert await tour.play(load_topology(tour.TOPOLOGY, other)) == 1
    assert capsys.readouterr().out.endswith(f"\nBROKEN: {broken}\n")


def test_queues_of_its_names_are_left_alone(broker: Broker, capsys):
    async def make() -> None:
        async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
            await admin.create(Queue("tour.order", "quorum"))

    asyncio.run(make())
    assert tour.main(["--url", broker.url, "--api", broker.api]) == 1
    assert "queues of the tour's names are there already: tour.order" in capsys.readouterr().err
    assert [queue.name for queue in asyncio.run(read(broker)).queues] == ["tour.order"]
