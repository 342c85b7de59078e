"""What is to be published: queued, sent in order within a window, and told its fate. Lives in the loop's thread."""

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from amqpkit.brokers import encoding
from amqpkit.brokers.backoff import Backoff
from amqpkit.brokers.blame import Loss, blame, no_exchange
from amqpkit.brokers.blocking import frames
from amqpkit.brokers.blocking.frames import Confirm, Returned
from amqpkit.brokers.blocking.parcel import Parcel
from amqpkit.brokers.blocking.session import Session, SystemNow
from amqpkit.brokers.blocking.window import Deadlines, Window
from amqpkit.brokers.blocking.wire import Loop, Wire
from amqpkit.brokers.lanes import Lanes
from amqpkit.errors import BrokerBlocked, MessageTooLarge, Nacked, PublishTimeout, PublishUncertain, Unroutable

BACKLOG: Final = 1024 * 1024
"""Bytes that may wait for the socket: more would only lie in memory twice."""
_MISSING: Final = 404


class Outbox:
    """The publishing side of a transport."""

    def __init__(self, session: Session, loop: Loop, window: int) -> None:
        """Store; parcels are taken at once, and sent when a connection stands."""
        self._session, self._loop, self._size = session, loop, window
        self._backoff = Backoff(SystemNow())
        self._numbers = 0
        self._channel: int | None = None
        self._window: Window[Parcel] = Window()
        self._waiting: deque[Parcel] = deque()
        self._lanes: Lanes[Parcel] = Lanes()
        self.alive: dict[int, Parcel] = {}
        """All whose fate is not told yet."""
        self._deadlines = Deadlines(self.alive.__contains__)
        self._timer: tuple[float, Any] | None = None

    def put(self, parcels: Iterable[Parcel]) -> None:
        """Take messages."""
        for parcel in parcels:
            self._numbers += 1
            parcel.number = self._numbers
            self.alive[parcel.number] = parcel
            self._deadlines.add(parcel.deadline, parcel.number)
            self._waiting.append(parcel)
        self._watch()
        self._send()

    def end(self, reason: str) -> None:
        """Tell everybody how it stands; nothing is sent any more."""
        self._settle_all(Loss(0, reason))
        self._drop_waiting(reason)
        if self._timer is not None:
            self._loop.remove_timeout(self._timer[1])
            self._timer = None

    def _drop_waiting(self, reason: str) -> None:
        for parcel in list(self.alive.values()):
            self._fail(parcel, PublishTimeout, reason)
        self._lanes, self._waiting = Lanes(), deque()

    # --- channels -----------------------------------------------------------------------------

    def up(self, wire: Wire) -> None:
        """Send by this connection from now on."""
        self._backoff.up()
        wire.open_outlet(self._ready, self._hear, self._lost)

    def _ready(self, channel: int) -> None:
        self._channel, self._window = channel, Window()
        self._send()

    def _lost(self, cause: Loss) -> None:
        was_up, self._channel = self._channel is not None, None
        self._settle_all(cause)
        self._loop.call_later(self._backoff.down(was_up=was_up), self._again)

    def _again(self) -> None:
        # A connection that came meanwhile has opened its own channel.
        wire = self._session.standing
        if wire is not None and self._channel is None and wire.outlets == 0:
            self.up(wire)

    # --- out ----------------------------------------------------------------------------------

    def _send(self) -> None:
        wire, channel = self._session.standing, self._channel
        if wire is None or channel is None or self._session.blocked is not None:
            return
        parts: list[bytes] = []
        size, room = wire.backlog, wire.room
        while self._waiting and len(self._window) < self._size and size < BACKLOG:
            parcel = self._waiting.popleft()
            if not self._may_go(parcel, wire):
                continue
            parcel.sent = True
            self._window.add(parcel)
            exchange, key = parcel.address
            pieces = frames.publish(
                channel, exchange, key, parcel.properties, parcel.message.body, mandatory=parcel.mandatory, room=room
            )
            parts += pieces
            size += sum(map(len, pieces))
        if parts:
            wire.emit(parts)

    def _may_go(self, parcel: Parcel, wire: Wire) -> bool:
        if parcel.late:
            self._release(self._lanes.dropped(parcel))
            return False
        if not self._lanes.admit(parcel):
            if self._lanes.wants_check(parcel.exchange):
                # Before anything is sent there: a wrong name closes the channel (404).
                wire.ask("exchange", parcel.exchange, lambda answer: self._checked(parcel.exchange, answer))
            return False
        if reason := encoding.too_large(parcel.message.body, parcel.properties, wire.room):
            self._fail(parcel, MessageTooLarge, reason)
            self._release(self._lanes.finished(parcel))
            return False
        return True

    def _checked(self, exchange: str, answer: int | Loss) -> None:
        # Other losses tell nothing: on 4.3 the question needs a permission that publishing does not (measured).
        if isinstance(answer, Loss) and answer.code == _MISSING:
            for parcel in self._lanes.refused(exchange):
                self._fail(parcel, Unroutable, no_exchange(exchange))
        else:
            self._release(self._lanes.exists(exchange))
        self._send()

    def _release(self, parcels: list[Parcel]) -> None:
        self._waiting.extendleft(reversed(parcels))

    # --- how it ends --------------------------------------------------------------------------

    def _hear(self, words: list[Confirm | Returned]) -> None:
        for word in words:
            if isinstance(word, Returned):
                self._window.returned(word.message_id)
                continue
            for parcel, returned in self._window.settled(word.tag, multiple=word.multiple):
                self._settle(parcel, word, returned=returned)
        self._send()

    def _settle(self, parcel: Parcel, word: Confirm, *, returned: bool) -> None:
        if not word.taken:
            self._fail(parcel, Nacked, "a queue is full, or failed to store it")
        elif returned:
            self._fail(parcel, Unroutable, "no queue is bound for it")
        else:
            self.alive.pop(parcel.number, None)
            parcel.succeed()
        self._release(self._lanes.finished(parcel))

    def _fail(self, parcel: Parcel, kind: type[PublishTimeout] | Any, reason: str) -> None:
        self.alive.pop(parcel.number, None)
        parcel.fail(kind, reason)

    def _settle_all(self, cause: Loss) -> None:
        """The channel is gone: whose fault was it, and what of the others?"""
        under_way, self._window = self._window.messages(), Window()
        verdict = blame(cause, under_way)
        for parcel in under_way:
            if parcel is verdict.culprit:
                self._fail(parcel, verdict.kind, verdict.reason)
            else:
                self._fail(parcel, PublishUncertain, cause.reason)
        again = [*self._lanes.messages(), *self._waiting]
        self._lanes = Lanes()
        if verdict.exchange is not None:
            # All for that exchange would meet the same refusal, and each take the channel with it.
            for parcel in again:
                if parcel.exchange == verdict.exchange:
                    self._fail(parcel, verdict.kind, verdict.reason)
            again = [parcel for parcel in again if parcel.exchange != verdict.exchange]
        self._waiting = deque(sorted(again, key=lambda parcel: parcel.number))

    # --- deadlines ----------------------------------------------------------------------------

    def _watch(self) -> None:
        """Keep one timer, for the earliest deadline."""
        due = self._deadlines.next
        if due is None or (self._timer is not None and self._timer[0] <= due):
            return
        if self._timer is not None:
            self._loop.remove_timeout(self._timer[1])
        self._timer = (due, self._loop.call_later(max(0.0, due - time.monotonic()), self._expire))

    def _expire(self) -> None:
        self._timer = None
        for number in self._deadlines.due(time.monotonic()):
            parcel = self.alive[number]
            parcel.late = not parcel.sent
            if parcel.sent:
                self._fail(parcel, PublishUncertain, "no confirm within the deadline")
            elif self._session.blocked is not None:
                self._fail(parcel, BrokerBlocked, self._session.blocked)
            else:
                self._fail(parcel, PublishTimeout, "no connection took it within the deadline")
        while self._waiting and self._waiting[0].late:
            # Through a long outage nobody else would take them away.
            self._release(self._lanes.dropped(self._waiting.popleft()))
        self._watch()
