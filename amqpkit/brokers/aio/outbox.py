"""What is to be published: queued, sent in order within a window, and told its fate."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from amqpkit.brokers import encoding
from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.session import Link, Session
from amqpkit.brokers.aio.tasks import stop
from amqpkit.brokers.aio.wire import Channel, Fate, Outlet, Publish
from amqpkit.brokers.backoff import Backoff
from amqpkit.brokers.blame import Loss, blame, no_exchange
from amqpkit.brokers.lanes import Lanes
from amqpkit.errors import (
    BrokerBlocked,
    BrokerError,
    MessageTooLarge,
    Nacked,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unroutable,
    Unsendable,
)
from amqpkit.model import Message
from amqpkit.ports import Clock

WINDOW = 500
"""Outstanding confirms; 100 to 500 are enough for full speed (measured)."""
BATCH_BYTES = 256 * 1024
"""What is joined into one write at most."""
CLOSE_GRACE = 2.0
"""Seconds that `close` gives to what is under way."""


@dataclass(slots=True, eq=False)
class Parcel:
    """A message on its way out, encoded, and the future that is owed to its sender."""

    number: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    message: Message
    message_id: str | None
    future: asyncio.Future[None]
    stop_clock: Callable[[], None] = lambda: None
    sent: bool = False
    late: bool = False

    def fail(self, kind: type[PublishError], reason: str) -> None:
        """Tell its sender, once."""
        self.stop_clock()
        if not self.future.done():
            message_id = self.message.properties.message_id or ""
            self.future.set_exception(
                kind(reason, exchange=self.exchange, routing_key=self.routing_key, message_id=message_id)
            )

    def succeed(self) -> None:
        """Tell its sender, once."""
        self.stop_clock()
        if not self.future.done():
            self.future.set_result(None)


class Outbox:
    """The publishing side of a transport."""

    def __init__(self, session: Session, clock: Clock) -> None:
        """Store; parcels are taken at once, and sent when `start` was called and a connection stands."""
        self._session, self._clock = session, clock
        self._backoff = Backoff(clock)
        self._numbers = 0
        self._waiting: deque[Parcel] = deque()
        self._lanes: Lanes[Parcel] = Lanes()
        self._under_way: dict[int, Parcel] = {}
        self._wake = asyncio.Event()
        self._stirred = asyncio.Event()
        self._checks: set[asyncio.Task[None]] = set()
        self._closed: str | None = None
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send."""
        self._keeper = asyncio.create_task(self._keep(), name="amqpkit outbox")
        self._keeper.add_done_callback(self._note_crash)

    def put(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool, timeout: float
    ) -> asyncio.Future[None]:
        """Take a message; its future tells how it ended."""
        self._numbers += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        properties, message_id = message.properties, message.properties.message_id
        if mandatory and not message_id:
            # Without an id aiormq cannot tell which message came back, and would count it as confirmed.
            message_id = secrets.token_hex(16)
            properties = replace(properties, message_id=message_id)
        parcel = Parcel(self._numbers, exchange, routing_key, mandatory, b"", message, message_id, future)
        try:
            parcel.properties = encoding.encode(properties)
            encoding.short("the exchange's name", exchange)
            encoding.short("the routing key", routing_key)
        except encoding.UnencodableError as error:
            parcel.fail(Unsendable, str(error))
            return future
        if reason := encoding.too_large(message.body, parcel.properties):
            parcel.fail(MessageTooLarge, reason)
        elif self._closed is not None:
            parcel.fail(PublishTimeout, self._closed)
        else:
            parcel.stop_clock = self._clock.call_later(timeout, lambda: self._expire(parcel))
            self._waiting.append(parcel)
            self._stir()
        return future

    async def close(self) -> None:
        """Give what is under way a moment, then tell everybody how it stands."""
        try:
            async with asyncio.timeout(CLOSE_GRACE):
                while self._moves:
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            if self._session.standing is not None:
                self._session.standing.deaf.set()
        self._closed = "the transport is closed"
        if self._keeper is not None:
            await stop(self._keeper)
        self._fail_waiting(self._closed)

    @property
    def alarm(self) -> str | None:
        """Why the broker blocks us, in its words; None when it does not."""
        link = self._session.standing
        return link.alarm.reason if link is not None and link.alarm.blocked else None

    @property
    def _moves(self) -> bool:
        """Whether something is under way that may still come to a good end by itself."""
        going = self._waiting or self._under_way or self._lanes.parked
        return bool(going) and self._session.standing is not None and self.alarm is None

    def _note_crash(self, keeper: asyncio.Task[None]) -> None:
        # A fault of ours: it must reach whoever waits, not vanish with the task.
        error = None if keeper.cancelled() else keeper.exception()
        if error is not None:
            self._closed = f"the outbox failed: {error!r}"
            self._fail_waiting(self._closed)

    # --- one connection after the other -------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            try:
                link = await self._session.link()
            except BrokerError as error:
                self._closed = str(error)
                self._fail_waiting(self._closed)
                return
            was_up = False
            try:
                outlet = await Outlet.open(link, confirms=True)
                self._backoff.up()
                was_up = True
                await self._use(link, outlet)
            except faults.TROUBLE:
                await self._clock.sleep(self._backoff.down(was_up=was_up))

    async def _use(self, link: Link, outlet: Outlet) -> None:
        """Send on one channel until it is lost."""
        link.alarm.call_at_end(self._stir)
        sender = asyncio.create_task(self._send(link, outlet), name="amqpkit sender")
        cause = Loss(0, "the transport is closed")
        ends: set[asyncio.Future[Any]] = {sender, outlet.lost}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            crash = sender.exception() if sender.done() else None
            # Without a crash the channel is lost, and the sender may only have seen it before its reason was told.
            cause = faults.loss(crash) if crash is not None else await asyncio.shield(outlet.lost)
        finally:
            # Told before anything is awaited: whoever stops this task may lose patience with a broker that is stuck.
            checks, self._checks = self._checks, set()
            for task in (sender, *checks):
                task.cancel()
            self._settle_all(cause)
            await stop(sender, *checks)
            await outlet.close()
        if not sender.cancelled():
            sender.result()

    async def _send(self, link: Link, outlet: Outlet) -> None:
        while outlet.stands:
            self._wake.clear()
            payload = self._batch(link, outlet)
            if payload:
                await outlet.write(payload)
            else:
                await self._wake.wait()

    def _batch(self, link: Link, outlet: Outlet) -> bytes:
        parts: list[bytes] = []
        size = 0
        # aiormq would go on writing to a broker that has said it does not read.
        while self._waiting and len(self._under_way) < WINDOW and size < BATCH_BYTES and not link.alarm.blocked:
            parcel = self._waiting.popleft()
            if parcel.late:
                self._release(self._lanes.dropped(parcel))
                continue
            if not self._admits(parcel, link):
                continue
            if reason := encoding.too_large(parcel.message.body, parcel.properties, link.frame_max - 8):
                parcel.fail(MessageTooLarge, reason)
                self._release(self._lanes.finished(parcel))
                continue
            parts.append(self._frames(parcel, outlet))
            size += len(parts[-1])
        return b"".join(parts)

    def _frames(self, parcel: Parcel, outlet: Outlet) -> bytes:
        parcel.sent = True
        self._under_way[parcel.number] = parcel
        return outlet.frames(
            Publish(
                parcel.exchange,
                parcel.routing_key,
                parcel.mandatory,
                parcel.properties,
                parcel.message_id,
                parcel.message.body,
                lambda fate: self._settle(parcel, fate),
            )
        )

    # --- what may go now ----------------------------------------------------------------------

    def _admits(self, parcel: Parcel, link: Link) -> bool:
        admitted = self._lanes.admit(parcel)
        if not admitted and self._lanes.wants_check(parcel.exchange):
            check = asyncio.create_task(self._check(link, parcel.exchange), name=f"amqpkit exchange {parcel.exchange}")
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)
        return admitted

    async def _check(self, link: Link, exchange: str) -> None:
        """Learn whether an exchange exists before anything is sent there: a wrong name closes the channel (404)."""
        exists = True
        with suppress(*faults.TROUBLE):
            async with Channel.aside(link) as channel:
                exists = await channel.has_exchange(exchange)
        if exists:
            self._release(self._lanes.exists(exchange))
            return
        for parcel in self._lanes.refused(exchange):
            parcel.fail(Unroutable, no_exchange(exchange))
        self._stir()

    def _release(self, parcels: list[Parcel]) -> None:
        if parcels:
            self._waiting.extendleft(reversed(parcels))
        self._stir()

    def _stir(self) -> None:
        self._wake.set()
        self._stirred.set()

    # --- how it ends --------------------------------------------------------------------------

    def _settle(self, parcel: Parcel, fate: Fate) -> None:
        if self._under_way.pop(parcel.number, None) is None:
            return
        match fate:
            case Fate.CONFIRMED:
                parcel.succeed()
            case Fate.NACKED:
                parcel.fail(Nacked, "a queue is full, or failed to store it")
            case Fate.RETURNED:
                parcel.fail(Unroutable, "no queue is bound for it")
        self._release(self._lanes.finished(parcel))

    def _settle_all(self, cause: Loss) -> None:
        """The channel is gone: whose fault was it, and what of the others?"""
        under_way = list(self._under_way.values())
        self._under_way.clear()
        verdict = blame(cause, under_way)
        for parcel in under_way:
            if parcel is verdict.culprit:
                parcel.fail(verdict.kind, verdict.reason)
            else:
                parcel.fail(PublishUncertain, cause.reason)
        again = [*self._lanes.messages(), *self._waiting]
        self._lanes = Lanes()
        if verdict.exchange is not None:
            # All for that exchange would meet the same refusal, and each take the channel with it.
            for parcel in again:
                if parcel.exchange == verdict.exchange:
                    parcel.fail(verdict.kind, verdict.reason)
            again = [parcel for parcel in again if parcel.exchange != verdict.exchange]
        self._waiting = deque(sorted(again, key=lambda parcel: parcel.number))
        self._stir()

    def _expire(self, parcel: Parcel) -> None:
        parcel.late = not parcel.sent
        if parcel.sent:
            parcel.fail(PublishUncertain, "no confirm within the deadline")
        else:
            kind, reason = (PublishTimeout, "no connection took it within the deadline")
            if self.alarm is not None:
                kind, reason = BrokerBlocked, self.alarm
            parcel.fail(kind, reason)
            while self._waiting and self._waiting[0].late:
                # Through a long outage nobody else would take them away.
                self._release(self._lanes.dropped(self._waiting.popleft()))

    def _fail_waiting(self, reason: str) -> None:
        for parcel in (*self._lanes.messages(), *self._waiting):
            parcel.fail(PublishTimeout, reason)
        self._lanes = Lanes()
        self._waiting.clear()
        self._stir()
