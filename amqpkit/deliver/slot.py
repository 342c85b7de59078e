"""One unit of a worker's concurrency: the hands that take one delivery after another through its walk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pydantic_core import to_json

from amqpkit.deliver.case import End, Terms
from amqpkit.deliver.claim import Claimant
from amqpkit.deliver.context import Context, context_of
from amqpkit.deliver.drive import drive
from amqpkit.deliver.effects import (
    Ack,
    AskCancelled,
    Claim,
    Compensate,
    Complete,
    Effect,
    GivenUp,
    Invoke,
    Moment,
    Publish,
    Raised,
    Refuse,
    Release,
    Requeue,
    Returned,
    Undone,
)
from amqpkit.deliver.handler import Halt, Handler
from amqpkit.deliver.headers import TRACEPARENT, Past, read_key, read_past, read_trace, run_of
from amqpkit.deliver.patience import insist
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.running import Cancellations, Reporter
from amqpkit.deliver.spans import Tracing
from amqpkit.deliver.stepper import Stepper, has_been_out
from amqpkit.deliver.walk import walk
from amqpkit.errors import PublishUncertain, StoreUnavailable
from amqpkit.events import (
    BadHeader,
    Begun,
    ClaimLost,
    CopyHeld,
    DuplicateWindow,
    NoKey,
    OnEvent,
    Outcome,
    Settled,
    StoreDown,
)
from amqpkit.model import Message, Verdict
from amqpkit.ports import Clock, Delivery, IdempotencyStore, Steps, Transport

log = logging.getLogger("amqpkit.worker")
T = TypeVar("T")

COPY_TIMEOUT: Final = 10.0
"""Seconds for one try to place a copy; the original waits unacked meanwhile, so nothing is at stake."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What every slot of a worker shares."""

    transport: Transport
    store: IdempotencyStore | None
    clock: Clock
    on_event: OnEvent
    halt: Halt
    chance: Callable[[], float]
    keyless: set[str]
    """Queues that have brought a message which no claim can be made for."""
    tracing: Tracing | None = None
    cancellations: Cancellations | None = None
    steps: Steps | None = None


class Slot:
    """Performs the effects of one walk at a time."""

    def __init__(self, handler: Handler, terms: Terms, tools: Tools, *, name: str) -> None:
        """Keep the parts; `name` is unlike any other slot's anywhere.

        `holding` says that a copy cannot be placed, or the store not be asked, at the moment.
        """
        self._handler, self._terms, self._tools = handler, terms, tools
        self._claimant = Claimant(tools.store, tools.clock, name=name, on_lost=self._lost)
        self._reporter = Reporter(terms, handler.consumer.errors, tools.clock, tools.on_event, tools.cancellations)
        self._said: BaseException | None = None
        self._delivery: Delivery | None = None
        self._placed = self._handled = False
        self._begun = tools.clock.now()
        self._handling: float | None = None
        self._span: str | None = None
        self.holding = False

    async def take(self, delivery: Delivery) -> None:
        """Take one delivery to its end; whatever happens, it is settled."""
        tools, begun = self._tools, self._tools.clock.now()
        self._delivery, self._placed, self._handled = delivery, False, False
        self._begun, self._handling, self._span = begun, None, None
        self._said = None
        self._claimant.begin()
        try:
            self._look_for_key(delivery)
            end = await drive(walk(delivery, self._terms, Moment(begun, tools.chance())), self)
        except Exception as error:  # the edge: a fault of ours must not leave a message without an end
            log.exception("a delivery from %s could not be judged; it is refused", self._terms.queue)
            delivery.refuse()
            end = End(Outcome.REFUSED, reason=f"{type(error).__name__} inside amqpkit")
        except BaseException:  # cancelled from outside, or the process ends
            delivery.requeue()
            raise
        finally:
            self.holding = False
            self._reporter.pause()
            if not self.abandoned:
                self._claimant.forget()
            self._delivery = None
        self._report(delivery, end, (tools.clock.now() - begun).total_seconds())

    async def rest(self, stop: asyncio.Event) -> None:
        """Wait for a thread that outlived its timeout, or for `stop`: until then this slot takes nothing."""
        if self._handler.abandoned is None:
            return
        await self._handler.wait_for_abandoned(stop)
        if not self.abandoned:
            await self._claimant.release_late()
        self._claimant.forget()

    @property
    def stuck(self) -> bool:
        """Whether an abandoned thread or an unplaced copy keeps this slot."""
        return self.holding or self.abandoned

    @property
    def abandoned(self) -> bool:
        """Whether a thread that outlived its timeout still runs."""
        thread = self._handler.abandoned
        return thread is not None and not thread.done()

    # --- effects -------------------------------------------------------------------------------

    async def perform(self, effect: Effect) -> object:
        """Do one effect; see `drive.Hands`."""
        delivery = self._delivery
        assert delivery is not None  # noqa: S101 - `take` set it
        match effect:
            case Ack():
                self._ack(delivery)
            case Requeue():
                delivery.requeue()
            case Refuse():
                delivery.refuse()
            case Release(key):
                if not self.abandoned:  # a thread that still works on it keeps the claim until it ends
                    await self._claimant.release(key)
            case _:
                return await self._tools.halt.guard(self._perform(effect, delivery))
        return None

    async def _perform(
        self, effect: Claim | AskCancelled | Invoke | Compensate | Publish | Complete, delivery: Delivery
    ) -> object:
        match effect:
            case AskCancelled(job):
                return await self._reporter.is_cancelled(job)
            case Compensate():
                return await self._insist(lambda: self._compensate(effect, delivery), delivery)
            case Claim(key, lease):
                return await self._insist(lambda: self._claimant.claim(key, lease=lease), delivery)
            case Invoke():
                return await self._invoke(effect, delivery)
            case Publish():
                await self._insist(lambda: self._publish(effect), delivery)
                self._placed = True
            case Complete(key, result):
                stored = _stored(result)
                # also when the delivery is lost: the next one is then known as a duplicate
                await self._insist(lambda: self._claimant.complete(key, result=stored), delivery, though_lost=True)
        return None

    async def _publish(self, copy: Publish) -> None:
        message = _traced(copy.message, self._span)
        await self._tools.transport.publish(copy.exchange, copy.routing_key, message, timeout=COPY_TIMEOUT)

    async def _insist(self, effect: Callable[[], Awaitable[T]], delivery: Delivery, *, though_lost: bool = False) -> T:
        try:
            return await insist(
                effect,
                delivery=None if though_lost else delivery,
                clock=self._tools.clock,
                on_hold=lambda error, tries, wait: self._held(delivery, error, tries, wait),
            )
        finally:
            self.holding = False

    def _ack(self, delivery: Delivery) -> None:
        if not delivery.alive and (self._placed or self._handled):
            what = "the copy is confirmed" if self._placed else "the handler is done"
            self._emit_window(delivery, f"{what}, the original could not be acked")
        delivery.ack()

    async def _invoke(self, effect: Invoke, delivery: Delivery) -> Returned | Raised:
        context = self._context(delivery, effect.past)
        try:
            if (given_up := await self._look_back(context, effect.past)) is not None:
                return Raised(given_up, self._moment())
            self._tools.on_event(self._begins(context))
            job = self._reporter.begin(effect.payload, context, effect.past)
            value = await self._call(effect.payload, context if job is None else replace(context, job=job))
        except asyncio.CancelledError as error:
            if self._tools.halt.now:
                raise
            # our own flag knows a shutdown; without it the handler cancelled itself, and that is a failure
            while (task := asyncio.current_task()) is not None and task.cancelling():
                task.uncancel()
            return Raised(error, self._moment())
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - every failure of a handler is judged by the walk
            self._said = error
            return Raised(error, self._moment())
        finally:
            self._reporter.pause()
            if isinstance(context.steps, Stepper):
                context.steps.end()
        self._handled = True
        self._said = value if isinstance(value, Verdict) else None
        return Returned(value, self._moment())

    async def _call(self, payload: Payload, context: Context) -> object:
        tracing, began = self._tools.tracing, self._tools.clock.now()
        try:
            if tracing is None:
                return await self._handler.call(payload, context)
            with tracing.handling(context) as self._span:
                return await self._handler.call(payload, context)
        finally:
            self._handling = (self._tools.clock.now() - began).total_seconds()

    def _context(self, delivery: Delivery, past: Past) -> Context:
        work = self._terms.work
        attempts, steps = work.attempts if work else 1, self._stepper(delivery, past)
        return context_of(delivery, past, attempts, transact=self._claimant.transaction, steps=steps)

    # --- steps ---------------------------------------------------------------------------------

    def _stepper(self, delivery: Delivery, past: Past) -> Stepper | None:
        steps = self._tools.steps
        if steps is None or (key := read_key(delivery)) is None:
            return None
        job, run = f"{self._terms.queue}:{key}", run_of(past)
        return Stepper(steps, self._handler.consumer, job=job, run=run, in_thread=self._handler.in_thread)

    async def _look_back(self, context: Context, past: Past) -> GivenUp | None:
        stepper = context.steps
        if isinstance(stepper, Stepper) and has_been_out(past, redelivered=context.redelivered):
            return await stepper.look_back()
        return None

    async def _compensate(self, effect: Compensate, delivery: Delivery) -> tuple[Undone, ...]:
        past = read_past(delivery)
        context = self._context(delivery, past)
        if not isinstance(context.steps, Stepper):
            return ()
        return await context.steps.compensate(effect, context, self._handler.call_method)

    def _moment(self) -> Moment:
        return Moment(self._tools.clock.now(), self._tools.chance())

    # --- telling -------------------------------------------------------------------------------

    def _begins(self, context: Context) -> Begun:
        published, properties = context.published_at, context.properties
        if published is not None and published.tzinfo is None:
            published = None  # no instant
        age = None if published is None else (self._begun - published).total_seconds()
        trace = read_trace(properties.headers)
        return Begun(context.queue, context.message_id, properties.type, context.attempt, age, trace)

    def _held(self, delivery: Delivery, error: BaseException, tries: int, wait: float) -> None:
        self.holding = True
        message_id = delivery.properties.message_id
        log.warning("message %s from %s is held: %s (try %d)", message_id, self._terms.queue, error, tries)
        kind = StoreDown if isinstance(error, StoreUnavailable) else CopyHeld
        self._tools.on_event(kind(self._terms.queue, message_id, str(error), tries, wait))
        if isinstance(error, PublishUncertain):
            self._emit_window(delivery, "a copy of unknown fate is sent again")

    def _lost(self) -> None:
        message_id = self._delivery.properties.message_id if self._delivery else None
        log.warning("the claim on message %s from %s ran out under its handler", message_id, self._terms.queue)
        self._tools.on_event(ClaimLost(self._terms.queue, message_id))

    def _look_for_key(self, delivery: Delivery) -> None:
        queue, keyless = self._terms.queue, self._tools.keyless
        if self._tools.store is None or queue in keyless or read_key(delivery):
            return
        keyless.add(queue)
        log.warning("queue %s brings messages without id and key: none can be known as a duplicate", queue)
        self._tools.on_event(NoKey(queue))

    def _emit_window(self, delivery: Delivery, window: str) -> None:
        self._tools.on_event(DuplicateWindow(self._terms.queue, delivery.properties.message_id, window))

    def _report(self, delivery: Delivery, end: End, seconds: float) -> None:
        properties, queue = delivery.properties, self._terms.queue
        for header, value in read_past(delivery).faults:
            log.warning(
                "message %s from %s: header %s is unusable (%s), read as absent",
                properties.message_id,
                queue,
                header,
                value,
            )
            self._tools.on_event(BadHeader(queue, properties.message_id, header, value))
        self._reporter.end(delivery, end, self._said)
        level = logging.WARNING if end.outcome in _NOTEWORTHY else logging.DEBUG
        if log.isEnabledFor(level):
            became = f"{end.outcome} after {end.delay}" if end.delay else str(end.outcome)
            why = f": {end.reason}" if end.reason else ""
            log.log(level, "%s %s, attempt %d, %s%s", queue, properties.message_id, end.attempt, became, why)
        self._tools.on_event(
            Settled(
                queue=queue,
                message_id=properties.message_id,
                type=properties.type,
                attempt=end.attempt,
                outcome=end.outcome,
                reason=end.reason,
                fate=end.fate,
                delay=end.delay,
                seconds=seconds,
                handling=self._handling,
                trace=read_trace(properties.headers),
            )
        )


_NOTEWORTHY: Final = {Outcome.RETRIED, Outcome.DEAD, Outcome.REFUSED, Outcome.DISCARDED}


def _traced(copy: Message, span: str | None) -> Message:
    """Let a message that came without a trace be traced from its first handling on, through its copies."""
    if span is None or read_trace(copy.properties.headers) is not None:
        return copy
    headers = {**copy.properties.headers, TRACEPARENT: span}
    return replace(copy, properties=replace(copy.properties, headers=headers))


def _stored(result: object) -> bytes | None:
    return None if result is None else to_json(result, fallback=str)
