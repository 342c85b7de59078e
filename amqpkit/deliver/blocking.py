"""Publishing for code that blocks: the same promises, outcomes and brakes as `publisher.Publisher`, from any thread."""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from amqpkit.deliver.brakes import Gate, Pace, pressure
from amqpkit.deliver.flights import Flight, Flights, Shared
from amqpkit.deliver.listening import listeners
from amqpkit.deliver.outgoing import Order, Outcome, check_topology, made, order_of, told
from amqpkit.deliver.patience import after_nack
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.publisher import Overload, check_limits, check_terms, system_clock
from amqpkit.deliver.sending import End, Terms
from amqpkit.deliver.spans import Tracing, traced
from amqpkit.errors import PublishError
from amqpkit.events import OnEvent, ignore
from amqpkit.model import Topology
from amqpkit.ports import BlockingTransport, Clock


class BlockingPublisher:
    """Publishes payloads to where the topology routes their type: mandatory, confirmed, persistent, within limits.

    One serves all threads of a process, and its forked children too: each child has a window, a pace and a connection
    of its own. Window, limits and back-off are those of `Publisher`. As a context manager it closes its transport.
    """

    def __init__(  # noqa: PLR0913 - its parts and limits, each with a default
        self,
        topology: Topology,
        transport: BlockingTransport,
        *,
        clock: Clock | None = None,
        timeout: float = 30.0,
        window: int = 500,
        overload: Overload = "wait",
        rate: float | None = None,
        on_event: OnEvent = ignore,
        tracing: Tracing | None = None,
    ) -> None:
        """Keep the parts.

        `timeout` in seconds is the deadline of each publish: connecting, an alarm, a full queue and the confirm
        included. `overload` says what to do about a full queue: `wait` for it until the deadline, or `fail` at once
        with Overloaded (above its `limits.depth`) or Nacked. `rate` is in messages a second, for each process.
        `clock` only dates the messages. `tracing` opens a span around each publish. Raises ValueError, and
        TypeError for what is no Topology.
        """
        check_topology(topology)
        check_terms(timeout, overload)
        check_limits(timeout=timeout, window=window, rate=1 if rate is None else rate)
        self._topology, self._transport, self._timeout = topology, transport, timeout
        self._window, self._overload, self._rate = window, overload, rate
        self._on_event, self._tracing = listeners(on_event), tracing
        self._clock = clock or system_clock()
        self._local = _Local(topology, window, rate)

    def __enter__(self) -> Self:
        """Give it back."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close its transport, after what is under way has had a moment."""
        self._transport.close()

    def publish(  # noqa: PLR0913 - what AMQP lets a producer say of one message
        self,
        payload: Payload,
        *,
        key: str | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, Any] | None = None,
        mandatory: bool = True,
        timeout: float | None = None,
        overload: Overload | None = None,
    ) -> str:
        """Publish and wait until the broker has the message; returns its id.

        Arguments and errors are those of `Publisher.publish`; when it returns, the message is stored. A
        KeyboardInterrupt ends the wait, not the message: its fate is unknown then.
        """
        order = order_of(
            self._topology,
            payload,
            self._clock,
            mandatory=mandatory,
            key=key,
            message_id=message_id,
            correlation_id=correlation_id,
            priority=priority,
            headers=headers,
        )
        self.send(order, timeout=timeout, overload=overload)
        return order.message_id

    def send(
        self,
        order: Order,
        *,
        timeout: float | None = None,
        overload: Overload | None = None,
    ) -> None:
        """Send a message that is made already; raises as `publish` does."""
        check_terms(timeout, overload)
        ends: list[End] = []
        flights = self._flights(lambda _flight, end: ends.append(end))
        try:
            flights.begin(Flight(traced(order, self._tracing), self._terms(order, timeout, overload), 0))
            while not ends:
                flights.wait()
        except BaseException:
            flights.give_up()
            raise
        if ends[0].error is not None:
            raise ends[0].error

    def publish_many(
        self,
        payloads: Iterable[Any],
        *,
        of: type[Payload] | None = None,
        progress: Callable[[Outcome], None] | None = None,
        timeout: float | None = None,
        overload: Overload | None = None,
    ) -> list[Outcome]:
        """Publish many at once, begun in order, and return how each ended, in order; nothing of theirs is raised.

        A payload is taken only when the window has room for it. With `of`, items may also be mappings or JSON text,
        which are validated against that class. A `rate` holds the taking, so `timeout` in seconds is each message's
        own, from when it is taken and has its turn.
        `progress` hears each outcome as it comes, in the caller's thread; it is told of what was under way, too, when
        a KeyboardInterrupt ends the wait. Raises what `payloads` or `progress` raises, after what was under way has
        ended.
        """
        check_terms(timeout, overload)
        tally = _Tally(progress)
        flights = self._flights(lambda flight, end: tally.note(Outcome(flight.tag, flight.order.message_id, end.error)))
        try:
            try:
                for index, item in enumerate(payloads):
                    self._await_turn(flights)
                    try:
                        order = made(self._topology, item, self._clock, of=of)
                    except PublishError as error:
                        tally.note(Outcome(index, error.message_id, error))
                    else:
                        order = traced(order, self._tracing)
                        terms = self._terms(order, timeout, overload, paced=False)  # its turn is over
                        flights.begin(Flight(order, terms, index))
                    flights.poll()
                    while len(flights) >= self._window:
                        flights.wait()
                    if tally.failure is not None:
                        break
            except Exception as error:  # noqa: BLE001 - it is raised when the others have ended
                tally.failure = error
            while len(flights):
                flights.wait()
        except BaseException:
            flights.give_up()
            raise
        return tally.total()

    @property
    def pressure(self) -> float:
        """How hard the brakes are on, from 0 to 1: see `Publisher.pressure`."""
        local = self._here
        return pressure(
            time.monotonic(),
            under_way=local.shared.places.taken,
            window=self._window,
            gates=local.gates.values(),
            blocked=self._transport.blocked,
            nacked_at=local.shared.nacked_at,
        )

    @property
    def _here(self) -> "_Local":
        """What belongs to this process: a child must not wait for locks that a thread of its parent held."""
        if self._local.process != os.getpid():
            self._local = _Local(self._topology, self._window, self._rate)
        return self._local

    def _flights(self, on_end: Callable[[Flight, End], None]) -> Flights:
        def ended(flight: Flight, end: End) -> None:
            if self._on_event is not ignore:
                for event in told(flight.order, end.error, end.tries, time.monotonic() - flight.begun):
                    self._on_event(event)
            if flight.order.sent is not None:
                flight.order.sent(end.error)
            on_end(flight, end)

        return Flights(self._here.shared, self._transport, self._on_event, ended)

    def _await_turn(self, flights: Flights) -> None:
        """Wait for the next turn, however long that takes, and see to what is under way."""
        local = self._here
        if local.pace is None:
            return
        begun = time.monotonic()
        with local.shared.lock:
            due = begun + (local.pace.reserve(begun, math.inf) or 0.0)
        while (left := due - time.monotonic()) > 0:
            flights.wait(left)

    def _terms(self, order: Order, timeout: float | None, overload: Overload | None, *, paced: bool = True) -> Terms:
        local = self._here
        return Terms(
            self._timeout if timeout is None else timeout,
            (overload or self._overload) == "wait",
            local.gates_of(order.type),
            local.pace if paced else None,
            after_nack,
        )


class _Local:
    """A publisher's window, gates and pace in one process."""

    def __init__(self, topology: Topology, window: int, rate: float | None) -> None:
        self.process = os.getpid()
        self.shared = Shared(window)
        self.pace = None if rate is None else Pace(rate)
        self.gates = {
            queue.name: Gate(queue.name, queue.depth_limit)
            for queue in topology.work_queues.values()
            if queue.depth_limit
        }
        self._takers = {name: topology.work_queues[name].accepts for name in self.gates}

    def gates_of(self, type: str) -> tuple[Gate, ...]:  # noqa: A002 - AMQP's word
        """The queues with a limit that accept this type."""
        if not self.gates:
            return ()
        return tuple(gate for name, gate in self.gates.items() if type in self._takers[name])


class _Tally:
    """The outcomes of many, and the first failure of whoever hears of them."""

    def __init__(self, progress: Callable[[Outcome], None] | None) -> None:
        self._progress, self._outcomes = progress, list[Outcome]()
        self.failure: Exception | None = None

    def note(self, outcome: Outcome) -> None:
        """Count one; a listener's failure is kept, for what is under way must end first."""
        self._outcomes.append(outcome)
        try:
            if self._progress is not None:
                self._progress(outcome)
        except Exception as error:  # noqa: BLE001 - raised by `total`
            self.failure = self.failure or error

    def total(self) -> list[Outcome]:
        """Give all, in the order of the input, or raise the failure."""
        if self.failure is not None:
            raise self.failure
        return sorted(self._outcomes, key=lambda outcome: outcome.index)
