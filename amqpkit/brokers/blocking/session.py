"""One connection, kept alive by the loop that turns it: opened, watched, opened again with back-off."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import tenacity

from amqpkit.brokers.backoff import Backoff
from amqpkit.brokers.blame import Loss
from amqpkit.brokers.blocking import faults
from amqpkit.brokers.blocking.wire import Address, Loop, Wire
from amqpkit.errors import AccessRefused, BrokerError
from amqpkit.events import Connected, ConnectionLost, OnEvent

GOODBYE: Final = 2.0
"""Seconds for a polite end; a broker that is stuck gets no longer one."""
_FIRST: Final = tenacity.wait_random_exponential(multiplier=0.1, max=2)
"""Whoever waits for the first connection is there and impatient."""
_LAST: Final = 0.1
"""Seconds that one try must have at least."""


class SystemNow:
    """The machine's clock."""

    def now(self) -> datetime:
        """Now, aware, in UTC."""
        return datetime.now(UTC)


class User(Protocol):
    """Who uses the connection."""

    def up(self, wire: Wire) -> None:
        """A connection stands."""

    def down(self) -> None:
        """It is gone; another comes."""

    def over(self, reason: BrokerError) -> None:
        """There will be none: refused, or not there within the time given."""

    def unblocked(self) -> None:
        """An alarm has ended."""


class Session:
    """A connection for one purpose, until it is closed or refused. Lives in the loop's thread."""

    def __init__(self, purpose: str, address: Address, loop: Loop, on_event: OnEvent, user: User) -> None:
        """Store; `start` connects."""
        self._purpose, self._address, self._loop, self._on_event, self._user = purpose, address, loop, on_event, user
        self._wire: Wire | None = None
        self._timer: Any = None
        self._gone: Callable[[], None] | None = None
        self._patience: float | None = None
        self.standing: Wire | None = None
        self.blocked: str | None = None
        """Why the broker takes no messages now."""
        self._backoff = Backoff(SystemNow())
        self._first = Backoff(SystemNow(), _FIRST)

    def start(self, patience: float | None = None) -> None:
        """Connect; with `patience` in seconds the user hears when nobody has answered by then."""
        self._patience = None if patience is None else time.monotonic() + patience
        self._connect()

    def close(self, gone: Callable[[], None], *, politely: bool = True) -> None:
        """End it for good; `gone` is called when no socket is left."""
        self._gone = gone
        wire, self.standing = self._wire, None
        if self._timer is not None:
            self._loop.remove_timeout(self._timer)
            self._timer = None
        if wire is None:
            gone()
        elif politely:
            wire.goodbye()
            self._timer = self._loop.call_later(GOODBYE, lambda: wire.abort("no goodbye from the broker"))
        else:
            wire.abort("the transport is closed")

    def disown(self) -> None:
        """Let go of it in a forked child."""
        if self._wire is not None:
            self._wire.disown()

    # --- what the wire says -------------------------------------------------------------------

    def opened(self, wire: Wire) -> None:
        """Tell the user."""
        if self._gone is not None:
            wire.goodbye()
            return
        self.standing, self._patience = wire, None
        self._backoff.up()
        self._on_event(Connected(self._purpose, f"RabbitMQ {wire.info.version} at {self._address.url.location}"))
        self._user.up(wire)

    def failed(self, _wire: Wire, error: BaseException) -> None:
        """Try again, unless that is useless."""
        self._wire = None
        if self._gone is not None:
            self._end()
            return
        place = self._address.url
        reason = faults.connecting(error, str(place.location), place.vhost, place.location.user)
        left = self._left
        if isinstance(reason, AccessRefused) or (left is not None and left <= _LAST):
            self._user.over(reason)
            return
        if left is None:
            wait = self._backoff.down(was_up=False)
            self._on_event(ConnectionLost(self._purpose, str(reason), wait))
        else:
            wait = min(self._first.down(was_up=False), left / 2)  # so that another try has time
        self._timer = self._loop.call_later(wait, self._connect)

    def ended(self, _wire: Wire, cause: Loss) -> None:
        """Come back."""
        self._wire = self.standing = self.blocked = None
        if self._gone is not None:
            self._end()
            return
        wait = self._backoff.down(was_up=True)
        self._user.down()
        self._on_event(ConnectionLost(self._purpose, cause.reason, wait))
        self._timer = self._loop.call_later(wait, self._connect)

    def throttled(self, _wire: Wire, reason: str | None) -> None:
        """Know of an alarm."""
        self.blocked = reason
        if reason is None:
            self._user.unblocked()

    def _connect(self) -> None:
        self._timer, left = None, self._left
        address = self._address if left is None else replace(self._address, timeout=max(left, _LAST))
        self._wire = Wire(address, self._purpose, self._loop, self)

    @property
    def _left(self) -> float | None:
        """Seconds that are left to whoever waits for the first connection, if anybody does."""
        return None if self._patience is None else self._patience - time.monotonic()

    def _end(self) -> None:
        if self._timer is not None:
            self._loop.remove_timeout(self._timer)
            self._timer = None
        if self._gone is not None:
            gone, self._gone = self._gone, None
            gone()
