"""How deep a queue is, asked over a connection of its own: the broker does not read from one that it has blocked.

It is opened when somebody asks and kept for a short while. Lives in the loop's thread.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from amqpkit.brokers.blame import Loss
from amqpkit.brokers.blocking import faults
from amqpkit.brokers.blocking.session import GOODBYE
from amqpkit.brokers.blocking.wire import Address, Loop, Wire
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed, QueueMissing

KEPT: Final = 10.0
"""Seconds for which the connection stays after the last question."""
_FORBIDDEN, _MISSING, _LOCKED = 403, 404, 405


class Inquiry:
    """Asks, and answers futures."""

    def __init__(self, address: Address, loop: Loop) -> None:
        """Store; nothing is opened before somebody asks."""
        self._address, self._loop = address, loop
        self._wire: Wire | None = None
        self._stands = self._resting = False
        self._asked: list[tuple[str, Future[int]]] = []
        self._idle: Any = None
        self._under_way = 0
        self._gone: Callable[[], None] | None = None

    def ask(self, queue: str, answer: Future[int]) -> None:
        """Answer with the number of messages that are ready, or a BrokerError."""
        if self._gone is not None:
            answer.set_exception(ConnectionFailed("the transport is closed"))
            return
        self._asked.append((queue, answer))
        if self._wire is None:
            self._connect()
        elif self._stands:
            self._send(self._wire)

    def close(self, gone: Callable[[], None]) -> None:
        """End it; `gone` is called when no socket is left."""
        self._gone = gone
        self._refuse(ConnectionFailed("the transport is closed"))
        if self._wire is None:
            gone()
        else:
            self._wire.abort("the transport is closed")

    def disown(self) -> None:
        """Let go of it in a forked child."""
        if self._wire is not None:
            self._wire.disown()

    def opened(self, wire: Wire) -> None:
        """Ask what is waiting."""
        self._stands = True
        self._send(wire)

    def failed(self, _wire: Wire, error: BaseException) -> None:
        """Tell those who wait; the next question connects anew."""
        place = self._address.url
        self._over(faults.connecting(error, str(place.location), place.vhost, place.location.user))

    def ended(self, _wire: Wire, cause: Loss) -> None:
        """Tell those who wait; the next question connects anew."""
        self._over(ConnectionFailed(f"cannot ask the broker: {cause.reason}"))

    def throttled(self, _wire: Wire, reason: str | None) -> None:
        """Nothing is published here, so an alarm does not matter."""

    def _send(self, wire: Wire) -> None:
        if self._idle is not None:
            self._loop.remove_timeout(self._idle)
            self._idle = None
        asked, self._asked = self._asked, []
        self._under_way += len(asked)
        for queue, answer in asked:
            wire.ask("queue", queue, partial(self._told, wire, answer, queue))

    def _told(self, wire: Wire, answer: Future[int], queue: str, said: int | Loss) -> None:
        _answer(answer, queue, said)
        if wire is not self._wire or not self._stands:
            return
        self._under_way -= 1
        if self._under_way == 0:  # a connection that rests while it is asked would take the answer along
            self._idle = self._loop.call_later(KEPT, self._rest)

    def _rest(self) -> None:
        """Nobody has asked for a while; who asks from here on gets another connection."""
        self._idle, self._stands = None, False
        if self._wire is not None:
            self._resting = True
            self._wire.goodbye()
            self._idle = self._loop.call_later(GOODBYE, partial(self._wire.abort, "no goodbye from the broker"))

    def _connect(self) -> None:
        self._under_way = 0
        self._wire = Wire(self._address, "depth", self._loop, self)

    def _over(self, error: BrokerError) -> None:
        self._wire, self._stands = None, False
        if self._idle is not None:
            self._loop.remove_timeout(self._idle)
            self._idle = None
        rested, self._resting = self._resting, False
        if self._gone is not None:
            self._refuse(error)
            self._gone()
        elif not rested:
            self._refuse(error)
        elif self._asked:
            self._connect()

    def _refuse(self, error: BrokerError) -> None:
        asked, self._asked = self._asked, []
        for _, answer in asked:
            answer.set_exception(error)


def _answer(answer: Future[int], queue: str, said: int | Loss) -> None:
    match said:
        case int():
            answer.set_result(said)
        case Loss(code=code) if code == _MISSING:
            answer.set_exception(QueueMissing(queue))
        case Loss(code=code, reason=reason) if code in {_FORBIDDEN, _LOCKED}:
            answer.set_exception(AccessRefused(f'the broker does not let us look at queue "{queue}": {reason}'))
        case Loss(reason=reason):
            answer.set_exception(ConnectionFailed(f'cannot look at queue "{queue}": {reason}'))
