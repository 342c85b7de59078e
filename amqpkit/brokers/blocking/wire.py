"""The only module that knows how bytes get into pika and out of it.

pika connects, authenticates, keeps up heartbeats, speaks TLS and opens channels. A publisher's frames go past it: see
`frames`. What is used beyond its documented calls are the hooks by which its own adapters feed it.
All of it belongs to one thread, the one that turns the loop.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol
from urllib.parse import parse_qs

# No types in its wheel: whatever comes from pika is Any, and stays in this folder.
import pika  # type: ignore[import-untyped]
from pika.adapters.select_connection import IOLoop, SelectConnection  # type: ignore[import-untyped]
from pika.adapters.utils.selector_ioloop_adapter import (  # type: ignore[import-untyped]
    SelectorIOServicesAdapter,
)
from pika.exceptions import AMQPError, StreamLostError  # type: ignore[import-untyped]

from amqpkit.brokers.blame import Loss
from amqpkit.brokers.blocking import faults
from amqpkit.brokers.blocking.frames import OVERHEAD, Confirm, Returned, Sieve
from amqpkit.brokers.url import BrokerURL
from amqpkit.ports import BrokerInfo

_JOIN: Final = 64 * 1024
"""What is joined into one write at most: what a socket does not take at once is copied once more."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, what to say of us there, and for how many seconds to try."""

    url: BrokerURL
    name: str
    heartbeat: int
    timeout: float

    def parameters(self, purpose: str) -> Any:
        """What pika takes; a heartbeat in the URL goes before ours."""
        place, options = self.url.location, {name: values[-1] for name, values in parse_qs(self.url.options).items()}
        return pika.ConnectionParameters(
            host=place.host,
            port=place.port,
            virtual_host=self.url.vhost,
            credentials=pika.PlainCredentials(place.user, place.password),
            heartbeat=int(options.get("heartbeat", self.heartbeat)),
            socket_timeout=self.timeout,
            stack_timeout=self.timeout,
            client_properties={"connection_name": f"{self.name} {purpose}"},
            ssl_options=pika.SSLOptions(_tls(options), place.host) if place.tls else None,
        )


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    """Read the TLS options of a URL, which are called as aio-pika calls them."""
    context = ssl.create_default_context(cafile=options.get("cafile"), capath=options.get("capath"))
    if options.get("no_verify_ssl", "0") != "0":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if "certfile" in options:
        context.load_cert_chain(options["certfile"], options.get("keyfile"))
    return context


class Loop(IOLoop):  # type: ignore[misc]  # a class of pika's
    """pika's loop, which can be let go of in a forked child."""

    def disown(self) -> None:
        """Close our copies of its descriptors, without a word to the poller, which the parent goes on using."""
        poller: Any = self._poller
        for name in ("_r_interrupt", "_w_interrupt", "_poll"):
            each = getattr(poller, name, None)
            if each is not None and hasattr(each, "close"):
                each.close()


class Watcher(Protocol):
    """Who hears of a connection."""

    def opened(self, wire: "Wire") -> None:
        """It stands."""

    def failed(self, wire: "Wire", error: BaseException) -> None:
        """It never came to stand."""

    def ended(self, wire: "Wire", cause: Loss) -> None:
        """It stood, and is gone."""

    def throttled(self, wire: "Wire", reason: str | None) -> None:
        """The broker is in an alarm and takes no messages, for that reason; None: it takes them again."""


class Services(SelectorIOServicesAdapter):  # type: ignore[misc]  # a class of pika's
    """pika's services on a loop, which report a socket that was lost as soon as it was connected.

    pika 1.4.4 raises ValueError out of the loop then, and the loop would end with it (seen when a server hangs up at
    once, as one that is going down does).
    """

    def create_streaming_connection(  # what pika asks for
        self,
        protocol_factory: Callable[[], Any],
        sock: Any,
        on_done: Callable[[Any], None],
        ssl_context: Any = None,
        server_hostname: str | None = None,
    ) -> Any:
        """As pika's own; a lost socket is told to `on_done`."""
        try:
            return super().create_streaming_connection(protocol_factory, sock, on_done, ssl_context, server_hostname)
        except ValueError as error:
            return self.call_later(0, partial(on_done, ConnectionAbortedError(str(error))))


class Wire(SelectConnection):  # type: ignore[misc]  # a class of pika's
    """A connection, from its first packet on."""

    def __init__(self, address: Address, purpose: str, loop: Loop, watcher: Watcher) -> None:
        """Begin to connect."""
        self._sieve = Sieve()
        self._hear: Callable[[list[Confirm | Returned]], None] = lambda _words: None
        self.outlets = 0
        """How many channels in confirm mode are open or about to be."""
        super().__init__(
            address.parameters(purpose),
            on_open_callback=watcher.opened,
            on_open_error_callback=watcher.failed,
            on_close_callback=lambda wire, error: watcher.ended(wire, faults.loss(error)),
            custom_ioloop=Services(loop),
        )
        self.add_on_connection_blocked_callback(lambda wire, frame: watcher.throttled(wire, str(frame.method.reason)))
        self.add_on_connection_unblocked_callback(lambda wire, _frame: watcher.throttled(wire, None))

    @property
    def info(self) -> BrokerInfo:
        """Who answered."""
        said = self.server_properties or {}
        return BrokerInfo(_text(said.get("version")), _text(said.get("cluster_name")))

    @property
    def room(self) -> int:
        """What a frame may carry."""
        return int(self.params.frame_max) - OVERHEAD

    @property
    def backlog(self) -> int:
        """Bytes that the socket has not taken yet."""
        return int(self._get_write_buffer_size()) if self._transport is not None else 0

    def emit(self, parts: list[bytes]) -> None:
        """Send frames in order, the small ones in few writes."""
        joined: list[bytes] = []
        start, size = 0, 0
        for at, part in enumerate(parts):
            if size and size + len(part) > _JOIN:
                joined.append(b"".join(parts[start:at]))
                start, size = at, 0
            size += len(part)
        joined.append(b"".join(parts[start:]))
        self._output_marshaled_frames(joined)

    def abort(self, reason: str) -> None:
        """End it without a goodbye; `ended` or `failed` follows."""
        with suppress(AMQPError, AssertionError):  # it may be on its way out already
            self._terminate_stream(StreamLostError(reason))

    def goodbye(self) -> None:
        """End it politely; `ended` or `failed` follows when the broker has answered."""
        with suppress(AMQPError):
            self.close()

    def disown(self) -> None:
        """Close this process's copy of the socket; not a byte goes to the broker, whose client is the parent."""
        socket = getattr(self._transport, "_sock", None)
        if socket is not None:
            socket.close()

    # --- channels -----------------------------------------------------------------------------

    def open_outlet(
        self,
        ready: Callable[[int], None],
        hear: Callable[[list[Confirm | Returned]], None],
        lost: Callable[[Loss], None],
    ) -> None:
        """Open a channel in confirm mode: `ready` gets its number, `hear` what the broker says, `lost` its end."""

        def opened(channel: Any) -> None:
            channel.confirm_delivery(lambda _frame: None, callback=lambda _frame: selected(channel))

        def selected(channel: Any) -> None:
            self._hear = hear
            self._sieve.claim(int(channel))
            ready(int(channel))

        def closed(_channel: Any, why: BaseException) -> None:
            self.outlets -= 1
            lost(faults.loss(why))

        self.outlets += 1
        self._channel(opened, closed)

    def ask(self, kind: Literal["exchange", "queue"], name: str, answered: Callable[[int | Loss], None]) -> None:
        """Declare passively on a channel of its own: answers with the messages that are ready, or with its loss."""
        answers: list[int | Loss] = []

        def answer(what: int | Loss) -> None:
            if not answers:
                answers.append(what)
                answered(what)

        def found(channel: Any, frame: Any) -> None:
            channel.close()
            answer(int(getattr(frame.method, "message_count", 0)))

        def opened(channel: Any) -> None:
            declare = channel.exchange_declare if kind == "exchange" else channel.queue_declare
            declare(name, passive=True, callback=lambda frame: found(channel, frame))

        self._channel(opened, lambda _channel, why: answer(faults.loss(why)))

    def _channel(self, opened: Callable[[Any], None], closed: Callable[[Any, BaseException], None]) -> None:
        try:
            channel = self.channel(on_open_callback=opened)
        except AMQPError as error:  # the connection is about to end
            closed(None, error)
        else:
            channel.add_on_close_callback(closed)

    # --- what pika calls ----------------------------------------------------------------------

    def _on_data_available(self, data_in: bytes) -> None:
        words, rest = self._sieve.sift(data_in)
        # Else pika would think that nothing has come, and give the connection up for dead.
        self.bytes_received += self._sieve.taken
        if words:
            self._hear(words)
        if rest:
            super()._on_data_available(rest)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
