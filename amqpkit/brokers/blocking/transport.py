"""A ports.BlockingTransport on pika: for threads, scripts, forking servers; one thread of its own does the talking."""

import atexit
import os
import secrets
import threading
import time
import warnings
import weakref
from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar, Self

from amqpkit.brokers import encoding
from amqpkit.brokers.blocking.parcel import Parcel
from amqpkit.brokers.blocking.pump import Pump
from amqpkit.brokers.blocking.wire import Address
from amqpkit.brokers.url import BrokerURL
from amqpkit.errors import BrokerError, ConnectionFailed, MessageTooLarge, Unsendable
from amqpkit.events import OnEvent, ignore
from amqpkit.model import Message
from amqpkit.ports import BrokerInfo

WINDOW = 500
"""Outstanding confirms; 100 to 500 are enough for full speed (measured)."""


class PikaTransport:
    """The way to a RabbitMQ for messages, from any thread.

    Lost connections come back by themselves, and heartbeats are kept up while nobody publishes. After a fork the child
    begins afresh with its next publish; what was under way belongs to the parent. At exit what is under way gets two
    seconds. `on_event` is called in the transport's own thread, where nothing can be published. URLs with their
    passwords are never logged or shown.
    """

    def __init__(  # noqa: PLR0913 - keyword-only settings, each with its default
        self,
        url: str | BrokerURL,
        *,
        name: str = "amqpkit",
        heartbeat: int = 10,
        connect_timeout: float = 10.0,
        window: int = WINDOW,
        on_event: OnEvent = ignore,
    ) -> None:
        """Store; raises BrokerError when the URL cannot be read. `name` is what the broker shows of us."""
        place = BrokerURL.parse(url) if isinstance(url, str) else url
        self._address = Address(place, name, heartbeat, connect_timeout)
        self._window, self._on_event = window, on_event
        self._lock = threading.Lock()
        self._pump: Pump | None = None
        self._broker: BrokerInfo | None = None

    def __enter__(self) -> Self:
        """Open, unless it is open."""
        self.open()
        return self

    def __exit__(self, *_error: object) -> None:
        """Close."""
        self.close()

    @property
    def broker(self) -> BrokerInfo:
        """Who answered; only after `open`."""
        if self._broker is None:
            msg = "the transport is not open"
            raise ConnectionFailed(msg)
        return self._broker

    @property
    def blocked(self) -> bool:
        """Whether the broker is in an alarm and has told us that it takes no publishes."""
        return self._pump is not None and self._pump.blocked

    def open(self) -> None:
        """Connect; raises AccessRefused at once, ConnectionFailed when nobody answers within the timeout."""
        with self._lock:
            if self._pump is None or self._pump.over_because is not None:  # closed, or refused since
                self._pump = self._start(self._address.timeout)
            pump = self._pump
        try:
            self._broker = pump.opened.result()
        except BrokerError:
            self._pump = None  # it has given up; who calls again gets another
            raise

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> Future[None]:
        """Send now or as soon as a connection stands; returns at once, from any thread.

        The future is done when the broker has confirmed (and routed, if mandatory), or carries a PublishError.
        Its callbacks run in the transport's own thread and must be quick. `timeout` in seconds covers everything.
        Raises RuntimeError in that thread, where whoever then waits would wait for himself.
        """
        pump = self._running()
        parcel = _parcel(exchange, routing_key, message, mandatory=mandatory, deadline=time.monotonic() + timeout)
        if not parcel.future.done():
            pump.put(parcel)
        return parcel.future

    def depth(self, queue: str, *, timeout: float = 30.0) -> int:
        """How many messages are ready there, also during an alarm; raises QueueMissing, AccessRefused.

        Raises ConnectionFailed when the broker does not answer within `timeout` seconds, RuntimeError in the
        transport's own thread.
        """
        try:
            return self._running().ask(queue).result(timeout)
        except TimeoutError:
            where = self._address.url.location
            raise ConnectionFailed(f"the broker at {where} does not answer within {timeout:g} s") from None

    def close(self) -> None:
        """Give what is under way a moment and close the connections; unconfirmed publishes become PublishUncertain."""
        if self._pump is not None:
            self._pump.leave()
            self._pump.join()

    def __del__(self) -> None:
        pump = self.__dict__.get("_pump")
        if pump is not None and pump.over_because is None:
            warnings.warn("a transport was never closed", ResourceWarning, source=self, stacklevel=2)
            pump.leave()

    # --- one pump for each process ------------------------------------------------------------

    def _running(self) -> Pump:
        pump = self._pump
        if pump is None:
            with self._lock:
                if self._broker is None:
                    msg = "the transport is not open"
                    raise ConnectionFailed(msg)
                if self._pump is None:
                    self._pump = self._start()
                pump = self._pump
        if pump.thread is threading.current_thread():
            msg = "this is the transport's own thread, of its listeners and callbacks: publish and ask in another one"
            raise RuntimeError(msg)
        return pump

    def _start(self, patience: float | None = None) -> Pump:
        pump = Pump(self._address, self._window, self._on_event)
        _Lifetime.watch(self, pump)
        pump.start(patience)
        return pump

    def _forked(self) -> None:
        self._lock = threading.Lock()
        if self._pump is not None and self._pump.over_because is None:
            self._pump.disown()
            self._pump = None


def _parcel(exchange: str, routing_key: str, message: Message, *, mandatory: bool, deadline: float) -> Parcel:
    """Encode a message; what no broker could take is said by its future."""
    properties, message_id = message.properties, message.properties.message_id
    if mandatory and not message_id:
        # A returned message is known by its id alone.
        message_id = secrets.token_hex(16)
        properties = replace(properties, message_id=message_id)
    parcel = Parcel(exchange, routing_key, message, mandatory, deadline, message_id)
    try:
        parcel.properties = encoding.encode(properties)
        parcel.address = (
            encoding.short("the exchange's name", exchange),
            encoding.short("the routing key", routing_key),
        )
    except encoding.UnencodableError as error:
        parcel.fail(Unsendable, str(error))
        return parcel
    if reason := encoding.too_large(message.body, parcel.properties):
        parcel.fail(MessageTooLarge, reason)
    return parcel


class _Lifetime:
    """What happens to all transports of a process when it forks or ends; keeps none of them alive."""

    transports: ClassVar[weakref.WeakSet["PikaTransport"]] = weakref.WeakSet()
    pumps: ClassVar[weakref.WeakSet[Pump]] = weakref.WeakSet()
    """Those of transports that nobody holds any more, too: they still have something to send."""
    begun: ClassVar[bool] = False

    @classmethod
    def watch(cls, transport: PikaTransport, pump: Pump) -> None:
        """Remember a transport and what it has begun."""
        if not cls.begun:
            cls.begun = True
            os.register_at_fork(after_in_child=cls._forked)
            atexit.register(cls._exit)
        cls.transports.add(transport)
        cls.pumps.add(pump)

    @classmethod
    def _forked(cls) -> None:
        cls.pumps.clear()
        for transport in list(cls.transports):
            transport._forked()  # noqa: SLF001 - the class above

    @classmethod
    def _exit(cls) -> None:
        leaving = list(cls.pumps)
        for pump in leaving:
            pump.leave()
        for pump in leaving:
            pump.join()
