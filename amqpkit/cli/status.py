"""`amqpkit status`: every work queue on one line, and what holds."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.cli.connect import AdminOptions, Place, administered
from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.errors import AmqpkitError
from amqpkit.model import Topology
from amqpkit.operate.alerts import CLOSE, findings, spoken
from amqpkit.operate.observe import NOT_BEFORE_4_3, Observer, Reading
from amqpkit.operate.status import document
from amqpkit.ports import BrokerInfo

ALERT: Final = 2
WIDE: Final = 200
"""Columns when there is no terminal: a pipe cuts nothing off."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was read at one moment."""

    topology: Topology
    readings: tuple[Reading, ...]
    p95: Mapping[str, float]


async def status(
    *files: Path,
    connection: AdminOptions | None = None,
    metrics: Annotated[tuple[str, ...], Parameter(env_var="AMQPKIT_METRICS", show_default=False)] = (),
    watch: Annotated[bool, Parameter(negative=())] = False,
    every: float = 5.0,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show each work queue: depth, age of the oldest message, in flight, rate, failures, handling time, dead letters.

    Depths are current; in flight, rate and failure rate (over the last minute) are RabbitMQ's statistics, up to five
    seconds late. The oldest message is looked at and given back where that costs it nothing: on RabbitMQ 4.3, and not
    on older ones, whose delivery limit would count it. Handling times are known to the workers alone: see --metrics.

    Exit codes: 0 no alert of the file holds, 1 it could not be read, 2 an alert holds: `dead_letter.alert.messages` or
    `.age`, or `limits.depth` reached. Warnings change no exit code.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    metrics
        Where workers serve their metrics (amqpkit run --metrics-port), once for each: http://HOST:9108.
    watch
        Show it again and again until Ctrl-C; with --json one document a line.
    every
        Seconds between two looks.
    json_
        Print one JSON document: format_version, broker {version, cluster_name, vhost}, queues, alerts, warnings. Times
        are seconds, rates a second, unknown is null.
    """
    topology = load_topology(*topology_files(files), environ=os.environ)
    place = (connection or AdminOptions()).place(topology.vhost)
    urls = tuple(url for given in metrics for url in re.split(r"[,\s]+", given) if url)
    async with administered(place) as (admin, broker):
        transport = AioTransport(place.url.text, name="amqpkit status")
        await transport.open()
        try:
            observer = Observer(topology, transport, admin)

            async def read() -> Snapshot:
                return Snapshot(topology, await observer.read(), await _p95(urls))

            face = _json if json_ else _Table(place, broker, asked=bool(urls))
            if not watch:
                return _show(face, await read(), place, broker, compact=False)
            await _watch(read, lambda now: _show(face, now, place, broker, compact=True), face, every)
        finally:
            await transport.close()
    return 0


async def _p95(urls: tuple[str, ...]) -> dict[str, float]:
    if not urls:
        return {}
    try:
        from amqpkit.operate.metrics.scrape import handling_times, quantile
    except ImportError as error:
        msg = f"--metrics needs the extra prometheus: pip install 'amqpkit[prometheus]' ({error})"
        raise AmqpkitError(msg) from error
    times = await handling_times(urls)
    found = {queue: quantile(buckets, 0.95) for queue, buckets in times.items()}
    return {queue: value for queue, value in found.items() if value is not None}


async def _watch(
    read: Callable[[], Awaitable[Snapshot]], show: Callable[[Snapshot], int], face: "_Face", every: float
) -> None:
    if isinstance(face, _Table) and sys.stdout.isatty():
        with Live(console=face.console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(face.render(await read()), refresh=True)
                await asyncio.sleep(every)
    while True:
        show(await read())
        sys.stdout.flush()
        await asyncio.sleep(every)


def _show(face: "_Face", now: Snapshot, place: Place, broker: BrokerInfo, *, compact: bool) -> int:
    if isinstance(face, _Table):
        face.console.print(face.render(now))
    else:
        face(now, place, broker, compact)
    return ALERT if findings(now.topology, now.readings, now.p95)[0] else 0


def _json(now: Snapshot, place: Place, broker: BrokerInfo, compact: bool) -> None:  # noqa: FBT001 - one caller
    about = {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": place.vhost}
    told = document(now.topology, now.readings, now.p95)
    whole: dict[str, Any] = {"format_version": told.pop("format_version"), "broker": about, **told}
    print(json.dumps(whole, indent=None if compact else 2, ensure_ascii=False))


class _Table:
    """For people."""

    def __init__(self, place: Place, broker: BrokerInfo, *, asked: bool) -> None:
        width = None if sys.stdout.isatty() else WIDE
        self.console = Console(highlight=False, width=width)
        self._title = f"{place} ({broker.cluster_name}, RabbitMQ {broker.version})"
        self._asked = asked

    def render(self, now: Snapshot) -> RenderableType:
        alerts, warnings = findings(now.topology, now.readings, now.p95)
        troubled = {finding.queue: "yellow" for finding in warnings} | {finding.queue: "red" for finding in alerts}
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for title, justify in _COLUMNS:
            table.add_column(title, justify=justify, no_wrap=title != "dead letters", overflow="fold")
        for reading in now.readings:
            cells = _cells(now.topology, reading, now.p95.get(reading.queue))
            table.add_row(*(Text(cell) for cell in cells), style=troubled.get(reading.queue, ""))
        lines = [Text(f"ALERT    {finding}", style="red") for finding in alerts]
        lines += [Text(f"warning  {finding}", style="yellow") for finding in warnings]
        lines += [Text(hint, style="dim") for hint in self._hints(now.readings)]
        return Group(Text(self._title), Text(), table, *([Text(), *lines] if lines else []))

    def _hints(self, readings: Iterable[Reading]) -> Iterable[str]:
        reasons: dict[str, list[str]] = {}
        for reading in readings:
            if reading.why_not:
                reasons.setdefault(reading.why_not, []).append(reading.queue)
        for reason, queues in reasons.items():
            advice = "; the workers' amqpkit_age_at_handling_seconds tells" if reason == NOT_BEFORE_4_3 else ""
            yield f"oldest of {', '.join(queues)} is unknown: {reason}{advice}"
        if not self._asked:
            yield "p95 is unknown: name the workers' metrics with --metrics http://HOST:9108 (or AMQPKIT_METRICS)"


_Face = _Table | Callable[[Snapshot, Place, BrokerInfo, bool], None]
_COLUMNS: Final[tuple[tuple[str, Any], ...]] = (
    ("queue", "left"),
    ("ready", "right"),
    ("oldest", "right"),
    ("in flight", "right"),
    ("rate", "right"),
    ("failed", "right"),
    ("p95", "right"),
    ("timeout", "right"),
    ("consumer-timeout", "right"),
    ("consumers", "right"),
    ("waiting retries", "left"),
    ("dead letters", "left"),
)


def _cells(topology: Topology, reading: Reading, p95: float | None) -> tuple[str, ...]:
    timeout = topology.work_queues[reading.queue].consume.timeout
    limit = min((each for each in (timeout, reading.consumer_timeout) if each), default=None)
    close = "!" if p95 is not None and limit and p95 >= CLOSE * limit else ""
    return (
        reading.queue,
        _number(reading.depth),
        _time(reading.oldest) if reading.oldest is not None else ("?" if reading.why_not else "-"),
        _number(reading.in_flight),
        "-" if reading.rate is None else f"{reading.rate:.3g}/s",
        "-" if reading.failure_rate is None else f"{reading.failure_rate:.0%}",
        f"{_time(p95)}{close}",
        "none" if timeout is None else spoken(timeout),
        _time(reading.consumer_timeout),
        _number(reading.consumers),
        ", ".join(f"{key}: {count}" for key, count in reading.waiting.items() if count) or "-",
        _letters(reading),
    )


def _letters(reading: Reading) -> str:
    if not reading.dead:
        return _number(reading.dead)
    fates = ", ".join(f"{count} {fate}" for fate, count in reading.letters.items())
    oldest = f", oldest {spoken(reading.oldest_letter)}" if reading.oldest_letter is not None else ""
    return f"{reading.dead} ({fates}{oldest})"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else spoken(seconds)
