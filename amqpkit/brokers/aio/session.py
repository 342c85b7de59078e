"""One connection, kept alive: opened, watched, opened again with back-off until it is closed or refused.

Plain aio-pika, because its robust connection re-declares what somebody deleted, stops for ever at one bad
declaration and reopens a failing channel without any delay (896 times in 3 s, measured).
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import tenacity
from aio_pika.abc import AbstractConnection
from yarl import URL

from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.alarm import Alarm
from amqpkit.brokers.aio.guard import GuardedConnection
from amqpkit.brokers.aio.tasks import guarded, stop
from amqpkit.brokers.backoff import Backoff
from amqpkit.brokers.blame import Loss
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed
from amqpkit.events import Connected, ConnectionLost, OnEvent
from amqpkit.ports import BrokerInfo, Clock

CLOSE_TIMEOUT = 5.0
"""For a polite goodbye; a broker that is stuck gets no longer one."""
DEAF_CLOSE_TIMEOUT = 0.5
"""For one to a broker that does not read from this connection: in an alarm, or stuck, as the last words show."""
ASIDES = 8
"""Channels for short questions that may be open at once."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, and what to say of us there."""

    url: BrokerURL
    name: str
    heartbeat: int
    timeout: float

    @property
    def target(self) -> URL:
        """What aio-pika takes; a heartbeat in the URL goes before ours."""
        url = URL(self.url.text)
        return url if "heartbeat" in url.query else url.update_query(heartbeat=self.heartbeat)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A connection that stands until `lost` is done; `lost` never carries an exception."""

    connection: AbstractConnection
    lost: asyncio.Future[Loss]
    alarm: Alarm
    asides: asyncio.Semaphore
    """Places for channels that come and go; at its 2,047th channel the broker ends a connection (measured)."""
    deaf: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the broker has left a goodbye, or the last messages, without an answer: it would answer none."""

    @property
    def server(self) -> dict[str, Any]:
        """What the broker said of itself."""
        return dict(getattr(self._underlay, "server_properties", None) or {})

    @property
    def frame_max(self) -> int:
        """The largest frame that was agreed upon."""
        return int(getattr(self._underlay, "connection_tune").frame_max or 131_072)  # noqa: B009 - aiormq's own class has it, its ABC not

    @property
    def info(self) -> BrokerInfo:
        """Who answered."""
        return BrokerInfo(str(self.server.get("version", "")), str(self.server.get("cluster_name", "")))

    @property
    def goodbye(self) -> float:
        """Seconds that a polite end of this connection, or of a channel on it, may take."""
        return DEAF_CLOSE_TIMEOUT if self.alarm.blocked or self.deaf.is_set() else CLOSE_TIMEOUT

    @property
    def _underlay(self) -> Any:
        transport = self.connection.transport
        return transport.connection if transport is not None else None


async def connect(address: Address) -> Link:
    """Connect once; raises AccessRefused or ConnectionFailed."""
    place = address.url
    # Not aio_pika.connect(): it drops a connection that failed unclosed, which its destructor then tries to close.
    connection = GuardedConnection(address.target, client_properties={"connection_name": address.name})
    try:
        await guarded(connection.connect)(timeout=address.timeout)
    except BaseException as error:
        await connection.close()
        if isinstance(error, faults.TROUBLE):
            raise faults.connecting(error, str(place.location), place.vhost, place.location.user) from error
        raise
    lost: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()

    def gone(_sender: object, error: BaseException | None) -> None:
        # The callback, since Connection.closed() never resolves when the connection is lost (measured).
        if not lost.done():
            lost.set_result(faults.loss(error))

    connection.close_callbacks.add(gone)
    return Link(connection, lost, connection.alarm, asyncio.Semaphore(ASIDES))


async def hang_up(link: Link) -> None:
    """Close politely, but do not wait for a broker that is stuck."""
    with suppress(*faults.TROUBLE):
        async with asyncio.timeout(link.goodbye):
            await guarded(link.connection.close)()
    # Once more if that took too long: nothing is left to wait for, and its destructor finds it closed.
    await link.connection.close()


class SessionOver(ConnectionFailed):
    """Nobody will connect again: the session was closed, or its keeper was cancelled."""


class Session:
    """A connection for one purpose, kept alive by its own task until `close` or a refusal."""

    def __init__(self, purpose: str, address: Address, on_event: OnEvent, clock: Clock) -> None:
        """Store; nothing is opened before `open`."""
        self._purpose = purpose
        self._address = replace(address, name=f"{address.name} {purpose}")
        self._on_event, self._clock = on_event, clock
        self._backoff = Backoff(clock)
        self._current: asyncio.Future[Link] | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def open(self) -> Link:
        """Connect, trying until the timeout; raises AccessRefused at once, ConnectionFailed in the end."""
        last: BaseException | None = None

        def note(state: tenacity.RetryCallState) -> None:
            nonlocal last
            last = state.outcome.exception() if state.outcome else None

        attempts = tenacity.AsyncRetrying(
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
            retry=tenacity.retry_if_exception_type(ConnectionFailed),
            before_sleep=note,
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            async with asyncio.timeout(self._address.timeout):
                link: Link = await attempts(connect, self._address)
        except TimeoutError:
            where = self._address.url.location
            raise last or ConnectionFailed(f"the broker at {where} does not answer") from None
        self._stands(link)
        self._keeper = asyncio.create_task(self._keep(link), name=f"amqpkit {self._purpose} session")
        self._keeper.add_done_callback(self._note_crash)
        return link

    @property
    def standing(self) -> Link | None:
        """The connection, when there is one just now."""
        current = self._current
        if current is None or not current.done() or current.cancelled() or current.exception() is not None:
            return None
        link = current.result()
        return None if link.lost.done() else link

    async def link(self) -> Link:
        """Wait for a standing connection; raises BrokerError when there will be none."""
        while True:
            if self._current is None:
                msg = "the transport is not open"
                raise ConnectionFailed(msg)
            link = await asyncio.shield(self._current)
            if not link.lost.done():
                return link
            if self._keeper is None or self._keeper.done():
                msg = "the transport is closed"  # cancelled with its loop: to wait for it would be to spin
                raise SessionOver(msg)
            # Its keeper is about to notice.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End the connection for good; who waits for it gets ConnectionFailed."""
        if self._keeper is not None:
            await stop(self._keeper)
        link = self.standing
        self._give_up(SessionOver("the transport is closed"))
        if link is not None:
            await hang_up(link)

    def _note_crash(self, keeper: asyncio.Task[None]) -> None:
        # A fault of ours or of a listener: it must reach whoever waits, not vanish with the task.
        error = None if keeper.cancelled() else keeper.exception()
        if error is not None:
            self._give_up(ConnectionFailed(f"the {self._purpose} session failed: {error!r}"))

    async def _keep(self, link: Link) -> None:
        while True:
            cause = await asyncio.shield(link.lost)
            self._current = asyncio.get_running_loop().create_future()
            await hang_up(link)
            try:
                link = await self._again(cause)
            except AccessRefused as refusal:
                self._give_up(refusal)
                return
            self._stands(link)

    async def _again(self, cause: Loss) -> Link:
        was_up, reason = True, cause.reason
        while True:
            wait = self._backoff.down(was_up=was_up)
            self._on_event(ConnectionLost(self._purpose, reason, wait))
            await self._clock.sleep(wait)
            try:
                return await connect(self._address)
            except ConnectionFailed as failure:
                was_up, reason = False, str(failure)

    def _stands(self, link: Link) -> None:
        if self._current is None or self._current.done():
            self._current = asyncio.get_running_loop().create_future()
        self._current.set_result(link)
        self._backoff.up()
        self._on_event(Connected(self._purpose, f"RabbitMQ {link.info.version} at {self._address.url.location}"))

    def _give_up(self, reason: BrokerError) -> None:
        if self._current is None or self._current.done():
            self._current = asyncio.get_running_loop().create_future()
        self._current.set_exception(reason)
        self._current.exception()  # Retrieved: nobody need be waiting for it.
