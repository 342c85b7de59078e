"""`amqpkit status`: every work queue on one line, and what holds."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
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
from amqpkit.cli.intervals import Every
from amqpkit.declare.load import load_topology
from amqpkit.errors import AmqpkitError, BrokerError
from amqpkit.model import Topology
from amqpkit.operate.alerts import CLOSE, findings, spoken
from amqpkit.operate.observe import NOT_BEFORE_4_3, Observer, Reading
from amqpkit.operate.status import document
from amqpkit.ports import BrokerInfo

ALERT: Final = 2
WIDE: Final = 200
"""Columns when there is no terminal: a pipe cuts nothing off."""
ROOMY: Final = 140
"""With fewer columns the delays of retries and the fates of dead letters stand below the table."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was read at one moment."""

    topology: Topology
    readings: tuple[Reading, ...]
    p95: Mapping[str, float]
    unreachable: tuple[str, ...] = ()
    """Why workers that were named could not be asked for their handling times."""


async def status(
    *files: Path,
    connection: AdminOptions | None = None,
    metrics: Annotated[tuple[str, ...], Parameter(env_var="AMQPKIT_METRICS", show_default=False)] = (),
    watch: Annotated[bool, Parameter(negative=())] = False,
    every: Every = 5.0,
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
        Show it again and again until Ctrl-C, also when the broker was away; with --json one document a line.
    every
        Seconds between two looks.
    json_
        Print one JSON document: format_version, broker {version, cluster_name, vhost}, queues, alerts, warnings,
        unreachable (workers whose metrics could not be read, and why). Times are seconds, rates a second, unknown is
        null.
    """
    topology = load_topology(*topology_files(files), environ=os.environ)
    place = (connection or AdminOptions()).place(topology.vhost)
    urls = tuple(url for given in metrics for url in re.split(r"[,\s]+", given) if url)
    async with administered(place) as (admin, broker):
        transport = AioTransport(place.url, name="amqpkit status")
        await transport.open()
        try:
            observer = Observer(topology, transport, admin)

            async def read() -> Snapshot:
                return Snapshot(topology, await observer.read(), *await _p95(urls))

            face = _json if json_ else _Table(place, broker, asked=bool(urls))
            if not watch:
                return _show(face, await read(), place, broker, compact=False)
            if isinstance(face, _Table) and sys.stdout.isatty():
                with Live(console=face.console, auto_refresh=False, screen=True) as live:
                    await _watch(read, *_on_screen(face, live), every)
            await _watch(read, lambda now: _show(face, now, place, broker, compact=True), _say, every)
        finally:
            await transport.close()
    return 0


async def _p95(urls: tuple[str, ...]) -> tuple[dict[str, float], tuple[str, ...]]:
    if not urls:
        return {}, ()
    try:
        from amqpkit.operate.metrics.scrape import handling_times, quantile
    except ImportError as error:
        msg = f"--metrics needs the extra prometheus: pip install 'amqpkit[prometheus]' ({error})"
        raise AmqpkitError(msg) from error
    times, unreachable = await handling_times(urls)
    found = {queue: quantile(buckets, 0.95) for queue, buckets in times.items()}
    return {queue: value for queue, value in found.items() if value is not None}, unreachable


async def _watch(
    read: Callable[[], Awaitable[Snapshot]],
    show: Callable[[Snapshot], object],
    tell: Callable[[str], object],
    every: float,
) -> None:
    """Show for ever; a broker that goes away is told of once and waited for. Raises when it never answered."""
    answered = away = False
    while True:
        try:
            now = await read()
        except BrokerError as error:
            if not answered:
                raise
            if not away:
                tell(f"{error}; it is asked again")
            away = True
        else:
            answered, away = True, False
            show(now)
        await asyncio.sleep(every)


def _on_screen(face: "_Table", live: Live) -> tuple[Callable[[Snapshot], None], Callable[[str], None]]:
    last: list[RenderableType] = []

    def show(now: Snapshot) -> None:
        last[:] = [face.render(now)]
        live.update(last[0], refresh=True)

    def tell(trouble: str) -> None:
        since = f"as of {datetime.now().astimezone():%H:%M:%S}: {trouble}"
        live.update(Group(Text(since, style="red"), *last), refresh=True)

    return show, tell


def _say(trouble: str) -> None:
    print(f"amqpkit: {trouble}", file=sys.stderr)


def _show(face: "_Face", now: Snapshot, place: Place, broker: BrokerInfo, *, compact: bool) -> int:
    if isinstance(face, _Table):
        face.console.print(face.render(now))
    else:
        face(now, place, broker, compact)
    sys.stdout.flush()
    return ALERT if findings(now.topology, now.readings, now.p95)[0] else 0


def _json(now: Snapshot, place: Place, broker: BrokerInfo, compact: bool) -> None:  # noqa: FBT001 - one caller
    about = {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": place.vhost}
    told = document(now.topology, now.readings, now.p95)
    whole: dict[str, Any] = {"format_version": told.pop("format_version"), "broker": about, **told}
    whole["unreachable"] = now.unreachable
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
        narrow = self.console.width < ROOMY
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1 if narrow else 2, 0, 0))
        longest = max((len(reading.queue) for reading in now.readings), default=0)
        for title in _NARROW if narrow else _ROOMY:
            table.add_column(
                title,
                justify="left" if title in _TEXTS else "right",
                no_wrap=title not in _FOLDED,
                overflow="fold",
                min_width=min(longest, 20) if title == "queue" else None,
            )
        for reading in now.readings:
            cells = _cells(now.topology, reading, now.p95.get(reading.queue), narrow=narrow)
            table.add_row(*(Text(cell) for cell in cells), style=troubled.get(reading.queue, ""))
        lines = [Text(line) for reading in now.readings if narrow for line in _details(reading)]
        lines += [Text(f"ALERT    {finding}", style="red") for finding in alerts]
        lines += [Text(f"warning  {finding}", style="yellow") for finding in warnings]
        lines += [Text(f"warning  {each}", style="yellow") for each in now.unreachable]
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
_LEFT: Final = ("queue", "ready", "oldest", "in\nflight", "rate", "failed", "p95")
_ROOMY: Final = (*_LEFT, "timeout", "consumer\ntimeout", "con-\nsumers", "waiting\nretries", "dead\nletters")
_NARROW: Final = (*_LEFT, "time-\nout", "con-\nsumers", "wait-\ning", "dead")
_TEXTS: Final = {"queue", "waiting\nretries", "dead\nletters"}
_FOLDED: Final = {"queue", "dead\nletters"}


def _cells(topology: Topology, reading: Reading, p95: float | None, *, narrow: bool) -> tuple[str, ...]:
    timeout, visible = topology.work_queues[reading.queue].consume.timeout, reading.consumer_timeout
    limit = min((each for each in (timeout, visible) if each), default=None)
    close = "!" if p95 is not None and limit and p95 >= CLOSE * limit else ""
    usual = (
        reading.queue,
        _number(reading.depth),
        _time(reading.oldest) if reading.oldest is not None else ("?" if reading.why_not else "-"),
        _number(reading.in_flight),
        "-" if reading.rate is None else f"{reading.rate:.3g}/s",
        "-" if reading.failure_rate is None else f"{reading.failure_rate:.0%}",
        f"{_time(p95)}{close}",
    )
    consumers, dead = _number(reading.consumers), _number(reading.dead)
    if narrow:
        return (*usual, _time(limit), consumers, str(sum(reading.waiting.values())), dead)
    letters = f"{dead} ({_fates(reading)})" if reading.dead else dead
    timeouts = ("none" if timeout is None else spoken(timeout), _time(visible))
    return (*usual, *timeouts, consumers, _waiting(reading) or "-", letters)


def _details(reading: Reading) -> Iterable[str]:
    """Say below the table what a narrow one has no room for."""
    if waiting := _waiting(reading):
        yield f"waiting in {reading.queue}: {waiting}"
    if reading.dead:
        yield f"dead in {reading.queue}: {_fates(reading)}"


def _waiting(reading: Reading) -> str:
    return ", ".join(f"{key}: {count}" for key, count in reading.waiting.items() if count)


def _fates(reading: Reading) -> str:
    fates = ", ".join(f"{count} {fate}" for fate, count in reading.letters.items())
    oldest = f", oldest {spoken(reading.oldest_letter)}" if reading.oldest_letter is not None else ""
    return f"{fates}{oldest}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else spoken(seconds)
