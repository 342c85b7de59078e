"""Holding a message while something it needs is away: the same effect again, with back-off, until it works."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, cast

import tenacity

from amqpkit.deliver.effects import Stopped
from amqpkit.errors import PublishError, StoreUnavailable, Unsendable
from amqpkit.ports import Clock, Delivery

T = TypeVar("T")
OnHold = Callable[[BaseException, int, float], None]


async def insist(effect: Callable[[], Awaitable[T]], *, delivery: Delivery | None, clock: Clock, on_hold: OnHold) -> T:
    """Try until it works; the original stays unacked meanwhile, so prefetch stops the consumer by itself.

    `on_hold` hears the error, the number of tries and the seconds until the next. Raises Stopped when the channel of
    the `delivery` is gone (the broker delivers it again; without one there is nothing to look at), and at once
    whatever no other try can mend.
    """

    def require() -> None:
        if delivery is not None and not delivery.alive:
            raise Stopped("its channel is gone, the broker delivers it again")

    async def wait(seconds: float) -> None:
        await clock.sleep(seconds)
        require()

    def tell(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error is not None:
            on_hold(error, state.attempt_number, state.next_action.sleep if state.next_action else 0.0)

    require()
    tries = tenacity.AsyncRetrying(
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=15),
        retry=tenacity.retry_if_exception(_worth_another_try),
        before_sleep=tell,
        sleep=wait,
        reraise=True,
    )
    async for attempt in tries:
        with attempt:
            return await effect()
    raise AssertionError  # pragma: no cover - the tries end by returning or raising


def _worth_another_try(error: BaseException) -> bool:
    if isinstance(error, PublishError):
        return not isinstance(error, Unsendable)
    return isinstance(error, StoreUnavailable)


AFTER_NACK: Final = tenacity.wait_random_exponential(multiplier=0.1, max=2)
"""Full jitter, so that those whom a full queue refused do not come back together; a queue drains in seconds."""


def after_nack(tries: int) -> float:
    """Say how many seconds to wait before a message that was nacked so many times is sent again."""
    # A wait is a pure function of this state; no retrying object is needed to ask it.
    state = tenacity.RetryCallState(cast("tenacity.BaseRetrying", None), None, (), {})
    state.attempt_number = tries
    return float(AFTER_NACK(state))
