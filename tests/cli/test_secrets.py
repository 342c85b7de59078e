"""A password, given in every way that there is, is in nothing that is printed, logged, written or raised."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from amqpkit import connect, connect_blocking
from amqpkit.brokers.management.admin import ManagementAdmin
from amqpkit.cli import main
from amqpkit.cli.connect import AdminOptions
from amqpkit.errors import AccessRefused
from tests.cli.service import SECRET, Service, set_all


@pytest.mark.parametrize("way", ["file", "environment"])
def test_a_worker_logs_in_and_nothing_of_it_is_the_password(service: Service, way: str) -> None:
    options, environment = service.way(way)
    with pytest.MonkeyPatch.context() as patched:
        set_all(patched, environment)
        assert main(["apply", "--yes", *options]) == 0
        assert main(["publish", "letter.send", '{"to": "nobody"}', *options]) == 0
    said = worked(service, options, environment, until='outcome": "dead"', more=["--log-format", "json"])

    assert "LookupError" in said
    assert not any(each in said for each in service.spellings)


def worked(service: Service, options: list[str], environment: dict[str, str], *, until: str, more: list[str]) -> str:
    """What a worker has said, from its start until a word and its drain."""
    log = service.folder / "log"
    everything = os.environ | environment | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "amqpkit.cli", "run", "post", "--verbose", *more, *options]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, cwd=service.folder, env=everything, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while until not in log.read_text() and worker.poll() is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
    return log.read_text()


async def test_nothing_that_is_said_shown_or_written_holds_the_password(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, api = [], os.environ["AMQP_API_URL"]
    for way in ("file", "environment", "mounted", "url"):
        options, environment = service.way(way)
        with pytest.MonkeyPatch.context() as patched:
            set_all(patched, environment)
            told += await asyncio.to_thread(commanded, service, options, capsys)
            admin = AdminOptions(
                url=environment.get("AMQP_URL") or options[1], user=service.user, password=SECRET, api=api
            )
            place = admin.place()
            told += [*shown(admin), *shown(place), *shown(place.url), *await refused(place.url)]
            told += await programmed(place, caplog, patched)
        told.append(
            await asyncio.to_thread(
                worked, service, options, environment, until="consuming letter.send", more=["--grace", "1"]
            )
        )
    told += caplog.text.splitlines()

    for library in ("aio_pika.", "aiormq.", "pika.", "httpx2:", "httpcore2."):
        assert f" {library}" in caplog.text, "it was made to log all it does"
    leaks = [text for text in told if any(each in text for each in service.spellings)]
    assert leaks == []
    assert any(service.user in text for text in told), "what is looked through is what was said"


def commanded(service: Service, options: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What commands print and write, whether they succeed, are told two things, or are given a broken URL."""
    saved = service.folder / "plan.json"
    saved.unlink(missing_ok=True)
    broken = ["--url", f"amqp://{service.user}:{SECRET}@{service.place}"]
    codes = [
        main(["plan", "--out", str(saved), *options]),
        main(["plan", "--json", *options]),
        main(["apply", "--yes", *options]),
        main(["publish", "letter.send", '{"to": "ann"}', *options]),
        main(["status", "--json", *options]),
        main(["export", "definitions", "--live", *options]),
        main(["import", *options]),
        main(["dlq", "list", "--json", *options]),
        main(["plan", *broken]),
        main(["plan", *options[:2], "--user", "somebody.else"]),
        main(["plan", *options, "--password", SECRET]),
        main(["plan", *options, f"--password={SECRET}"]),
    ]
    assert codes == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 64, 64]
    return [*capsys.readouterr(), saved.read_text()]


async def programmed(place: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reprs of what a program holds, while every library logs all that it does."""
    # a command run by another test has left its own handler, whose stream is closed
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])
    for name in ("", "aio_pika", "aiormq", "pika", "httpx2", "httpcore2", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    async with (
        connect(place.url) as transport,
        ManagementAdmin(place.api, vhost=place.vhost) as admin,
    ):
        await admin.identify()
        told = [*shown(transport), *shown(vars(transport)), *shown(vars(transport._publishing)), *shown(admin)]
    blocking = await asyncio.to_thread(connect_blocking, place.url)
    told += [*shown(blocking), *shown(vars(blocking)), *shown(blocking._address.parameters("x"))]
    await asyncio.to_thread(blocking.close)
    return told


async def refused(url: Any) -> list[str]:
    """What both clients say of a login to a vhost that is not there, from the first cause on."""
    nowhere = url.at_vhost("nowhere")
    with pytest.raises(AccessRefused) as one:
        async with connect(nowhere):
            pass
    with pytest.raises(AccessRefused) as other:
        await asyncio.to_thread(connect_blocking, nowhere)
    return [*shown(one.value), *shown(other.value)]


def shown(thing: object) -> list[str]:
    """All the ways in which a thing is printed."""
    error = traceback.format_exception(thing) if isinstance(thing, BaseException) else []
    return [repr(thing), str(thing), f"{thing!a}", *error]
