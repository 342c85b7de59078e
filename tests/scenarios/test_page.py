"""The shop's page over HTTP: answers at once, only your own jobs, turned away under pressure; on real brokers too."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from amqpkit import load_topology
from amqpkit.jobs import ErrorKind, JobState
from amqpkit.stores import MemoryJobLog
from amqpkit.testing.simulator import Simulator
from examples.shop.api import TOPOLOGY
from examples.shop.catalogue import UPLOADS, open_catalogue, rows_of
from examples.shop.page import HTML, policy, site
from tests.broker.life.rig import until
from tests.containers.brokers import Broker
from tests.scenarios.shop import products, topology
from tests.scenarios.web import Site, in_memory, on_broker

CSV = {"Content-Type": "text/csv"}


def caller(it: Site) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=it.url, timeout=10)


async def bring(client: httpx2.AsyncClient, text: str | bytes, **headers: str) -> httpx2.Response:
    return await client.post("/imports?name=products.csv", content=text, headers={**CSV, **headers})


async def ended(client: httpx2.AsyncClient, where: str) -> dict[str, Any]:
    """Ask until a job has ended, no sooner than the answers say."""
    async with asyncio.timeout(30):
        while True:
            answer = await client.get(where)
            if (wait := answer.headers.get("Retry-After")) is None:
                return dict(answer.json())
            await asyncio.sleep(float(wait) / 5)


async def test_on_a_real_broker_an_import_is_taken_at_once_and_told_of_until_its_end(tmp_path: Path, broker: Broker):
    async with on_broker(tmp_path, topology(), broker) as it, caller(it) as client:
        taken = await bring(client, products(300))
        where = taken.headers["Location"]
        assert (taken.status_code, where) == (202, f"/jobs/{taken.json()['id']}")
        async with it.working():
            it.pictures.let(1)
            async with client.stream("GET", f"{where}/events") as events:
                async for line in events.aiter_lines():
                    if "100 of 300 rows" in line:
                        it.pictures.let(2)
                    if '"succeeded"' in line:
                        break
            job = await ended(client, where)
            assert (job["state"], job["progress"]["text"]) == ("succeeded", "300 of 300 rows")
            assert rows_of(it.catalogue, job["id"]) == list(range(2, 302))

            bad = await bring(client, products(5, bad={4: "A-4,Cup,free"}))
            job = await ended(client, bad.headers["Location"])
            assert job["error"] == {"kind": "bad-input", "sentence": 'Row 4: the price "free" is not a number.'}


async def test_a_job_is_its_owners_only(tmp_path: Path):
    async with in_memory(tmp_path, topology()) as it, it.working(), caller(it) as ann, caller(it) as bob:
        await bob.get("/")
        where = (await bring(ann, products(300))).headers["Location"]

        async def known() -> bool:
            return (await ann.get(where)).status_code == 200

        await until(known, "the job is known")
        assert (await bob.get(where)).status_code == 404
        assert (await bob.post(f"{where}/cancel")).status_code == 404
        assert (await bob.get(f"{where}/events")).status_code == 404
        async with caller(it) as nobody:
            assert (await nobody.get(where)).status_code == 404
        assert (await ann.get(where)).json()["cancel_requested_at"] is None
        assert (await ann.post(f"{where}/cancel")).status_code == 202
        it.pictures.let(1)  # the other two chunks would wait for ever


async def test_a_cookie_that_is_not_ours_is_not_taken_up(tmp_path: Path):
    async with in_memory(tmp_path, topology()) as it, caller(it) as client:
        answer = await client.get("/", headers={"Cookie": "shop-session=me"})
        name = re.search(r"shop-session=([\w-]{43}); HttpOnly; Max-Age=\d+; Path=/; SameSite=lax", str(answer.headers))
        assert name is not None
        again = await client.get("/")
        assert f"shop-session={name[1]};" in again.headers["Set-Cookie"]


@pytest.mark.parametrize(
    ("content", "headers", "status", "says"),
    [
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "text/csv"),
        (b"\xff\xfe", {}, 422, "UTF-8"),
        (b"sku\0", {}, 422, "UTF-8"),
        (b"x" * (2**20 + 1), {}, 413, "1024 KiB"),
    ],
)
async def test_what_is_no_file_is_not_kept(
    tmp_path: Path, content: bytes, headers: dict[str, str], status: int, says: str
):
    async with in_memory(tmp_path, topology()) as it, caller(it) as client:
        answer = await bring(client, content, **headers)
        assert (answer.status_code, says in answer.json()["error"]) == (status, True)
        with it.catalogue.connect() as page:
            assert page.execute(UPLOADS.select()).all() == []


async def test_under_pressure_a_caller_is_turned_away_and_nothing_is_kept(tmp_path: Path):
    limits = tmp_path / "limits.yaml"
    limits.write_text("work_queues: {catalogue.import: {limits: {depth: 1}, max-length: 10}}\n")
    catalogue = open_catalogue(f"sqlite:///{tmp_path}/shop.db")
    async with Simulator(load_topology(TOPOLOGY, limits)) as sim:
        app = site(sim.topology, partial(nullcontext, sim.transport), catalogue, MemoryJobLog())
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://shop.example") as client,
        ):
            first, second = await bring(client, products(5)), await bring(client, products(5))
            assert (first.status_code, second.status_code, second.headers["Retry-After"]) == (202, 503, "5")
            assert sim.ledger() == {"catalogue.import": [first.json()["id"]]}
            with catalogue.connect() as page:
                assert [row.id for row in page.execute(UPLOADS.select())] == [first.json()["id"]]
    catalogue.dispose()


async def test_the_page_runs_only_what_stands_in_it(tmp_path: Path):
    async with in_memory(tmp_path, topology()) as it, caller(it) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.text) == (200, HTML)
        assert answer.headers["Content-Security-Policy"] == policy(HTML)
        assert "unsafe" not in policy(HTML)
        assert (await client.get("/health")).status_code == 200, "the API is there too"


@pytest.mark.parametrize(("name", "known"), [("WORDS", JobState), ("HINTS", ErrorKind)])
def test_every_state_and_every_kind_of_failure_has_its_words(name: str, known: type[StrEnum]):
    said = re.search(rf"const {name} = {{(.*?)}};", HTML, re.DOTALL)
    assert said is not None
    assert set(re.findall(r'^  "?([\w-]+)"?:', said[1], re.MULTILINE)) == set(known)
