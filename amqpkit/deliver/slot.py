"""One unit of a worker's concurrency: the hands that take one delivery after another through its walk."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import tenacity
from pydantic_core import to_json

from amqpkit.deliver.consumer import context_of
from amqpkit.deliver.drive import drive
from amqpkit.deliver.effects import (
    Ack,
    Claim,
    Compensate,
    Complete,
    Effect,
    Invoke,
    Moment,
    Publish,
    Raised,
    Refuse,
    Release,
    Requeue,
    Returned,
    Stopped,
)
from amqpkit.deliver.handler import Halt, Handler
from amqpkit.deliver.headers import read_past
from amqpkit.deliver.walk import End, Terms, walk
from amqpkit.errors import PublishError, PublishUncertain, Unsendable
from amqpkit.events import BadHeader, Begun, CopyHeld, DuplicateWindow, OnEvent, Outcome, Settled
from amqpkit.ports import Clock, Delivery, IdempotencyStore, Transport

log = logging.getLogger("amqpkit.worker")

COPY_TIMEOUT: Final = 10.0
"""Seconds for one try to place a copy; the original waits unacked meanwhile, so nothing is at stake."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What every slot of a worker shares."""

    transport: Transport
    store: IdempotencyStore
    clock: Clock
    on_event: OnEvent
    halt: Halt
    chance: Callable[[], float]


class Slot:
    """Performs the effects of one walk at a time."""

    def __init__(self, handler: Handler, terms: Terms, tools: Tools) -> None:
        """Keep the parts; `holding` says that a copy cannot be placed at the moment."""
        self._handler, self._terms, self._tools = handler, terms, tools
        self._delivery: Delivery | None = None
        self._placed = self._handled = False
        self.holding = False

    async def take(self, delivery: Delivery) -> None:
        """Take one delivery to its end; whatever happens, it is settled."""
        tools, begun = self._tools, self._tools.clock.now()
        self._delivery, self._placed, self._handled = delivery, False, False
        try:
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
            self._delivery = None
        self._report(delivery, end, (tools.clock.now() - begun).total_seconds())

    async def rest(self, stop: asyncio.Event) -> None:
        """Wait for a thread that outlived its timeout, or for `stop`: until then this slot takes nothing."""
        await self._handler.wait_for_abandoned(stop)

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
                await self._release(key)
            case Compensate():
                return None  # no steps port is set: nothing was recorded that could be undone
            case _:
                return await self._tools.halt.guard(self._perform(effect, delivery))
        return None

    async def _perform(self, effect: Claim | Invoke | Publish | Complete, delivery: Delivery) -> object:
        match effect:
            case Claim(key, lease):
                return await self._tools.store.claim(key, lease=lease)
            case Invoke():
                return await self._invoke(effect, delivery)
            case Publish():
                await self._place(effect, delivery)
            case Complete(key, result):
                await self._tools.store.complete(key, _stored(result))
        return None

    def _ack(self, delivery: Delivery) -> None:
        if not delivery.alive and (self._placed or self._handled):
            what = "the copy is confirmed" if self._placed else "the handler is done"
            self._emit_window(delivery, f"{what}, the original could not be acked")
        delivery.ack()

    async def _release(self, key: str) -> None:
        try:
            await self._tools.store.release(key)
        except Exception:
            # the copy is safe, so the original is acked all the same: an unreleased lease runs out by itself
            log.warning("the claim on %s could not be released; it runs out", key, exc_info=True)

    async def _invoke(self, effect: Invoke, delivery: Delivery) -> Returned | Raised:
        work = self._terms.work
        context = context_of(delivery, effect.past, work.attempts if work else 1)
        self._tools.on_event(Begun(self._terms.queue, context.message_id, context.properties.type, context.attempt))
        try:
            value = await self._handler.call(effect.payload, context)
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
            return Raised(error, self._moment())
        self._handled = True
        return Returned(value, self._moment())

    def _moment(self) -> Moment:
        return Moment(self._tools.clock.now(), self._tools.chance())

    # --- copies --------------------------------------------------------------------------------

    async def _place(self, effect: Publish, delivery: Delivery) -> None:
        """Send a copy until the broker has it: the original stays unacked, so prefetch stops the consumer by itself."""

        async def wait(seconds: float) -> None:
            await self._tools.clock.sleep(seconds)
            self._require(delivery)

        self._require(delivery)
        tries = tenacity.AsyncRetrying(
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=15),
            retry=tenacity.retry_if_exception(_worth_another_try),
            before_sleep=lambda state: self._held(state, delivery),
            sleep=wait,
            reraise=True,
        )
        async for attempt in tries:
            with attempt:
                await self._tools.transport.publish(
                    effect.exchange, effect.routing_key, effect.message, timeout=COPY_TIMEOUT
                )
        self.holding, self._placed = False, True

    def _require(self, delivery: Delivery) -> None:
        if not delivery.alive:
            raise Stopped("its channel is gone, the broker delivers it again")

    def _held(self, state: tenacity.RetryCallState, delivery: Delivery) -> None:
        self.holding = True
        error = state.outcome.exception() if state.outcome else None
        message_id, wait = (delivery.properties.message_id, state.next_action.sleep if state.next_action else 0.0)
        log.warning("a copy of %s is held: %s (try %d)", message_id, error, state.attempt_number)
        self._tools.on_event(CopyHeld(self._terms.queue, message_id, str(error), state.attempt_number, wait))
        if isinstance(error, PublishUncertain):
            self._emit_window(delivery, "a copy of unknown fate is sent again")

    # --- telling -------------------------------------------------------------------------------

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
            )
        )


_NOTEWORTHY: Final = {Outcome.RETRIED, Outcome.DEAD, Outcome.REFUSED, Outcome.DISCARDED}


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, PublishError) and not isinstance(error, Unsendable)


def _stored(result: object) -> bytes | None:
    return None if result is None else to_json(result, fallback=str)
