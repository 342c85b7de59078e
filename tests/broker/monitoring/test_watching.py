"""A worker and its queues watched on real brokers: nothing is spent, health is the broker's word, status tells it."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from amqpkit.brokers.aio.delivery import AioDelivery
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.cli import main
from amqpkit.deliver import headers as h
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.model import Message, Properties
from amqpkit.operate.apply import apply
from amqpkit.operate.health import trouble_of
from amqpkit.operate.look import look
from amqpkit.operate.observe import NOT_BEFORE_4_3, Observer, Reading
from amqpkit.ports import Delivery
from tests.containers.brokers import Broker
from tests.worker.parts import Does, Task, topology

FILE = """
version: 1
work_queues:
  task:
    consume: {timeout: 30s}
    consumer-timeout: 5m
    retry: {delays: [1m]}
    dead_letter: {owner: team-a, alert: {messages: 2, age: 1h}}
"""


@asynccontextmanager
async def a_place(broker: Broker) -> AsyncIterator[tuple[AioTransport, ManagementAdmin, Observer]]:
    wanted = topology(FILE)
    transport = AioTransport(broker.url, name="test")
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(wanted, admin)
        await transport.open()
        try:
            yield transport, admin, Observer(wanted, transport, admin)
        finally:
            await transport.close()


async def until(observer: Observer, holds: Callable[[Reading], bool], within: float = 20.0) -> Reading:
    deadline = time.monotonic() + within
    while True:
        (reading,) = await observer.read()
        if holds(reading):
            return reading
        assert time.monotonic() < deadline, f"it never came true: {reading}"
        await asyncio.sleep(0.2)


def old(minutes: int, **headers: object) -> Message:
    then = h.format_instant(datetime.now(UTC) - timedelta(minutes=minutes))
    return Message(b"{}", Properties(message_id=f"m{minutes}", headers={"amqpkit-published-at": then, **headers}))


async def back(transport: AioTransport, queue: str, depth: int) -> None:
    """Wait for what was given back: it is on its way for a moment."""
    async with asyncio.timeout(10):
        while await transport.depth(queue) < depth:  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)


async def test_the_oldest_message_s_age_is_told_and_costs_it_no_delivery(broker: Broker) -> None:
    async with a_place(broker) as (transport, _, observer):
        for minutes in (50, 10, 5):
            await transport.publish("", "task", old(minutes))
        readings = []
        for _ in range(5):
            readings += await observer.read()
            await back(transport, "task", 3)
        came: asyncio.Queue[Delivery] = asyncio.Queue()
        held = await transport.consume("task", prefetch=3, deliver=came.put_nowait)
        async with asyncio.timeout(10):
            seen = [(await came.get()).properties for _ in range(3)]
        await held.close()

    assert [each.message_id for each in seen] == ["m50", "m10", "m5"]
    assert [each.headers.get("x-delivery-count", 0) for each in seen] == [0, 0, 0]
    assert {reading.depth for reading in readings} == {3}
    if broker.release >= (4, 3):
        assert all(3000 <= (reading.oldest or 0) < 3060 for reading in readings)
        assert seen[0].headers.get("x-acquired-count") == 1, "one look for five readings"
    else:
        assert {(reading.oldest, reading.why_not) for reading in readings} == {(None, NOT_BEFORE_4_3)}


async def test_dead_letters_are_read_by_fate_again_and_again_and_stay(broker: Broker) -> None:
    async with a_place(broker) as (transport, _, observer):
        for fate in ("permanent", "exhausted", "exhausted"):
            error = {"type": "E", "at": h.format_instant(datetime.now(UTC) - timedelta(minutes=5))}
            await transport.publish("task.dlx", "task", old(90, **{"amqpkit-fate": fate, "amqpkit-error": error}))
        # before 4.3 it is read once the broker has said that no delivery limit is in force
        reading = await until(observer, lambda now: now.letters == {"exhausted": 2, "permanent": 1})
        for _ in range(30):
            assert await look(transport, "task.dlq", most=3)
        await back(transport, "task.dlq", 3)

    assert reading.dead == 3
    assert 300 <= (reading.oldest_letter or 0) < 360


async def test_a_look_leaves_nothing_behind_for_a_rare_collector(broker: Broker) -> None:
    async with a_place(broker) as (transport, _, _):
        for minutes in range(5):
            await transport.publish("task.dlx", "task", old(minutes))
        gc.collect()
        gc.disable()
        try:
            assert len(await look(transport, "task.dlq", most=5)) == 5
            await asyncio.sleep(0)
            left = [each for each in gc.get_objects() if isinstance(each, AioDelivery)]
        finally:
            gc.enable()

    assert len(left) == 0, "each look would keep up to five hundred letters in a worker's memory"


async def test_health_follows_the_brokers_list_of_consumers(broker: Broker) -> None:
    async with a_place(broker) as (transport, admin, observer):
        worker = Worker(topology(FILE), [Does()], transport)
        running = asyncio.create_task(worker.run())
        trouble: list[str | None] = []

        async def healthy() -> bool:
            trouble.append(await trouble_of(worker.subscriptions, admin, ready=worker.ready))
            return trouble[-1] is None

        deadline = time.monotonic() + 30
        while not await healthy():
            assert time.monotonic() < deadline, trouble
            await asyncio.sleep(0.1)
        reading = await until(observer, lambda now: now.consumers == 1)
        worker.stop()
        await running

        assert trouble[0] == "not consuming task"
        assert not await healthy()
        assert trouble[-1] == "not consuming task"
        assert reading.consumer_timeout == 300.0


async def test_rates_and_failures_are_the_brokers_figures(broker: Broker) -> None:
    def does(task: Task, _context: object) -> None:
        if task.name == "fails":
            raise LookupError

    async with a_place(broker) as (transport, _, observer):
        worker = Worker(topology(FILE), [Does(does)], transport)
        running = asyncio.create_task(worker.run())
        publisher = Publisher(topology(FILE), transport)
        for number in range(20):
            await publisher.publish(Task(name="fails" if number % 4 == 0 else "fine"))
        reading = await until(observer, lambda now: bool(now.rate and now.failure_rate))
        worker.stop()
        await running

    assert reading.waiting == {"1m": 5}
    assert (reading.failure_rate or 0) == pytest.approx(0.25, abs=0.1)


def test_status_exits_2_when_an_alert_of_the_file_holds(broker: Broker, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMQPKIT_METRICS", raising=False)
    (tmp_path / "topology.yaml").write_text(FILE)
    at = ("--url", broker.url, "--api", broker.api)

    def status(*more: str) -> tuple[int, str]:
        capsys.readouterr()
        return main(["status", *at, *more]), capsys.readouterr().out

    assert main(["apply", "--yes", *at]) == 0
    code, text = status()
    assert (code, "warning  task: nobody consumes it (owner: team-a)" in text, "ALERT" in text) == (0, True, False)

    letters = threading.Thread(target=lambda: asyncio.run(_two_letters(broker)))
    letters.start()
    letters.join(30)
    code, text = status("--json")
    told = json.loads(text)
    assert (code, [alert["name"] for alert in told["alerts"]]) == (2, ["dead-letters"])
    assert told["queues"][0]["dead_letters"]["depth"] == 2
    assert status()[1].count("ALERT    task: 2 dead letters in task.dlq (alert from 2) (owner: team-a)") == 1


async def _two_letters(broker: Broker) -> None:
    transport = AioTransport(broker.url, name="test")
    await transport.open()
    for minutes in (1, 2):
        await transport.publish("task.dlx", "task", old(minutes, **{"amqpkit-fate": "permanent"}))
    await transport.close()
