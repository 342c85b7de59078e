"""The retry ladder: from `retry:` in the file to delay queues.

Pure: draws no random number, the worker draws among a delay's queues.
"""

from decimal import ROUND_HALF_UP, Decimal
from typing import Final, Literal

from amqpkit.declare import naming
from amqpkit.declare.spec.format import RetrySpec
from amqpkit.model import Delay, DelayQueue
from amqpkit.units import format_duration

DEFAULT_DELAYS: Final = (10_000, 60_000, 600_000)
_FIRST: Final = 10_000
_FACTOR: Final = 4.0
LONGEST: Final = 86_400_000
"""No computed delay is longer unless the file says so."""


def ladder(retry: RetrySpec | Literal["none"]) -> tuple[int, ...]:
    """List the delays between attempts in milliseconds; empty for `none`.

    `{attempts: 5, first: 30s, factor: 4, max: 1h}` gives 30s, 2m, 8m, 32m. Left out: first 10s, factor 4, max 1d.
    """
    if retry == "none":
        return ()
    if retry.delays is not None:
        return retry.delays
    if retry.attempts is None:
        return DEFAULT_DELAYS
    first, limit = retry.first or _FIRST, retry.max or LONGEST
    factor = Decimal(str(retry.factor or _FACTOR))
    growing = (min(first * factor**level, Decimal(limit)) for level in range(retry.attempts - 1))
    return tuple(int(delay.to_integral_value(ROUND_HALF_UP)) for delay in growing)


def retry_delays(queue: str, retry: RetrySpec | Literal["none"]) -> tuple[Delay, ...]:
    """Make the retry levels of a work queue, in order; each with one queue, or three with jitter."""
    jitter = 0.0 if retry == "none" else retry.jitter
    return tuple(_delay(queue, milliseconds, jitter) for milliseconds in ladder(retry))


def snooze_delays(queue: str, levels: tuple[Delay, ...]) -> tuple[Delay, ...]:
    """Make every delay that a snooze may take, shortest first: the levels, or 30 s when there are none."""
    by_length = {level.milliseconds: level for level in levels}
    if not by_length:
        return (_delay(queue, naming.SNOOZE_MILLISECONDS, 0.0),)
    return tuple(by_length[milliseconds] for milliseconds in sorted(by_length))


def _delay(queue: str, milliseconds: int, jitter: float) -> Delay:
    """Spread a delay over `100 - jitter`, `100 - jitter / 2` and 100 percent; equal lengths are one queue."""
    share = Decimal(str(jitter)) / 100
    lengths = sorted({max(1, int(milliseconds * (1 - share * part))) for part in (1, Decimal("0.5"), 0)})
    return Delay(milliseconds, tuple(_delay_queue(queue, length) for length in lengths))


def _delay_queue(queue: str, milliseconds: int) -> DelayQueue:
    key = format_duration(milliseconds)
    return DelayQueue(key, naming.delay_queue(queue, key), milliseconds)
