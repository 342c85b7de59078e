"""The one thread that owns the connections and turns their loop; everybody else only hands things over."""

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Final

from amqpkit.brokers.blocking.inquiry import Inquiry
from amqpkit.brokers.blocking.outbox import Outbox
from amqpkit.brokers.blocking.parcel import Parcel
from amqpkit.brokers.blocking.session import GOODBYE, Session
from amqpkit.brokers.blocking.wire import Address, Loop, Wire
from amqpkit.errors import BrokerError, ConnectionFailed, PublishTimeout, PublishUncertain
from amqpkit.events import Event, OnEvent
from amqpkit.ports import BrokerInfo

log = logging.getLogger("amqpkit.events")

CLOSE_GRACE: Final = 2.0
"""Seconds that closing gives to what is under way."""
_POLL: Final = 0.01
"""Seconds between two looks, while closing, at whether all is answered."""
CLOSED: Final = "the transport is closed"


class Pump:
    """A loop, its thread, and what lives there: the session, the outbox, the inquiry.

    The thread is a daemon: the interpreter would wait for another kind before it calls what tells it to end.
    """

    def __init__(self, address: Address, window: int, on_event: OnEvent) -> None:
        """Build; nothing runs before `start`."""
        self._loop = Loop()
        self._session = Session("publish", address, self._loop, _harmless(on_event), self)
        self._outbox = Outbox(self._session, self._loop, window)
        self._inquiry = Inquiry(address, self._loop)
        self._incoming: deque[Parcel] = deque()
        self._woken = False
        self._leaving = False
        self._left = 2
        self.over_because: str | None = None
        """Why nothing is taken any more."""
        self.refusal: BrokerError | None = None
        self.opened = Future[BrokerInfo]()
        self.thread = threading.Thread(target=self._run, name="amqpkit publisher", daemon=True)

    # --- any thread ---------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        """Whether the broker takes no messages now."""
        return self._session.blocked is not None

    def start(self, patience: float | None = None) -> None:
        """Connect; with `patience` in seconds, `opened` carries the error when nobody has answered by then."""
        self._loop.add_callback_threadsafe(lambda: self._session.start(patience))
        self.thread.start()

    def put(self, parcel: Parcel) -> None:
        """Hand over a message."""
        self._incoming.append(parcel)
        if self.over_because is not None:
            self._fail_incoming(self.over_because)
        elif not self._woken:
            # One wake-up for all that come before the loop has turned.
            self._woken = True
            try:
                self._loop.add_callback_threadsafe(self._drain)
            except BaseException:  # an interrupt: nobody else would wake it, now or later
                self._woken = False
                self._loop.add_callback_threadsafe(self._drain)
                raise

    def ask(self, queue: str) -> Future[int]:
        """Hand over a question."""
        answer: Future[int] = Future()
        answer.set_running_or_notify_cancel()
        if self.over_because is not None:
            answer.set_exception(ConnectionFailed(self.over_because))
        else:
            self._loop.add_callback_threadsafe(lambda: self._inquiry.ask(queue, answer))
        return answer

    def leave(self) -> None:
        """Begin to end: what is under way gets a moment."""
        self._loop.add_callback_threadsafe(self._leave)

    def join(self) -> None:
        """Wait until it has ended; for a bounded time, whatever the broker does."""
        if self.thread is not threading.current_thread():
            self.thread.join(CLOSE_GRACE + GOODBYE + 1)

    def disown(self) -> None:
        """In a forked child: let go of what is the parent's. Nothing here may be waited for, least of all a lock."""
        if self.over_because is not None:
            return
        self.over_because = "it belongs to the parent of this process"
        for parcel in (*self._outbox.alive.values(), *self._incoming):
            parcel.future = _reborn(parcel.future)
            parcel.fail(PublishUncertain, "the process was forked while it was under way; the parent goes on with it")
        self._session.disown()
        self._inquiry.disown()
        self._loop.disown()

    # --- the loop's thread --------------------------------------------------------------------

    def _run(self) -> None:
        reason = CLOSED
        try:
            self._loop.start()
        except BaseException as error:  # a fault of ours or of a listener: it must reach whoever waits
            reason = f"the transport failed: {error!r}"
            raise
        finally:
            self._finish(reason)

    def _finish(self, reason: str) -> None:
        self._give_up(ConnectionFailed(reason))
        self.over_because = self.over_because or reason
        self._outbox.end(self.over_because)
        self._fail_incoming(self.over_because)
        self._session.disown()  # nothing is left of it, unless the loop has failed
        self._inquiry.disown()
        self._loop.close()

    def _fail_incoming(self, reason: str) -> None:
        while self._incoming:
            try:
                parcel = self._incoming.popleft()
            except IndexError:  # another thread was quicker
                return
            parcel.fail(PublishTimeout, reason)

    def _drain(self) -> None:
        self._woken = False
        parcels = []
        while self._incoming:
            parcels.append(self._incoming.popleft())
        if self.over_because is not None:
            for parcel in parcels:
                parcel.fail(PublishTimeout, self.over_because)
            return
        try:
            self._outbox.put(parcels)
        except BaseException as error:  # a fault of ours; the rest is told by `_finish`
            for parcel in parcels:
                parcel.fail(PublishTimeout, f"the transport failed: {error!r}")
            raise

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._drain()
            self._wait_and_close(time.monotonic() + CLOSE_GRACE)

    def _wait_and_close(self, until: float) -> None:
        if self._outbox.alive and self._session.standing is not None and time.monotonic() < until:
            self._loop.call_later(_POLL, lambda: self._wait_and_close(until))
            return
        politely = not self._outbox.alive  # a broker that does not answer would not say goodbye either
        self.over_because = self.over_because or CLOSED
        self._outbox.end(CLOSED)
        self._session.close(self._one_left, politely=politely)
        self._inquiry.close(self._one_left)
        self._loop.call_later(GOODBYE + 0.5, self._loop.stop)

    def _one_left(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._loop.stop()

    # --- what the session says ----------------------------------------------------------------

    def up(self, wire: Wire) -> None:
        """Send by it."""
        if not self.opened.done():
            self.opened.set_result(wire.info)
        self._outbox.up(wire)

    def down(self) -> None:
        """The outbox has heard it from its channel."""

    def over(self, reason: BrokerError) -> None:
        """Nobody will connect again: say so to all, now and later."""
        self.over_because, self.refusal = str(reason), reason
        self._give_up(reason)
        self._outbox.end(str(reason))
        self._drain()
        self._leave()

    def unblocked(self) -> None:
        """Send what waited."""
        self._outbox.put(())

    def _give_up(self, reason: BrokerError) -> None:
        if not self.opened.done():
            self.opened.set_exception(reason)


def _harmless(on_event: OnEvent) -> OnEvent:
    """Guard against a listener that raises: it would take the connection along."""

    def tell(event: Event) -> None:
        try:
            on_event(event)
        except Exception:
            log.exception("a listener failed on %s", type(event).__name__)

    return tell


def _reborn(future: Future[None]) -> Future[None]:
    """Make a future usable again whose lock may have been held, in the parent, by a thread that is not here."""
    Future.__init__(future)
    future.set_running_or_notify_cancel()
    return future
