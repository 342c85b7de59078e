"""Alert rules from the topology file: promtool takes them, and the right ones fire when something fails."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amqpkit import Context, Publisher
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.cli import main
from amqpkit.model import Message, Properties, Topology
from amqpkit.operate.metrics.collector import BrokerCollector
from amqpkit.operate.metrics.listener import Metrics
from amqpkit.operate.observe import Observer
from amqpkit.testing.simulator import Simulator
from tests.servers import packages
from tests.worker.parts import Does, Task, topology

FILE = """
version: 1
work_queues:
  task:
    consume: {prefetch: 4, timeout: 30s}
    limits: {depth: 20}
    retry: {delays: [10s]}
    dead_letter: {owner: team-a, runbook: "https://runbooks.example.com/task", alert: {messages: 3, age: 1m}}
"""
NAMES = {
    "AmqpkitDeadLetters",
    "AmqpkitDeadLetterAge",
    "AmqpkitDepth",
    "AmqpkitBrokerUnreachable",
    "AmqpkitNoConsumer",
    "AmqpkitOldestMessage",
    "AmqpkitFailureRate",
    "AmqpkitHandlingNearTimeout",
}
STEP, FAILS_AT, ENDS_AT = 15, 300, 900
"""Seconds: of a scrape, from when on something fails, of the whole."""


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus's checker, out of Debian's package."""
    try:
        return packages.program("promtool", "prometheus", print)
    except packages.NoServerError as error:
        pytest.fail(f"no promtool to check rules with (Debian's package prometheus): {error}", pytrace=False)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The exported rules of FILE."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.yaml").write_text(FILE)
    assert main(["export", "prometheus", "--oldest", "2m", "--failure-rate", "50%", "--patience", "1m"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "rules.yaml").write_text(text)
    return text


@pytest.mark.server
def test_promtool_takes_the_rules_of_every_example(promtool, tmp_path, capsys) -> None:
    for number, file in enumerate(
        ["topology/shop.yaml", "topology/examples/full.yaml", "topology/examples/minimal.yaml"]
    ):
        assert main(["export", "prometheus", file]) == 0
        (tmp_path / f"{number}.yaml").write_text(capsys.readouterr().out)
        check(promtool, "check", "rules", str(tmp_path / f"{number}.yaml"))


@pytest.mark.server
def test_a_queue_with_a_spiteful_name_is_still_only_a_name(promtool, tmp_path, capsys) -> None:
    (tmp_path / "t.yaml").write_text("""
version: 1
work_queues:
  'a"b\\{{ $labels }}': {dead_letter: {owner: 'yes', alert: {messages: 1}}}
""")
    assert main(["export", "prometheus", str(tmp_path / "t.yaml")]) == 0
    (tmp_path / "r.yaml").write_text(capsys.readouterr().out)
    check(promtool, "check", "rules", str(tmp_path / "r.yaml"))


async def fails(sim: Simulator, _task: Task) -> None:
    raise LookupError


def no_brakes() -> Topology:
    """What somebody else's producer knows: no limits.depth."""
    known = topology(FILE)
    works = {name: replace(work, depth_limit=None) for name, work in known.work_queues.items()}
    return replace(known, work_queues=works)


async def is_slow(sim: Simulator, _task: Task) -> None:
    await sim.clock.sleep(27)


async def stops(sim: Simulator) -> None:
    await sim.stop_worker()


async def hides(sim: Simulator) -> None:
    """Nobody can ask the broker, which goes on working."""


@pytest.mark.server
@pytest.mark.parametrize(
    ("handling", "deed", "scraped", "expected"),
    [
        (None, None, True, set()),
        (fails, None, True, {"AmqpkitFailureRate", "AmqpkitDeadLetters", "AmqpkitDeadLetterAge"}),
        (is_slow, None, True, {"AmqpkitHandlingNearTimeout", "AmqpkitOldestMessage", "AmqpkitDepth"}),
        (None, stops, True, {"AmqpkitNoConsumer", "AmqpkitOldestMessage", "AmqpkitDepth"}),
        (None, hides, True, {"AmqpkitBrokerUnreachable"}),
        (None, None, False, {"AmqpkitNoConsumer"}),
    ],
    ids=[
        "all is well",
        "handlers fail",
        "handlers are slow",
        "nobody consumes",
        "the broker cannot be asked",
        "the worker is gone",
    ],
)
async def test_what_fails_fires_its_alerts_and_no_others(
    promtool: Path,
    rules: str,
    tmp_path: Path,
    handling: Callable[[Simulator, Task], Awaitable[None]] | None,
    deed: Callable[[Simulator], Awaitable[None]] | None,
    scraped: bool,
    expected: set[str],
) -> None:
    series = await lived(handling, deed, scraped=scraped)
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{STEP}s",
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [firing(FAILS_AT, set()), firing(ENDS_AT - STEP, expected)],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(test))  # JSON is YAML

    check(promtool, "test", "rules", str(tmp_path / "test.yaml"))


def firing(at: int, names: set[str]) -> dict[str, Any]:
    return {
        "expr": 'count by (alertname, owner, queue) (ALERTS{alertstate="firing"})',
        "eval_time": f"{at}s",
        "exp_samples": [
            {"labels": f'{{alertname="{name}",owner="team-a",queue="task"}}', "value": 1} for name in sorted(names)
        ],
    }


async def lived(handling: Any, deed: Any, *, scraped: bool) -> dict[str, str]:
    """Let a quarter of an hour pass in memory, and write down what the worker's /metrics would have shown."""
    broken = False

    async def does(task: Task, _context: Context) -> None:
        if broken and handling is not None:
            await handling(sim, task)

    samples: dict[str, dict[int, float]] = defaultdict(dict)
    async with Simulator(topology(FILE), [Does(does)]) as sim:
        watch = await watched(sim, topology(FILE))
        publisher = Publisher(no_brakes(), sim.transport, clock=sim.clock)
        for at in range(0, ENDS_AT, STEP):
            if at == FAILS_AT:
                broken = True
                if deed is not None:
                    await deed(sim)
            for _ in range(3):
                await publisher.publish(Task())
                await sim.settle()
                await sim.advance(STEP / 3)
            if scraped or not broken:
                for name, value in (await watch(blind=broken and deed is hides)).items():
                    samples[name][at] = value
    return {
        name: " ".join(str(values.get(at, "_")) for at in range(0, ENDS_AT, STEP)) for name, values in samples.items()
    }


def labels(given: dict[str, str]) -> str:
    return ",".join(f"{name}={json.dumps(text)}" for name, text in given.items())


async def watched(sim: Simulator, declared: Topology) -> Callable[..., Awaitable[dict[str, float]]]:
    metrics, collector, transport = Metrics(declared, [Does()]), BrokerCollector(), MemoryTransport(sim.broker)
    metrics.registry.register(collector)
    await transport.open()
    observer = Observer(declared, transport, MemoryAdmin(sim.broker), clock=sim.clock)

    async def scrape(*, blind: bool = False) -> dict[str, float]:
        for event in sim.events:
            metrics(event)
        sim.events.clear()
        if blind:
            collector.fail()
        else:
            collector.show(await observer.read())
        samples = [sample for family in metrics.registry.collect() for sample in family.samples]
        return {f"{sample.name}{{{labels(sample.labels)}}}": sample.value for sample in samples}

    return scrape


async def test_the_rules_name_only_metrics_and_labels_that_a_worker_really_exposes(rules: str) -> None:
    async with Simulator(topology(FILE), [Does()]) as sim:
        watch = await watched(sim, topology(FILE))
        await sim.publish(Task())
        await sim.stop_worker()
        await sim.publish(Task())
        letter = Message(b"{}", Properties(timestamp=sim.clock.now()))
        await sim.publish_raw(letter, exchange="task.dlx")
        exposed = await watch()

    shown = {name.partition("{")[0] for name in exposed}
    named = set(re.findall(r"\bamqpkit_\w+", rules))
    assert named <= shown
    assert len(named) == 8
    assert {label for name in exposed for label in re.findall(r"(\w+)=", name)} >= {"queue", "outcome", "le"}


def test_every_alert_is_there_with_owner_and_runbook(rules: str) -> None:
    assert set(re.findall(r"alert: (\w+)", rules)) == NAMES
    assert rules.count("owner: team-a") == rules.count("runbook_url: https://runbooks.example.com/task") == len(NAMES)


@pytest.mark.parametrize("option", [("--oldest", "10"), ("--failure-rate", "lots"), ("--patience", "x")])
def test_a_threshold_that_is_none_is_a_usage_error(option, tmp_path, capsys) -> None:
    assert main(["export", "prometheus", "topology/shop.yaml", *option]) == 64
    assert "write" in capsys.readouterr().err


def check(promtool: Path, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
