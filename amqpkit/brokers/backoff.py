"""How long to wait before the next try at a connection or a channel."""

from datetime import datetime, timedelta
from typing import Protocol, cast

import tenacity
from tenacity.wait import wait_base

RECONNECT: wait_base = tenacity.wait_random_exponential(multiplier=0.1, max=15)
"""Full jitter: within 0.1 s at first, within 15 s in the end, so that a fleet does not come back at one moment."""
MINIMUM_UPTIME = timedelta(seconds=30)
"""What ends sooner counts as the same failure: else something that breaks on every message would spin."""


class Now(Protocol):
    """What is needed of a clock here."""

    def now(self) -> datetime: ...  # noqa: D102 - the protocol's docstring covers it


class Backoff:
    """How long to wait before the next try, by a tenacity wait; forgets failures after a minimum uptime."""

    def __init__(self, clock: Now, wait: wait_base = RECONNECT) -> None:
        """Start with no failure."""
        self._clock, self._wait = clock, wait
        self._failures = 0
        self._up_since = clock.now()

    def up(self) -> None:
        """It works now."""
        self._up_since = self._clock.now()

    def down(self, *, was_up: bool) -> float:
        """It failed: say how many seconds to wait."""
        if was_up and self._clock.now() - self._up_since >= MINIMUM_UPTIME:
            self._failures = 0
        self._failures += 1
        # A wait is a pure function of this state; no retrying object is needed to ask it.
        state = tenacity.RetryCallState(cast("tenacity.BaseRetrying", None), None, (), {})
        state.attempt_number = self._failures
        return self._wait(state)
