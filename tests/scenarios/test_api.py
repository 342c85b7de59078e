"""The shop's HTTP API: what a caller is told when all is well, when queues are full, and when nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from amqpkit import connect, load_topology
from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.model import Policy, Topology
from amqpkit.operate.apply import apply
from amqpkit.testing.simulator import Simulator
from examples.shop.api import TOPOLOGY, api
from tests.containers.brokers import Broker

EMAIL = {"to": "ann@example.com", "template": "welcome", "language": "en"}
IMAGE = {"path": "a.png", "width": 100}
LEAD = {"lead": "l-1", "company": "c-1"}
CHARGE = {"invoice": "i-1", "card": "c-1", "cents": 500}


class Caller:
    """Somebody who calls the API of a simulated shop; virtual time passes while they wait."""

    def __init__(self, sim: Simulator) -> None:
        self._sim = sim
        self.app = api(sim.topology, partial(nullcontext, sim.transport), clock=sim.clock)
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self.app), base_url="http://shop.example")

    async def post(self, path: str, **request: Any) -> httpx2.Response:
        call = asyncio.ensure_future(self.client.post(path, **request))
        await self._sim.clock.until(call)
        return await call


@asynccontextmanager
async def shop(topology: Topology) -> AsyncIterator[tuple[Simulator, Caller]]:
    async with Simulator(topology) as sim:
        caller = Caller(sim)
        async with caller.app.router.lifespan_context(caller.app), caller.client:
            yield sim, caller


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    """The shop with small limits."""
    limits = tmp_path / "limits.yaml"
    limits.write_text("work_queues: {email.send: {limits: {depth: 3}, max-length: 10}}\n")
    return load_topology(TOPOLOGY, limits)


def full(queue: str) -> Policy:
    return Policy("full", f"^{queue}$", {"max-length": 0, "overflow": "reject-publish"}, priority=200)


def fill(sim: Simulator, queue: str) -> None:
    sim.broker.declare(full(queue))


async def test_a_job_is_taken_once_the_broker_has_it(topology: Topology) -> None:
    async with shop(topology) as (sim, caller):
        taken = await caller.post("/emails", json=EMAIL)
        charged = await caller.post("/charges", json=CHARGE)
        assert (taken.status_code, charged.status_code) == (202, 202)
        assert sim.ledger() == {"email.send": [taken.json()["id"]], "billing.charge": [charged.json()["id"]]}
        health = await caller.client.get("/health")
        assert health.json() == {"blocked": False, "pressure": pytest.approx(1 / 3, abs=0.001)}


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ({"json": {**EMAIL, "to": "nobody"}}, 422, "not valid"),
        ({"content": b"{"}, 422, "not valid"),
        ({"content": b""}, 422, "not valid"),
        ({"json": EMAIL, "headers": {"Idempotency-Key": "k" * 256}}, 422, "1 to 255 bytes"),
        ({"content": b"[" + b" " * 2**20 + b"]"}, 413, "over 1048576 bytes"),
    ],
)
async def test_a_bad_request_is_the_callers_fault(
    topology: Topology, request_: dict[str, Any], status: int, says: str
) -> None:
    async with shop(topology) as (sim, caller):
        answer = await caller.post("/emails", **request_)
        assert (answer.status_code, "Retry-After" in answer.headers) == (status, False)
        assert says in answer.json()["error"]
        assert "nobody" not in answer.text, "an error does not repeat what was sent"
        assert sim.ledger() == {}


async def test_above_the_limit_a_caller_is_told_when_to_come_back(topology: Topology) -> None:
    async with shop(topology) as (sim, caller):
        for _ in range(3):
            assert (await caller.post("/emails", json=EMAIL)).status_code == 202
        answer = await caller.post("/emails", json=EMAIL)
        assert (answer.status_code, answer.headers["Retry-After"], answer.json()["stored"]) == (503, "5", "no")
        assert 'queue "email.send" has 3 messages' in answer.json()["error"]
        assert (await caller.post("/charges", json=CHARGE)).status_code == 202, "another queue is not held"
        sim.broker.purge("email.send")
        await sim.advance(1)
        assert (await caller.post("/emails", json=EMAIL)).status_code == 202


async def test_a_full_queue_is_told_at_once(topology: Topology) -> None:
    async with shop(topology) as (sim, caller):
        fill(sim, "billing.charge")
        await caller.post("/charges", json=CHARGE)  # a quorum queue takes one more than its limit
        begun = sim.clock.now()
        answer = await caller.post("/charges", json=CHARGE)
        assert (answer.status_code, answer.headers["Retry-After"], answer.json()["stored"]) == (503, "5", "unknown")
        assert sim.clock.now() == begun
        fill(sim, "image.resize")
        await caller.post("/images", json=IMAGE)
        answer = await caller.post("/images", json=IMAGE)
        assert (answer.status_code, answer.json()["stored"]) == (503, "no"), "no exchange is in between: nobody has it"


async def test_of_an_event_that_one_full_queue_refused_the_other_has_a_copy_and_the_caller_is_not_told_no(
    topology: Topology,
) -> None:
    async with shop(topology) as (sim, caller):
        fill(sim, "lead.report")
        await caller.post("/leads", json=LEAD)  # a quorum queue takes one more than its limit
        answer = await caller.post("/leads", json=LEAD)
        assert (answer.status_code, answer.json()["stored"]) == (503, "unknown")
        known_by = answer.json()["id"]
        assert sim.ledger()["lead.enrich"][1:] == [known_by]
        sim.broker.purge("lead.report")
        sim.broker.delete(full("lead.report"))
        again = await caller.post("/leads", json=LEAD, headers={"Idempotency-Key": known_by})
        assert (again.status_code, again.json()) == (202, {"id": known_by})


async def test_in_an_alarm_a_caller_waits_two_seconds_and_nothing_is_stored(topology: Topology) -> None:
    async with shop(topology) as (sim, caller):
        sim.broker.block()
        begun = sim.clock.now()
        answer = await caller.post("/charges", json=CHARGE)
        assert (answer.status_code, answer.headers["Retry-After"], answer.json()["stored"]) == (503, "5", "no")
        assert "the broker blocks publishers" in answer.json()["error"]
        assert (sim.clock.now() - begun).total_seconds() == 2
        assert (await caller.client.get("/health")).json() == {"blocked": True, "pressure": 1.0}
        sim.broker.unblock()
        await sim.settle()
        assert sim.ledger() == {}


async def test_when_nobody_knows_the_caller_gets_the_id_to_come_back_with(topology: Topology) -> None:
    async with shop(topology) as (sim, caller):
        sim.broker.hold_confirms()
        answer = await caller.post("/emails", json=EMAIL)
        assert (answer.status_code, answer.json()["stored"]) == (503, "unknown")
        known_by = answer.json()["id"]
        sim.broker.release_confirms()
        again = await caller.post("/emails", json=EMAIL, headers={"Idempotency-Key": known_by})
        assert (again.status_code, again.json()) == (202, {"id": known_by})
        assert sim.ledger() == {"email.send": [known_by] * 2}, "one message to a worker with a store"


async def test_on_a_real_broker_the_callers_of_a_full_queue_are_turned_away_and_none_is_lost(
    broker: Broker, topology: Topology
) -> None:
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(topology, admin)
    app = api(topology, partial(connect, broker.url))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop.example") as client,
    ):
        answers = await asyncio.gather(*(client.post("/emails", json=EMAIL) for _ in range(200)))
        turned_away = [answer for answer in answers if answer.status_code == 503]
        taken = [answer.json()["id"] for answer in answers if answer.status_code == 202]
        assert len(taken) + len(turned_away) == 200
        assert turned_away
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in turned_away)
        assert len(set(taken)) == len(taken) == await app.state.transport.depth("email.send") >= 3
