"""`ports.BlockingTransport` on the in-memory broker, for tests of code that blocks.

Most publishes have ended when `publish` returns. What waits for an alarm to end, or for a confirm that the test holds
back, waits in real time, whatever clock the broker goes by.
"""

import threading
import weakref
from concurrent.futures import Future
from typing import ClassVar, Self

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.channel import Channel, Fate
from amqpkit.brokers.memory.parcel import Parcel
from amqpkit.brokers.memory.wire import carried
from amqpkit.errors import (
    BrokerBlocked,
    ConnectionFailed,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unsendable,
)
from amqpkit.events import Connected, ConnectionLost, OnEvent, ignore
from amqpkit.model import Message
from amqpkit.ports import BrokerInfo


class _Publish(Parcel):
    """One message on its way: waiting for the end of an alarm, then for its confirm."""

    def __init__(self, exchange: str, routing_key: str, message: Message, *, mandatory: bool) -> None:
        super().__init__(exchange, routing_key, message, mandatory=mandatory)
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()
        self.timer: threading.Timer | None = None

    def told(self, fate: Fate, reason: str) -> None:
        """Hear the broker's answer."""
        self.end(self.error_of(fate, reason))

    def end(self, error: PublishError | None) -> None:
        """Say how it ended, once."""
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(None)


class MemoryBlockingTransport:
    """A publishing client of a MemoryBroker, from any thread; all that share a broker take turns."""

    _turns: ClassVar[weakref.WeakKeyDictionary[MemoryBroker, threading.RLock]] = weakref.WeakKeyDictionary()

    def __init__(self, broker: MemoryBroker, *, on_event: OnEvent = ignore) -> None:
        """Keep the broker; `open` connects."""
        self._memory, self._on_event = broker, on_event
        self._turn = self._turns.setdefault(broker, threading.RLock())
        self._channel: Channel | None = None
        self._waiting: list[_Publish] = []
        self._opened = self._closed = False

    def __enter__(self) -> Self:
        """Open."""
        self.open()
        return self

    def __exit__(self, *_error: object) -> None:
        """Close."""
        self.close()

    @property
    def broker(self) -> BrokerInfo:
        """Who answered."""
        return self._memory.info

    @property
    def blocked(self) -> bool:
        """Whether the broker is in an alarm."""
        return self._channel is not None and self._channel.connection.blocked

    def open(self) -> None:
        """Connect; an in-memory broker always answers."""
        with self._turn:
            self._opened = True
            if self._channel is None:
                self._connect()

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> Future[None]:
        """Send now, or as soon as no alarm blocks it; see `ports.BlockingTransport.publish`."""
        publish = _Publish(exchange, routing_key, message, mandatory=mandatory)
        with self._turn:
            if not self._opened:
                msg = "the transport is not open"
                raise ConnectionFailed(msg)
            if self._closed:
                publish.end(publish.failure(PublishTimeout, "the transport is closed"))
                return publish.future
            try:
                publish.message = carried(message, exchange, routing_key)
            except Unsendable as error:
                publish.end(error)
                return publish.future
            self._waiting.append(publish)
            self._flush()
            if not publish.future.done():
                publish.timer = threading.Timer(min(timeout, threading.TIMEOUT_MAX), self._expire, (publish, timeout))
                publish.timer.daemon = True
                publish.timer.start()
        return publish.future

    def depth(self, queue: str, *, timeout: float = 30.0) -> int:  # noqa: ARG002 - it never takes time
        """How many messages are ready there; raises QueueMissing."""
        with self._turn:
            return self._memory.depth(queue)

    def close(self) -> None:
        """Close the connection; what was sent and not confirmed becomes PublishUncertain."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            channel, self._channel = self._channel, None
            for publish in self._waiting:
                publish.end(publish.failure(PublishTimeout, "the transport is closed"))
            self._waiting.clear()
            if channel is not None:
                self._memory.close_connection(channel.connection)

    # --- in turn ------------------------------------------------------------------------------

    def _connect(self) -> None:
        connection = self._memory.connect(lost=self._lost, unblocked=self._flush)
        self._channel = self._memory.open_channel(connection, self._channel_closed)
        self._on_event(Connected("publish", self._memory.info.cluster_name))
        self._flush()

    def _lost(self, reason: str) -> None:
        with self._turn:
            self._on_event(ConnectionLost("publish", reason, 0.0))
            if not self._closed:
                self._connect()

    def _channel_closed(self, reason: str) -> None:
        with self._turn:
            channel = self._channel
            if channel is not None and channel.connection.alive:
                self._memory.close_connection(channel.connection)
                self._lost(reason)

    def _flush(self) -> None:
        with self._turn:
            while self._waiting and (channel := self._channel) and channel.alive and not channel.connection.blocked:
                publish = self._waiting.pop(0)
                publish.sent = True
                self._memory.publish(
                    channel,
                    publish.exchange,
                    publish.routing_key,
                    publish.message,
                    mandatory=publish.mandatory,
                    told=publish.told,
                )

    def _expire(self, publish: _Publish, timeout: float) -> None:
        with self._turn:
            if publish.sent:
                publish.end(publish.failure(PublishUncertain, f"no confirm within {timeout:g} s"))
            elif publish in self._waiting:
                self._waiting.remove(publish)
                kind = BrokerBlocked if self._memory.blocked else PublishTimeout
                publish.end(publish.failure(kind, f"nothing took it for {timeout:g} s"))
