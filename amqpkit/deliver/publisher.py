"""Publishing: a payload is routed by the topology, confirmed by the broker, or its fate is an exception."""

import asyncio
import math
import time
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, get_args

from amqpkit.deliver.brakes import Gate, Pace, pressure
from amqpkit.deliver.listening import listeners
from amqpkit.deliver.outgoing import Order, Outcome, check_topology, made, named, order_of, second_copy, told
from amqpkit.deliver.patience import after_nack
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.pipeline import pipelined
from amqpkit.deliver.sending import Answer, AskDepth, Effect, End, Terms, Transmit, Wait, sending
from amqpkit.deliver.spans import Tracing, traced
from amqpkit.deliver.window import Window
from amqpkit.errors import (
    BrokerBlocked,
    BrokerError,
    Nacked,
    PublishError,
    PublishTimeout,
    PublishUncertain,
)
from amqpkit.events import DepthUnknown, OnEvent, ignore
from amqpkit.model import Topology
from amqpkit.ports import Clock, Transport

Overload = Literal["wait", "fail"]
OnEnd = Callable[[Order, End], None]


class Publisher:
    """Publishes payloads to where the topology routes their type: mandatory, confirmed, persistent, within limits.

    It feels the brakes: at most `window` messages are under way; a queue with `limits.depth` holds the types that it
    accepts while it is above it (asked now and then, and open again at 80 %); what a full queue nacks is sent again
    with back-off; all of that within each publish's deadline. `pressure` says how hard the brakes are on.
    """

    def __init__(  # noqa: PLR0913 - its parts and limits, each with a default
        self,
        topology: Topology,
        transport: Transport,
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
        with Overloaded (above its `limits.depth`) or Nacked. `rate` is in messages a second. `tracing` opens a span
        around each publish. Raises ValueError, and TypeError for what is no Topology.
        """
        check_topology(topology)
        check_terms(timeout, overload)
        check_limits(timeout=timeout, window=window, rate=1 if rate is None else rate)
        self._topology, self._transport, self._timeout = topology, transport, timeout
        self._on_event, self._tracing = listeners(on_event), tracing
        self._clock = clock or system_clock()
        # a step of the machine's clock must not end a publish, nor prolong it
        self._now: Callable[[], float] = time.monotonic if clock is None else lambda: clock.now().timestamp()
        self._overload: Overload = overload
        self._pace = None if rate is None else Pace(rate)
        self._window = Window(window, self._clock)
        self._gates = {
            queue.name: Gate(queue.name, queue.depth_limit)
            for queue in topology.work_queues.values()
            if queue.depth_limit
        }
        self._usual: dict[str, Terms] = {}
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._nacked_at: float | None = None

    async def publish(  # noqa: PLR0913 - what AMQP lets a producer say of one message
        self,
        payload: Payload,
        *,
        key: str | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, Any] | None = None,
        mandatory: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109 - it covers the broker's confirm too, not only this wait
        overload: Overload | None = None,
    ) -> str:
        """Publish and wait until the broker has the message; returns its id.

        `key` is the idempotency key (default: the payload's business key, else the message id), `mandatory=False`
        gives up the promise that some queue gets it. `priority` is 0 to 255; a quorum queue of RabbitMQ 4.0 has two
        levels (0 to 4, and 5 or more) and takes turns between them, one of 4.3 has 32 (0 to 31, more is 31) and
        delivers the higher first; unset counts as 4 there. Copies for retries keep it. `timeout` and `overload` beat
        the publisher's own.

        Raises Unroutable, Nacked, Overloaded, PublishTimeout (BrokerBlocked in an alarm), PublishUncertain, Unsendable
        or MessageTooLarge, PublishError for what cannot be said in a message, and ValueError for a `timeout` or
        `overload` that means nothing; when it returns, the message is stored. Cancelled while the message is on its
        way, its fate is unknown.
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
        await self.send(order, timeout=timeout, overload=overload)
        return order.message_id

    async def send(
        self,
        order: Order,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it covers the broker's confirm too, not only this wait
        overload: Overload | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        """Send a message that is made already; raises as `publish` does. `on_end` hears its end, cancelled or not."""
        await self._send(order, self._terms(order.type, timeout, overload), on_end)

    async def _send(self, order: Order, terms: Terms, on_end: OnEnd | None) -> None:
        order = traced(order, self._tracing)
        begun, flight, end = self._now(), _Flight(), None
        try:
            end = await self._perform(order, sending(terms, begun), flight)
        except asyncio.CancelledError:
            end = flight.given_up(order)
            raise
        finally:
            if end is not None:
                self._tell(order, end, begun, on_end)
        if end.error is not None:
            raise end.error

    async def publish_many(
        self,
        payloads: Iterable[Any] | AsyncIterable[Any],
        *,
        of: type[Payload] | None = None,
        progress: Callable[[Outcome], None] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of each message, from when it is taken
        overload: Overload | None = None,
    ) -> list[Outcome]:
        """Publish many at once and return how each ended, in order; nothing of theirs is raised.

        A payload is taken only when the window has room for it. Begun in order; one that is held or sent again is
        overtaken by others. With `of`, items may also be mappings or JSON text,
        which are validated against that class. A `rate` holds the taking, so `timeout` in seconds is each message's
        own, from when it is taken and has its turn.
        `progress` hears each outcome as it comes; it is told of what was under way, too, when this is cancelled.
        Raises ValueError as `publish` does, and what `payloads` or `progress` raises, after what was under way has
        ended.
        """
        check_terms(timeout, overload)
        outcomes: list[Outcome] = []

        def note(index: int, message_id: str, error: PublishError | None) -> None:
            outcome = Outcome(index, message_id, error)
            outcomes.append(outcome)
            if progress is not None:
                progress(outcome)

        async def send(index: int, item: object) -> None:
            try:
                order = made(self._topology, item, self._clock, of=of)
            except PublishError as error:
                note(index, error.message_id, error)
                await asyncio.sleep(0)  # nothing else here lets others run
                return
            terms = self._terms(order.type, timeout, overload)
            if self._pace is not None:
                terms = replace(terms, pace=None)  # its turn is over
            with suppress(PublishError):
                await self._send(order, terms, lambda order, end: note(index, order.message_id, end.error))
                return
            await asyncio.sleep(0)

        turn = None if self._pace is None else self._turn
        await pipelined(payloads, send, width=self._window.size, turn=turn)
        outcomes.sort(key=lambda outcome: outcome.index)
        return outcomes

    @property
    def pressure(self) -> float:
        """How hard the brakes are on, from 0 to 1.

        The most of: the share of the window in use, the fullest queue with `limits.depth` as last seen, a nack (fades
        by half in five seconds), and 1 while the broker blocks publishers.
        """
        return pressure(
            self._now(),
            under_way=self._window.taken,
            window=self._window.size,
            gates=self._gates.values(),
            blocked=self._transport.blocked,
            nacked_at=self._nacked_at,
        )

    # --- performing ----------------------------------------------------------------------------

    async def _perform(self, order: Order, flow: Generator[Effect, Answer, End], flight: "_Flight") -> End:
        try:
            effect = next(flow)
            while True:
                error = None
                match effect:
                    case Transmit():
                        flight.tries = effect.tries
                        error = flight.error = await self._transmit(order, effect, flight)
                        flight.sent = False
                    case Wait(seconds):
                        await self._clock.sleep(seconds)
                    case AskDepth(gate, seconds):
                        await self._ask(gate, seconds)
                effect = flow.send((self._now(), error))
        except StopIteration as stop:
            end: End = stop.value
            return End(end.tries, named(end.error, order)) if end.error is not None else end

    async def _transmit(self, order: Order, effect: Transmit, flight: "_Flight") -> PublishError | None:
        window, seconds = self._window, effect.timeout
        if not window.enter():
            begun = self._now()
            if not await window.wait(seconds):
                return self._no_place()
            seconds = max(0.0, seconds - (self._now() - begun))
        if effect.tries > 1 and (event := second_copy(order, effect.tries)) is not None:
            self._on_event(event)
        flight.sent = True
        try:
            await self._transport.publish(
                order.exchange, order.routing_key, order.message, mandatory=order.mandatory, timeout=seconds
            )
        except Nacked as error:
            self._nacked_at = self._now()
            return error
        except PublishError as error:
            return error
        finally:
            window.leave()
        return None

    def _no_place(self) -> PublishTimeout:
        kind = BrokerBlocked if self._transport.blocked else PublishTimeout
        return kind(f"all {self._window.size} places of the window stayed taken")

    async def _turn(self) -> None:
        """Wait for the next turn, however long that takes."""
        if self._pace is not None and (wait := self._pace.reserve(self._now(), math.inf) or 0.0) > 0:
            await self._clock.sleep(wait)

    async def _ask(self, gate: Gate, seconds: float) -> None:
        """Wait for the answer of whoever asks about this queue already, or ask."""
        question = self._questions.get(gate.queue)
        if question is None:
            gate.asked()
            question = asyncio.create_task(self._question(gate), name=f"amqpkit depth of {gate.queue}")
            self._questions[gate.queue] = question
            question.add_done_callback(lambda _: self._questions.pop(gate.queue, None))
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancel = self._clock.call_later(seconds, lambda: None if late.done() else late.set_result(None))
        try:
            await asyncio.wait((question, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancel()
        if late.done() and not question.done():
            self._cannot_ask(gate, f"no answer within {seconds:g} s")

    async def _question(self, gate: Gate) -> None:
        try:
            depth = await self._transport.depth(gate.queue)
        except BrokerError as error:
            # Whatever is wrong with the broker, the publish itself meets it and has a name for it.
            self._cannot_ask(gate, str(error))
        else:
            gate.told(depth, self._now())

    def _cannot_ask(self, gate: Gate, reason: str) -> None:
        if gate.told(None, self._now()):
            self._on_event(DepthUnknown(gate.queue, reason))

    def _terms(self, type: str, timeout: float | None, overload: Overload | None) -> Terms:  # noqa: A002 - AMQP's word
        check_terms(timeout, overload)
        usual = timeout is None and overload is None
        if usual and (known := self._usual.get(type)) is not None:
            return known
        queues = self._topology.work_queues
        terms = Terms(
            self._timeout if timeout is None else timeout,
            (overload or self._overload) == "wait",
            tuple(gate for name, gate in self._gates.items() if type in queues[name].accepts),
            self._pace,
            after_nack,
        )
        if usual:
            self._usual[type] = terms
        return terms

    def _tell(self, order: Order, end: End, begun: float, on_end: OnEnd | None) -> None:
        if self._on_event is not ignore:
            for event in told(order, end.error, end.tries, self._now() - begun):
                self._on_event(event)
        if order.sent is not None:
            order.sent(end.error)
        if on_end is not None:
            on_end(order, end)


class _Flight:
    """How far a message has come, for when its caller gives up."""

    __slots__ = ("error", "sent", "tries")

    def __init__(self) -> None:
        self.error: PublishError | None = None
        self.sent, self.tries = False, 0

    def given_up(self, order: Order) -> End:
        if self.sent:
            return End(self.tries, named(PublishUncertain("the wait for its confirm was given up"), order))
        return End(self.tries, named(self.error or PublishTimeout("it was given up before it was sent"), order))


def check_limits(**numbers: float) -> None:
    """Raise ValueError, naming the limit, for one that is not above 0."""
    for name, number in numbers.items():
        if not number > 0:
            msg = f"{name} is {number!r}; it must be more than 0"
            raise ValueError(msg)


def check_terms(timeout: float | None, overload: str | None) -> None:
    """Raise ValueError for what a caller cannot mean; a deadline that is over already ends as PublishTimeout."""
    if timeout is not None and math.isnan(timeout):
        msg = "timeout is nan; it must be a number of seconds"
        raise ValueError(msg)
    if overload is not None and overload not in get_args(Overload):
        msg = f'overload is {overload!r}; write "wait" or "fail"'
        raise ValueError(msg)


def system_clock() -> Clock:
    """Give the machine's clock."""
    from amqpkit.brokers.clock import SystemClock  # noqa: PLC0415 - not for those who bring their own

    return SystemClock()
