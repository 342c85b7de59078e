"""How long a transport tries to open: its timeout, however the tries fall."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.errors import ConnectionFailed

TIMEOUT, RESETS = 2.0, 1.2
"""Seconds to open, and seconds for which the server resets who comes; after that it takes them and says nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    begun, silent = time.monotonic(), list[socket.socket]()

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            if time.monotonic() - begun < RESETS:
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                caller.close()
            else:
                silent.append(caller)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}/"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)
    for caller in silent:
        caller.close()


def open_async(url: str) -> None:
    async def program() -> None:
        transport = AioTransport(url, connect_timeout=TIMEOUT)
        try:
            await transport.open()
        finally:
            await transport.close()

    asyncio.run(program())


def open_blocking(url: str) -> None:
    transport = PikaTransport(url, connect_timeout=TIMEOUT)
    try:
        transport.open()
    finally:
        transport.close()


@pytest.mark.parametrize("opens", [open_async, open_blocking])
def test_the_last_try_has_only_what_is_left_of_the_timeout(server: str, opens: Callable[[str], None]) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionFailed):
        opens(server)
    assert TIMEOUT - 0.5 < time.monotonic() - began < TIMEOUT + 1.0
