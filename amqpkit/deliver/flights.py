"""Publishes performed in their caller's thread: one, or many at once, each by the same flow as an async publisher's.

The transport's thread only says that an answer is there; what follows from it is done by whoever waits.
"""

import heapq
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from enum import Enum, auto
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from amqpkit.deliver.brakes import Gate
from amqpkit.deliver.outgoing import Order, named, second_copy
from amqpkit.deliver.places import Places
from amqpkit.deliver.sending import Answer, AskDepth, Effect, End, Terms, Transmit, Wait, sending
from amqpkit.errors import BrokerBlocked, BrokerError, Nacked, PublishError, PublishTimeout, PublishUncertain
from amqpkit.events import DepthUnknown, OnEvent
from amqpkit.ports import BlockingTransport

OnEnd = Callable[["Flight", End], None]
Said = SimpleQueue[tuple["Flight", bool]]
"""What a flight has heard: that it has a place in the window, or (false) that its answer is there."""
_SWEEP: Final = 1000
"""So many timers may be left over from earlier steps."""
_LONGEST: Final = 3600.0
"""Seconds of one wait: a deadline may be farther away than the system can count."""


class Shared:
    """What all threads of one process share: the window, the lock over gates and pace, who asks about which queue."""

    def __init__(self, window: int) -> None:
        """Begin with nothing under way."""
        self.places = Places(window)
        self.lock = threading.Lock()
        self.nacked_at: float | None = None
        self._asking: dict[str, threading.Event] = {}

    def ask(self, gate: Gate, transport: BlockingTransport, seconds: float) -> str | None:
        """Wait for the answer of whoever asks about this queue already, or ask.

        Says why there is none, if that is news. Whatever is wrong with the broker, the publish itself meets it and has
        a name for it.
        """
        mine, depth, reason, is_news = threading.Event(), None, "", False
        asking = mine
        try:
            with self.lock:
                asking = self._asking.setdefault(gate.queue, mine)
                if asking is mine:
                    gate.asked()
            if asking is mine:
                depth = transport.depth(gate.queue, timeout=seconds)
            elif not asking.wait(seconds):
                reason = f"no answer within {seconds:g} s"
                with self.lock:
                    is_news = gate.told(None, time.monotonic())
                    if self._asking.get(gate.queue) is asking:
                        del self._asking[gate.queue]  # it may never come, after an interrupt: the next asks anew
        except BrokerError as error:
            reason = str(error)
        finally:
            if asking is mine:
                with self.lock:
                    is_news = gate.told(depth, time.monotonic())
                    if self._asking.get(gate.queue) is mine:
                        del self._asking[gate.queue]
                mine.set()
        return reason if is_news else None


class Stage(Enum):
    """How far a message has come."""

    HELD = auto()
    """It was not handed over yet."""
    UNDER_WAY = auto()
    """It was, or is just now; there is no answer yet."""
    ANSWERED = auto()
    """`error` says what came of its last try."""


class Flight:
    """One message on its way; whatever moment an interrupt comes at, `given_up` has the truth of it."""

    __slots__ = (
        "begun",
        "deadline",
        "end",
        "error",
        "flow",
        "lined_up",
        "order",
        "places",
        "said",
        "stage",
        "step",
        "tag",
        "tries",
        "watched",
    )

    def __init__(self, order: Order, terms: Terms, tag: int) -> None:
        """Begin now; `tag` is the caller's own."""
        self.order, self.tag = order, tag
        self.begun = time.monotonic()
        self.flow: Generator[Effect, Answer, End] = sending(terms, self.begun)
        self.places: Places
        self.said: Said
        self.lined_up = self.watched = False
        self.step, self.tries, self.deadline = 0, 0, 0.0
        self.stage = Stage.HELD
        self.error: PublishError | None = None
        self.end: End | None = None

    # Methods, where closures would do: each of those would be a cycle, left to the garbage collector.

    def granted(self) -> None:
        """Hear, in whatever thread, that a place in the window is ours."""
        self.said.put((self, True))

    def answered(self, future: Future[None]) -> None:
        """Hear, in the transport's thread, what came of it."""
        self.error = future.exception()  # type: ignore[assignment] # a transport's future carries no other
        self.stage = Stage.ANSWERED
        self.places.leave(self.granted)
        self.said.put((self, False))

    def given_up(self) -> End:
        """Say how it stands when its caller waits no longer."""
        if self.end is not None:
            return self.end
        match self.stage:
            case Stage.HELD:
                error: PublishError | None = PublishTimeout("it was given up before it was sent")
            case Stage.UNDER_WAY:
                error = PublishUncertain("the wait for its confirm was given up")
            case Stage.ANSWERED:
                error = self.error
        return End(self.tries, error and named(error, self.order))


class Flights:
    """The messages of one caller; nothing moves but in its calls."""

    def __init__(self, shared: Shared, transport: BlockingTransport, on_event: OnEvent, on_end: OnEnd) -> None:
        """Begin with none; `on_end` hears the end of each."""
        self._shared, self._transport, self._on_event, self._on_end = shared, transport, on_event, on_end
        self._said: Said = SimpleQueue()
        self._timers: list[tuple[float, int, int, Flight]] = []
        self._order = count()
        self._flying: dict[Flight, None] = {}

    def __len__(self) -> int:
        return len(self._flying)

    def begin(self, flight: Flight) -> None:
        """Take a message as far as it goes without waiting."""
        flight.places, flight.said = self._shared.places, self._said
        self._flying[flight] = None
        self._go(flight, None)

    def wait(self, most: float | None = None) -> None:
        """Wait until something has happened to one of them, `most` seconds at the most."""
        seconds = None if not self._timers else min(_LONGEST, max(0.0, self._timers[0][0] - time.monotonic()))
        if most is not None:
            seconds = most if seconds is None else min(most, seconds)
        try:
            self._hear(*self._said.get(timeout=seconds))
        except Empty:
            self._ring()

    def poll(self) -> None:
        """Look what has happened, without waiting."""
        while not self._said.empty():
            self._hear(*self._said.get())
        self._ring()

    def give_up(self) -> None:
        """Wait no longer for any: what was sent may be stored.

        An end that an interrupt kept from being told, or from being told to all, is told now; perhaps once more.
        """
        places = self._shared.places
        for flight in list(self._flying):
            on_its_way = flight.stage is Stage.UNDER_WAY and flight.watched  # its answer gives the place back
            if not on_its_way and not places.withdraw(flight.granted):
                places.leave(flight.granted)
            del self._flying[flight]
            self._on_end(flight, flight.given_up())

    # --- one message --------------------------------------------------------------------------

    def _go(self, flight: Flight, answer: Answer | None) -> None:
        while True:
            try:
                with self._shared.lock:  # gates and pace belong to all threads
                    effect = next(flight.flow) if answer is None else flight.flow.send(answer)
            except StopIteration as stop:
                end: End = stop.value
                self._land(flight, End(end.tries, named(end.error, flight.order)) if end.error is not None else end)
                return
            flight.step += 1
            if not isinstance(effect, AskDepth):
                break
            if (reason := self._shared.ask(effect.gate, self._transport, effect.timeout)) is not None:
                self._on_event(DepthUnknown(effect.gate.queue, reason))
            answer = (time.monotonic(), None)
        if isinstance(effect, Wait):
            self._set_timer(flight, time.monotonic() + effect.seconds)
        else:
            self._line_up(flight, effect)

    def _line_up(self, flight: Flight, effect: Transmit) -> None:
        flight.tries, flight.deadline = effect.tries, time.monotonic() + effect.timeout
        if self._shared.places.enter(flight.granted):
            self._transmit(flight)
        else:
            flight.lined_up = True
            self._set_timer(flight, flight.deadline)

    def _transmit(self, flight: Flight) -> None:
        order, flight.lined_up, flight.watched = flight.order, False, False
        flight.step += 1
        if flight.tries > 1 and (event := second_copy(order, flight.tries)) is not None:
            self._on_event(event)
        flight.stage = Stage.UNDER_WAY  # before it is: an interrupt in between must not call it unsent
        try:
            future = self._transport.publish(
                order.exchange,
                order.routing_key,
                order.message,
                mandatory=order.mandatory,
                timeout=max(0.0, flight.deadline - time.monotonic()),
            )
        except Exception:  # it was not taken; after an interrupt it may have been, and goes on flying
            self._shared.places.leave(flight.granted)
            del self._flying[flight]
            raise
        future.add_done_callback(flight.answered)
        flight.watched = True

    def _hear(self, flight: Flight, granted: bool) -> None:  # noqa: FBT001 - what comes out of the queue
        if flight not in self._flying:
            return
        if granted:
            self._transmit(flight)
            return
        if isinstance(flight.error, Nacked):
            self._shared.nacked_at = time.monotonic()
        self._go(flight, (time.monotonic(), flight.error))

    def _land(self, flight: Flight, end: End) -> None:
        flight.end = end  # an interrupt from here on does not keep it from being told
        self._on_end(flight, end)
        del self._flying[flight]

    # --- time ---------------------------------------------------------------------------------

    def _set_timer(self, flight: Flight, when: float) -> None:
        heapq.heappush(self._timers, (when, next(self._order), flight.step, flight))
        if len(self._timers) > _SWEEP + 2 * len(self._flying):
            self._timers = [timer for timer in self._timers if self._is_current(timer[3], timer[2])]
            heapq.heapify(self._timers)

    def _is_current(self, flight: Flight, step: int) -> bool:
        return flight.step == step and flight in self._flying

    def _ring(self) -> None:
        """Wake those whose time has come; a timer of an earlier step rings for nobody."""
        while self._timers and self._timers[0][0] <= time.monotonic():
            _, _, step, flight = heapq.heappop(self._timers)
            if not self._is_current(flight, step):
                continue
            if not flight.lined_up:
                self._go(flight, (time.monotonic(), None))
            elif self._shared.places.withdraw(flight.granted):
                flight.lined_up = False
                self._go(flight, (time.monotonic(), self._no_place()))

    def _no_place(self) -> PublishTimeout:
        kind = BrokerBlocked if self._transport.blocked else PublishTimeout
        return kind(f"all {self._shared.places.size} places of the window stayed taken")
