"""`/metrics` and `/healthz` of a worker, asked as Prometheus and an orchestrator ask."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.errors import ConnectionFailed
from amqpkit.operate.metrics import monitor, server
from amqpkit.operate.metrics.collector import NewsCollector
from amqpkit.operate.metrics.listener import Metrics
from amqpkit.operate.metrics.scrape import handling_times, quantile
from amqpkit.operate.observe import Observer
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, Task, topology

OK = "HTTP/1.0 200 OK\r\n\r\n"


class Away(MemoryAdmin):
    """Statistics that can be away, hang, or forget a consumer."""

    away = forgets = hangs = False

    async def consumers(self):
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise ConnectionFailed("nobody answers there")
        return [] if self.forgets else await super().consumers()


@asynccontextmanager
async def a_watched_worker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Simulator, Away, str, Metrics]]:
    monkeypatch.setattr(server, "FRESH", 0.0)
    async with Simulator(topology(), [Does()]) as sim:
        transport = MemoryTransport(sim.broker)
        await transport.open()
        statistics, metrics = Away(sim.broker), Metrics(topology(), [Does()])
        observer = Observer(topology(), transport, statistics, clock=sim.clock)
        assert sim.worker
        async with monitor.watched(sim.worker, metrics, observer, statistics, host="127.0.0.1", port=0) as port:
            yield sim, statistics, f"http://127.0.0.1:{port}", metrics


async def ask(url: str) -> tuple[int, str]:
    def get() -> tuple[int, str]:
        try:
            with urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


async def test_a_scrape_shows_the_worker_s_events_and_what_is_in_its_queues(monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (sim, _, url, metrics):
        await sim.publish(Task())
        await sim.publish_raw(_nonsense(), routing_key="task")
        for event in sim.events:
            metrics(event)
        code, text = await ask(f"{url}/metrics")

        assert code == 200
        for line in (
            'amqpkit_deliveries_total{outcome="handled",queue="task",type="task"} 1.0',
            "amqpkit_broker_up 1.0",
            'amqpkit_queue_depth{queue="task"} 0.0',
            'amqpkit_consumers{queue="task"} 1.0',
            'amqpkit_dead_letters{fate="invalid",queue="task"} 1.0',
            'amqpkit_waiting_retries{delay="10s",queue="task"} 0.0',
        ):
            assert line in text
        times, silent = await handling_times([url])
        assert silent == ()
        assert quantile(times["task"], 0.95) is not None


async def test_what_became_of_the_news_of_jobs_is_counted(monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (sim, _, url, _):
        assert sim.worker
        listener = sim.worker.job_news
        assert listener
        listener.late, listener.dropped = 3, 2
        _, text = await ask(f"{url}/metrics")

    for line in (
        "# TYPE amqpkit_job_news_late_total counter",
        "amqpkit_job_news_late_total 3.0",
        "amqpkit_job_news_dropped_total 2.0",
        "# TYPE amqpkit_job_news_waiting gauge",
        "amqpkit_job_news_waiting 0.0",
    ):
        assert line in text


async def test_a_worker_without_a_job_log_counts_no_news_of_jobs() -> None:
    registry = CollectorRegistry()
    registry.register(NewsCollector(None))

    assert generate_latest(registry) == b""


async def test_a_management_api_that_is_away_or_hangs_takes_no_depth_along(monkeypatch) -> None:
    monkeypatch.setattr(monitor, "BROKER_TIMEOUT", 0.3)
    async with a_watched_worker(monkeypatch) as (sim, statistics, url, _):
        await sim.publish_raw(_nonsense(), routing_key="task")
        for trouble in ("away", "hangs"):
            statistics.away, statistics.hangs = trouble == "away", trouble == "hangs"
            _, text = await ask(f"{url}/metrics")

            assert "amqpkit_broker_up 0.0" in text
            assert 'amqpkit_queue_depth{queue="task"} 0.0' in text
            assert 'amqpkit_dead_letter_depth{queue="task"} 1.0' in text
            assert 'amqpkit_waiting_retries{delay="10s",queue="task"} 0.0' in text
            assert "amqpkit_consumers{" not in text
            assert "amqpkit_dead_letters{" not in text


async def test_a_broker_that_is_away_shows_as_down_and_no_old_numbers(monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (_, _, url, _):
        assert "amqpkit_queue_depth{" in (await ask(f"{url}/metrics"))[1]

        async def gone(_transport: MemoryTransport, _queue: str) -> int:
            raise ConnectionFailed("nobody answers there")

        monkeypatch.setattr(MemoryTransport, "depth", gone)
        _, text = await ask(f"{url}/metrics")

        assert "amqpkit_broker_up 0.0" in text
        assert "amqpkit_queue_depth{" not in text


async def test_health_is_what_the_broker_says(monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (sim, statistics, url, _):
        assert await ask(f"{url}/healthz") == (200, "ok\n")

        statistics.forgets = True
        code, text = await ask(f"{url}/healthz")
        assert (code, "the broker does not list our consumer of task" in text) == (503, True)

        statistics.forgets, statistics.away = False, True
        assert await ask(f"{url}/healthz") == (
            503,
            "whether the broker lists our consumers is not known: nobody answers there\n",
        )

        statistics.away = False
        assert sim.worker
        subscription = sim.worker.subscriptions["task"]
        assert subscription
        await subscription.pause()
        assert await ask(f"{url}/healthz") == (503, "not consuming task\n")


async def test_a_loop_that_is_stuck_is_told_and_metrics_still_come(monkeypatch) -> None:
    monkeypatch.setattr(server, "LOOP_TIMEOUT", 0.1)
    async with a_watched_worker(monkeypatch) as (_, _, url, _):
        asked = [asyncio.create_task(ask(f"{url}/{path}")) for path in ("healthz", "metrics")]
        await asyncio.sleep(0)
        time.sleep(1)  # noqa: ASYNC251 - a handler that blocks
        (health, text), (code, _) = await asyncio.gather(*asked)

        assert (health, text) == (503, "the worker's event loop has not answered for 0.1 s\n")
        assert code == 200


async def test_many_askers_of_a_stuck_loop_wait_no_longer_than_one(monkeypatch) -> None:
    monkeypatch.setattr(server, "LOOP_TIMEOUT", 0.2)

    async def never() -> None:
        raise AssertionError

    asked = server.Asked(never, asyncio.get_running_loop())

    def told() -> float:
        with pytest.raises(TimeoutError, match="has not answered"):
            asked()
        return time.monotonic()

    with ThreadPoolExecutor(20) as threads:
        began, waiting = time.monotonic(), [threads.submit(told) for _ in range(20)]
        ends = [each.result() for each in waiting]  # the loop is stuck meanwhile: this waits in its thread
    assert max(ends) - began < 1


async def test_other_paths_are_not_there(monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (_, _, url, _):
        assert (await ask(f"{url}/favicon.ico"))[0] == 404


async def test_a_port_that_is_taken_is_an_error(monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        serving = server.serving(lambda *_: [], host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            serving.__enter__()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1"])
async def test_a_worker_that_cannot_be_asked_is_named_and_hides_no_other(url, monkeypatch) -> None:
    async with a_watched_worker(monkeypatch) as (_, _, there, _):
        times, silent = await handling_times([url, there])
    assert "task" in times
    (told,) = silent
    assert told.startswith("no worker's metrics at http://127.0.0.1:1/metrics: ")
    assert "refused" in told


@pytest.mark.parametrize(
    "answer",
    [f"{OK}amqpkit_handling_seconds_bucket{{".encode(), b"SSH-2.0-OpenSSH\r\n", f"{OK}hello\n".encode(), b""],
    ids=["broken", "no HTTP", "another program", "nothing"],
)
async def test_what_is_no_worker_is_named(answer: bytes) -> None:
    def serve(port: socket.socket) -> None:
        connection, _ = port.accept()
        with connection:
            connection.recv(4096)
            whole = (
                answer if answer.startswith((b"SSH", b"HTTP")) or not answer else b"HTTP/1.0 200 OK\r\n\r\n" + answer
            )
            connection.sendall(whole)

    with socket.create_server(("127.0.0.1", 0)) as port, ThreadPoolExecutor(1) as thread:
        serving = thread.submit(serve, port)
        times, (told,) = await handling_times([f"127.0.0.1:{port.getsockname()[1]}"])
        serving.result()
    assert times == {}
    assert "metrics at" in told or "is no worker" in told


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://["])
async def test_what_is_no_address_is_an_error(url) -> None:
    with pytest.raises(ConnectionFailed, match="is no address"):
        await handling_times([url])


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ({}, None),
        ({1.0: 0.0, float("inf"): 0.0}, None),
        ({1.0: 95.0, 2.0: 100.0, float("inf"): 100.0}, 1.0),
        ({1.0: 90.0, 2.0: 100.0, float("inf"): 100.0}, 1.5),
        ({1.0: 90.0, 2.0: 90.0, float("inf"): 100.0}, 2.0),
        ({1.0: 100.0, float("inf"): 100.0}, 0.95),
    ],
)
def test_a_quantile_is_estimated_as_prometheus_does(buckets, expected) -> None:
    assert quantile(buckets, 0.95) == pytest.approx(expected)


def _nonsense():
    from amqpkit.model import Message, Properties

    return Message(b"{", Properties(type="task"))
