"""What judging and applying a topology costs.

    python benchmarks/topology.py judge                         compile + lint + plan, no broker
    python benchmarks/topology.py apply AMQP_URL API_URL        beside a loop of aio-pika's and an import of definitions

`judge` takes the vhost from recorded listings (the management API's JSON) and the wanted topology as a file's data;
its figure is CPU time, the best of three, for a thousand queues and for ten thousand, each with two bindings. Reading
YAML or definitions is shown apart.

`apply` makes a thousand queues with a binding each in vhosts of its own, which it deletes; its figure is wall time,
the best of three interleaved rounds. The loop declares and binds one after another, as a program does at its start; it
neither plans nor reads back, which `apply` does. The user must be an administrator.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aio_pika
import httpx2

from amqpkit.brokers.aio.declarer import AioDeclarer
from amqpkit.brokers.management import ManagementAdmin, wire
from amqpkit.brokers.url import BrokerURL
from amqpkit.cli import rare_collections
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.export.definitions import definitions
from amqpkit.declare.importing.text import to_text
from amqpkit.declare.lint.catalogue import CHECKS
from amqpkit.declare.lint.subject import Subject
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.planning import make_plan
from amqpkit.declare.spec.checks import check
from amqpkit.declare.spec.format import Spec
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Topology
from amqpkit.operate.apply import apply

QUEUES: Final = 1_000
ROUNDS: Final = 3
ARGUMENTS: Final = {"x-dead-letter-exchange": "events.dead", "x-overflow": "reject-publish"}
Contender = Callable[[Topology, str], Coroutine[Any, Any, None]]


def file(count: int, *, bindings: int, kind: str = "quorum") -> dict[str, Any]:
    """Write a topology file's data: queues of many teams on one topic exchange, a policy for every tenth."""
    names = [f"team.{number % 50}.job.{number}" for number in range(count)]
    keys = ["created", "changed.#", "gone"][:bindings]
    return {
        "version": 1,
        "owns": ["team", "events"],
        "exchanges": {"events": {"type": "topic"}, "events.dead": {"type": "fanout"}},
        "queues": {
            name: {
                "type": kind,
                "arguments": ARGUMENTS,
                "bindings": [{"source": "events", "routing_key": f"{name}.{key}"} for key in keys],
            }
            for name in names
        }
        | {"events.lost": {"type": kind, "bindings": [{"source": "events.dead"}]}},
        "policies": {
            f"{name}.limit": {"pattern": f"^{name}$".replace(".", r"\."), "definition": {"max-length": 1000}}
            for name in names[::10]
        },
    }


def recorded(topology: Topology) -> str:
    """Write the listings that the management API would answer, the broker's additions too."""
    listed = definitions(topology, "bench")
    extra = {"exclusive": False, "internal": False, "node": "rabbit@bench", "state": "running", "policy": None}
    listings = {kind: [{**item, **extra} for item in listed[kind]] for kind in ("exchanges", "queues", "policies")}
    for queue in listings["queues"]:
        queue["type"] = queue["arguments"]["x-queue-type"]
    return json.dumps({**listings, "bindings": listed["bindings"]}, default=dict)


def read(text: str) -> Topology:
    """Read recorded listings."""
    listings = json.loads(text)
    return Topology(
        exchanges=tuple(map(wire.exchange, listings["exchanges"])),
        queues=tuple(map(wire.queue, listings["queues"])),
        bindings=tuple(map(wire.binding, listings["bindings"])),
        policies=tuple(map(wire.policy, listings["policies"])),
    )


def judge(count: int) -> dict[str, float]:
    """Time every step of judging; a tenth of the queues is missing on the broker."""
    data = file(count, bindings=2)
    listings = recorded(compile_topology(Spec.model_validate(file(count - count // 10, bindings=2))))
    spent: dict[str, float] = {}

    def timed(step: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = work()
        spent[step] = time.process_time() - began
        return result

    actual = timed("listings", lambda: read(listings))
    spec = timed("check", lambda: _checked(data))
    topology = timed("compile", lambda: compile_topology(spec))
    findings = timed("lint", lambda: [found for rule in CHECKS for found in rule(Subject(spec, topology))])
    plan = timed("plan", lambda: make_plan(topology, Actual(actual)))
    missing = count // 10
    if len(plan.changes) != 3 * missing + missing // 10 or not findings:
        raise SystemExit(f"the plan is not what it should be: {len(plan.changes)} changes")
    return spent


def _checked(data: dict[str, Any]) -> Spec:
    spec = Spec.model_validate(data)
    if faults := list(check(spec)):
        raise SystemExit(str(faults[0]))
    return spec


def print_judgement() -> None:
    """Print the table."""
    with rare_collections():  # as the commands do
        judge(200)  # imports, caches
        small, large = (_best([judge(count) for _ in range(ROUNDS)]) for count in (1_000, 10_000))
    print(f"{'CPU seconds':<12}{'1,000':>9}{'10,000':>9}{'ratio':>8}")
    for step in large:
        print(f"{step:<12}{small[step]:>9.3f}{large[step]:>9.3f}{large[step] / max(small[step], 1e-4):>8.1f}")
    data = file(1_000, bindings=2)
    listed = definitions(compile_topology(Spec.model_validate(data)), "bench")
    for kind, text in (("YAML", to_text(data)), ("definitions", json.dumps(listed, default=dict))):
        began = time.process_time()
        parse([("topology", text)], {})
        spent = time.process_time() - began
        print(f"(reading the same from {kind}: {spent:.2f} for 1,000 queues, {len(text):,} characters)")


def _best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Give the quickest round, and its sum: what else runs on the machine only ever adds."""
    best = min(rounds, key=lambda spent: sum(spent.values()))
    return {**best, "total": sum(best.values())}


async def ours(topology: Topology, vhost: str, *, url: str, api: str) -> None:
    """Plan, create what is missing, read back."""
    place = BrokerURL.parse(url).at_vhost(vhost)
    async with (
        ManagementAdmin(api, vhost=vhost) as admin,
        await AioDeclarer.open(admin, place, "benchmark") as declarer,
    ):
        report = await apply(topology, declarer)
    if len(report.created) != len(topology.queues) + len(topology.bindings) + len(topology.exchanges):
        raise SystemExit(f"not everything was made: {len(report.created)}")


async def loop(topology: Topology, vhost: str, *, url: str) -> None:
    """Declare and bind one after another, as aio-pika's documentation does."""
    connection = await aio_pika.connect(BrokerURL.parse(url).at_vhost(vhost).text)
    async with connection:
        channel = await connection.channel()
        exchanges = {
            each.name: await channel.declare_exchange(each.name, each.type, durable=True) for each in topology.exchanges
        }
        keys = {(each.destination): each for each in topology.bindings}
        for each in topology.queues:
            queue = await channel.declare_queue(each.name, durable=True, arguments=dict(each.arguments))
            binding = keys[each.name]
            await queue.bind(exchanges[binding.source], binding.routing_key)


async def imported(topology: Topology, vhost: str, *, api: str) -> None:
    """Import the same as definitions: it compares nothing and reads nothing back."""
    async with httpx2.AsyncClient(timeout=300) as client:
        document = json.loads(json.dumps(definitions(topology), default=dict))
        answer = await client.post(f"{api}/api/definitions/{quote(vhost, safe='')}", json=document)
        answer.raise_for_status()


async def print_applying(url: str, api: str) -> None:
    """Print the table."""
    contenders: dict[str, Contender] = {
        "amqpkit apply": partial(ours, url=url, api=api),
        "aio-pika loop": partial(loop, url=url),
        "definitions": partial(imported, api=api),
    }
    for kind in ("classic", "quorum"):
        data = file(QUEUES, bindings=1, kind=kind)
        del data["policies"]
        topology = compile_topology(Spec.model_validate(data))
        best = dict.fromkeys(contenders, float("inf"))
        for number in range(ROUNDS):
            for name, contend in contenders.items():
                best[name] = min(best[name], await _timed(contend, topology, api, f"bench-{kind}-{number}"))
        slow = best["aio-pika loop"]
        for name, seconds in best.items():
            print(f"{kind:<9}{name:<15}{seconds:>7.2f} s{seconds / slow:>7.2f} of the loop")


async def _timed(contend: Contender, topology: Topology, api: str, vhost: str) -> float:
    async with httpx2.AsyncClient(timeout=300) as client:
        place = f"{api}/api/vhosts/{vhost}"
        (await client.put(place, json={})).raise_for_status()
        try:
            began = time.perf_counter()
            await contend(topology, vhost)
            return time.perf_counter() - began
        finally:
            (await client.delete(place)).raise_for_status()


def main(arguments: list[str]) -> None:
    """Run what is asked for."""
    match arguments:
        case ["judge"]:
            print_judgement()
        case ["apply", url, api]:
            asyncio.run(print_applying(url, api.rstrip("/")))
        case _:
            raise SystemExit(f"usage: {Path(sys.argv[0]).name} judge | apply AMQP_URL API_URL")


if __name__ == "__main__":
    main(sys.argv[1:])
