"""A worker: consumers on a topology over a transport, from the start-up checks to the drain."""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from amqpkit.brokers.clock import SystemClock
from amqpkit.deliver.case import Terms
from amqpkit.deliver.consumer import Consumer, Pace, check_consumers, pace_of
from amqpkit.deliver.handler import Halt, Handler
from amqpkit.deliver.lane import Lane
from amqpkit.deliver.listener import JobListener
from amqpkit.deliver.listening import listeners
from amqpkit.deliver.outgoing import check_topology
from amqpkit.deliver.payload import decode, registry
from amqpkit.deliver.running import Cancellations
from amqpkit.deliver.slot import Slot, Tools
from amqpkit.deliver.spans import Tracing
from amqpkit.deliver.tracking import check_jobs
from amqpkit.events import OnEvent, ignore
from amqpkit.model import Topology
from amqpkit.ports import Clock, IdempotencyStore, JobLog, Steps, Subscription, Transport

log = logging.getLogger("amqpkit.worker")

LEASE_SLACK: Final = 30.0
"""Seconds that a claim outlives its handler's timeout."""
HALT_TIMEOUT: Final = 5.0
"""Seconds for handlers to obey their cancellation once the grace period is over."""


class Worker:
    """Runs consumers until it is told to stop.

    `grace` in seconds is how long begun messages may finish after `stop`; what has not begun goes back at once.
    `store` makes duplicates harmless: with it a message that was handled is not handled again.
    `overrides` are the command line's prefetch, concurrency and timeout, which beat file and class.
    `tracing` opens a span around every call of a handler; without it nothing is made.
    `jobs` is told of payloads with `track=True`, and asked whether they are cancelled; no delivery waits for it.
    `steps` remembers what `context.step()` has finished.
    """

    def __init__(  # noqa: PLR0913 - its parts, each with a default
        self,
        topology: Topology,
        consumers: Iterable[Consumer[Any]],
        transport: Transport,
        *,
        store: IdempotencyStore | None = None,
        clock: Clock | None = None,
        on_event: OnEvent = ignore,
        grace: float = 30.0,
        overrides: Mapping[str, Any] | None = None,
        threads: Callable[[int], Executor] | None = None,
        tracing: Tracing | None = None,
        jobs: JobLog | None = None,
        steps: Steps | None = None,
        chance: Callable[[], float] = random.random,
        name: str | None = None,
    ) -> None:
        """Check everything that can be checked without a broker; raises ConsumerError with all that does not fit.

        Raises TypeError for what is no Topology.
        """
        check_topology(topology)
        self.consumers = tuple(consumers)
        check_consumers(topology, self.consumers)
        check_jobs(topology, self.consumers)
        self.paces = {c.queue: pace_of(c, topology, overrides=overrides) for c in self.consumers}
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._token = secrets.token_hex(4)  # a restarted container may have the same name and pid
        self._topology, self._transport, self._grace = topology, transport, grace
        self._clock = clock or SystemClock()
        self._halt = Halt()
        self._listener = None if jobs is None else JobListener(jobs, clock=self._clock)
        self._cancellations = None if jobs is None else Cancellations(jobs, self._clock)
        told = listeners(on_event) if self._listener is None else listeners(on_event, self._listener)
        self._tools = Tools(
            transport, store, self._clock, told, self._halt, chance, set(), tracing, self._cancellations, steps
        )
        self._make_threads = threads or partial(ThreadPoolExecutor, thread_name_prefix="amqpkit")
        self._pools: list[Executor] = []
        self._lanes: list[Lane] = []
        self._stop = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether every queue is being consumed and no copy is held."""
        return bool(self._lanes) and not self._stop.is_set() and all(lane.ready for lane in self._lanes)

    @property
    def subscriptions(self) -> Mapping[str, Subscription | None]:
        """The consumer of each queue; None before it has begun."""
        started = {lane.queue: lane.subscription for lane in self._lanes}
        return {consumer.queue: started.get(consumer.queue) for consumer in self.consumers}

    @property
    def job_news(self) -> JobListener | None:
        """Whoever brings news to the job log, and counts what came late or was dropped; None without a log."""
        return self._listener

    @property
    def abandoned(self) -> bool:
        """Whether threads that outlived their timeout still run."""
        return any(lane.abandoned for lane in self._lanes)

    def stop(self) -> None:
        """Begin the drain; call it on the loop's thread, as often as you like."""
        self._stop.set()

    def halt(self) -> None:
        """End the grace period now: running handlers are cancelled and their messages go back."""
        self._stop.set()
        self._halt.halt()

    async def run(self) -> None:
        """Consume until `stop`, then drain; the transport must be open and is left open.

        Raises QueueMissing or AccessRefused at the start, and later whatever a subscription has given up on.
        """
        self._lanes = [self._lane(consumer) for consumer in self.consumers]
        try:
            for lane in self._lanes:
                await lane.start(self._transport)
            await self._until_stopped()
            await self._drain()
        finally:
            await asyncio.shield(self._close())
            await asyncio.shield(self._end_jobs())

    def _lane(self, consumer: Consumer[Any]) -> Lane:
        pace: Pace = self.paces[consumer.queue]
        timeout, concurrency = pace.timeout.value, pace.concurrency.value
        threads = self._make_threads(concurrency)
        self._pools.append(threads)
        terms = self._terms(consumer, timeout)
        slots = [
            Slot(
                Handler(consumer, timeout=timeout, clock=self._clock, threads=threads),
                terms,
                self._tools,
                name=f"{self.name}:{self._token}:{consumer.queue}:{number}",
            )
            for number in range(concurrency)
        ]
        return Lane(consumer.queue, slots, prefetch=pace.prefetch.value, rate=pace.rate.value)

    def _terms(self, consumer: Consumer[Any], timeout: float | None) -> Terms:
        work = self._topology.work_queues.get(consumer.queue)
        known = registry(consumer.payloads)
        accepts = work.accepts if work else tuple(known)
        return Terms(
            queue=consumer.queue,
            decode=partial(decode, known=known, accepts=accepts),
            work=work,
            never_retry=consumer.never_retry,
            lease=(timeout or LEASE_SLACK) + LEASE_SLACK,
            worker=self.name,
            tracked=frozenset(name for name, cls in known.items() if cls.payload_track),
        )

    async def _until_stopped(self) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        ends: list[asyncio.Future[Any]] = [lane.subscription.ended for lane in self._lanes if lane.subscription]
        ends += [task for lane in self._lanes for task in lane.work]
        try:
            await asyncio.wait([stopped, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        self._stop.set()

    async def _drain(self) -> None:
        await asyncio.gather(*(lane.drain() for lane in self._lanes))
        finished = asyncio.gather(*(lane.finished() for lane in self._lanes))
        given_up = asyncio.Event()
        gone = asyncio.create_task(given_up.wait())
        disarm = self._clock.call_later(self._grace, self.halt)
        # a handler that swallows its cancellation cannot be waited for; its message goes back with the channel
        give_up = self._clock.call_later(self._grace + HALT_TIMEOUT, given_up.set)
        try:
            either: list[asyncio.Future[Any]] = [finished, gone]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disarm()
            give_up()
            gone.cancel()
        if finished.done():
            finished.result()
        else:
            log.warning("handlers did not obey their cancellation; their messages go back to the queue")
        for lane in self._lanes:
            if lane.subscription is not None and lane.subscription.ended.done():
                lane.subscription.ended.result()

    async def _close(self) -> None:
        # on a drain there is nothing left to halt; on a cancelled run this sends the begun messages back
        self._halt.halt()
        await asyncio.gather(*(lane.drain() for lane in self._lanes), return_exceptions=True)
        await asyncio.wait([asyncio.ensure_future(self._settled())], timeout=1)
        await asyncio.gather(*(lane.close() for lane in self._lanes), return_exceptions=True)
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _end_jobs(self) -> None:
        if self._cancellations is not None:
            await self._cancellations.close()
        if self._listener is not None:
            await self._listener.close()

    async def _settled(self) -> None:
        await asyncio.gather(*(lane.finished() for lane in self._lanes), return_exceptions=True)
