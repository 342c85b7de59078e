"""`amqpkit run`: consumers in the foreground, from the banner to the drain."""

import asyncio
import logging
import os
import signal
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import amqpkit
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.url import BrokerURL
from amqpkit.cli.connect import AdminOptions
from amqpkit.cli.files import topology_files
from amqpkit.cli.joblog import Keeping, url_of
from amqpkit.cli.modules import find_consumers
from amqpkit.cli.monitoring import WatchOptions, make_metrics, make_tracing, set_up_logging, watched_worker
from amqpkit.cli.usage import UsageError
from amqpkit.declare.load import load_topology
from amqpkit.deliver.consumer import Setting
from amqpkit.deliver.listening import listeners
from amqpkit.deliver.worker import Worker
from amqpkit.errors import AmqpkitError, ConsumerError
from amqpkit.events import Connected, ConnectionLost, ConsumerLost, Consuming, Event, Settled, StoreDown
from amqpkit.model import Topology
from amqpkit.operate.logs import LogListener
from amqpkit.ports import BrokerInfo, IdempotencyStore
from amqpkit.stores import Store, open_store
from amqpkit.units import format_duration

log = logging.getLogger("amqpkit.run")


async def run(  # noqa: PLR0913 - a command's options
    target: str,
    *files: Path,
    connection: AdminOptions | None = None,
    watch: WatchOptions | None = None,
    prefetch: int | None = None,
    concurrency: int | None = None,
    grace: float = 30.0,
    store: Annotated[str | None, Parameter(env_var="AMQPKIT_STORE", show_default=False)] = None,
    jobs: Annotated[str | None, Parameter(env_var="AMQPKIT_JOBS", show_default=False)] = None,
    verbose: Annotated[bool, Parameter(alias="-v", negative=())] = False,
) -> int:
    """Run the consumers of a module until SIGTERM or Ctrl-C, then drain.

    A drain gives back at once what has not begun and lets the rest finish within the grace period; a second signal
    ends the grace period. Exit codes: 0 stopped as asked, 1 could not start or had to give up.

    Parameters
    ----------
    target
        MODULE or MODULE:NAME. A module stands for all Consumer classes that it defines; NAME is a Consumer class or
        instance, a list of them, or a function that returns any of these.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    prefetch
        Messages taken in advance, for every queue; beats the file.
    concurrency
        Messages handled at once, for every queue; beats the file.
    grace
        Seconds that begun messages may take after a stop.
    store
        Where handled messages are remembered, so that a duplicate is not handled again: sqlite:///PATH,
        postgresql://…, redis://… or memory:. Without it a duplicate is handled again.
    jobs
        Where jobs (payloads with track=True) are told of and asked about, and what their steps have done is kept:
        sqlite:///PATH, postgresql://… or memory:. Without it: the store's database, if it is one.
    verbose
        Log every handled message too.
    """
    watch = watch or WatchOptions()
    set_up_logging(verbose=verbose, json=watch.log_format == "json")
    paths = topology_files(files)
    topology = load_topology(*paths, environ=os.environ)
    place = (connection or AdminOptions()).place(topology.vhost)
    consumers, url = find_consumers(target), place.url
    tally: Counter[str] = Counter()
    metrics = None if watch.metrics_port is None else make_metrics(topology, consumers)
    told = LogListener() if watch.log_format == "json" else _tell
    tell = listeners(lambda event: _count(event, tally), told, *([metrics] if metrics else []))
    transport = AioTransport(url, name="amqpkit run", on_event=tell)
    memory = None if store is None else _store(store)
    keeping = Keeping.at(url_of(jobs, store))
    try:
        worker = Worker(
            topology,
            consumers,
            transport,
            store=memory,
            jobs=keeping.jobs,
            steps=keeping.steps,
            on_event=tell,
            grace=grace,
            overrides={"prefetch": prefetch, "concurrency": concurrency},
            tracing=make_tracing() if watch.trace else None,
        )
    except ConsumerError as error:
        msg = f"{error}\nthe topology is that of {' + '.join(map(str, paths))}"
        raise ConsumerError(msg) from error
    _obey_signals(worker)
    try:
        if memory is not None:
            await memory.prepare()
        await keeping.prepare()
        await transport.open()
        if watch.log_format == "text":
            sys.stderr.write(banner(worker, topology, url, transport.broker, memory, keeping))
        async with watched_worker(worker, metrics, topology, place, watch) if metrics else nullcontext():
            await worker.run()
    finally:
        await transport.close()
        await keeping.close()
        if memory is not None:
            await memory.close()
    log.info("stopped: %s", ", ".join(f"{count} {what}" for what, count in sorted(tally.items())) or "no messages")
    if worker.abandoned:
        log.warning("threads that outlived their timeout still run; the process ends without them")
        sys.stderr.flush()
        os._exit(0)  # Python would wait for them at exit
    return 0


def _store(url: str) -> Store:
    try:
        return open_store(url)
    except ValueError as error:
        msg = f"--store: {error}"
        raise UsageError(msg) from error
    except ImportError as error:
        raise AmqpkitError(str(error)) from error


def _obey_signals(worker: Worker) -> None:
    loop, received = asyncio.get_running_loop(), Counter[str]()

    def obey(name: str) -> None:
        received["signals"] += 1
        if received["signals"] == 1:
            log.info("%s: draining; what has not begun goes back, the rest may finish", name)
            worker.stop()
        else:
            log.warning("%s: the grace period ends now", name)
            worker.halt()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, obey, number.name)


def _count(event: Event, tally: Counter[str]) -> None:
    if isinstance(event, Settled):
        tally[event.outcome.value] += 1


def _tell(event: Event) -> None:
    match event:
        case Connected():
            log.info("connected to %s to %s", event.broker, event.purpose)
        case ConnectionLost():
            log.warning("lost the connection to %s (%s); next try in %.1f s", event.purpose, event.reason, event.wait)
        case Consuming():
            log.info("consuming %s", event.queue)
        case StoreDown():
            log.warning("the store cannot be asked (%s); next try in %.1f s", event.error, event.wait)
        case ConsumerLost():
            log.warning("not consuming %s (%s); next try in %.1f s", event.queue, event.reason, event.wait)
        case _:
            pass


def banner(  # noqa: PLR0913, PLR0917 - what there is to say
    worker: Worker,
    topology: Topology,
    url: BrokerURL,
    broker: BrokerInfo,
    store: IdempotencyStore | None,
    keeping: Keeping,
) -> str:
    """Say what runs where, and where each setting comes from."""
    once = "no store: a duplicate is handled again (give one with --store)" if store is None else str(store)
    lines = [
        f"amqpkit {amqpkit.__version__}, worker {worker.name}",
        f"  broker   {broker.cluster_name} (RabbitMQ {broker.version}) at {url.location}, vhost {url.vhost}",
        f"  store    {once}",
        f"  jobs     {keeping}",
    ]
    for consumer in worker.consumers:
        pace, work = worker.paces[consumer.queue], topology.work_queues.get(consumer.queue)
        payloads = ", ".join(f"{cls.payload_type} v{cls.payload_version}" for cls in consumer.payloads)
        lines += [
            f"  queue    {consumer.queue}: {type(consumer).__name__} handles {payloads}",
            f"           {', '.join(_setting(name, getattr(pace, name)) for name in pace.__slots__)}",
        ]
        if work is not None:
            steps = [format_duration(delay.milliseconds) for delay in work.delays]
            way = f"retries after {', '.join(steps)}, then " if steps else "no retries, "
            owner = f" (owner: {work.owner})" if work.owner else ""
            lines.append(f"           {way}dead letters in {work.dead_queue}{owner}")
    return "\n".join(lines) + "\n"


def _setting(name: str, setting: Setting) -> str:
    value = "none" if setting.value is None else f"{setting.value:g}{_UNITS.get(name, '')}"
    return f"{name} {value} ({setting.source})"


_UNITS = {"timeout": "s", "rate": "/s"}
