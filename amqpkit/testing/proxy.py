"""A TCP proxy that fails on command: put it between a client and a broker, and see what the client does.

    async with FaultProxy("127.0.0.1", 5672) as proxy:
        transport = AioTransport(proxy.redirect("amqp://guest:guest@127.0.0.1:5672/"))
        proxy.stall()

It runs in the loop that enters it. A handler that blocks this loop blocks the proxy too.
"""

import asyncio
import socket
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

Side = Literal["client", "server", "both"]
"""Whose bytes are meant: those that the client sends, those that the server sends, or both."""

_CHUNK: Final = 64 * 1024


class FaultProxy:
    """Passes bytes between its own port on the loopback address and `host:port` until it is told otherwise."""

    def __init__(self, host: str, port: int) -> None:
        """Remember where to pass to; nothing listens before `start`."""
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = {"client": asyncio.Event(), "server": asyncio.Event()}
        self._delay = 0.0
        self._refusing = False
        self.accepted = 0
        """How many connections have been passed on so far."""
        self.resume()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Listen on a free port of the loopback address; raises OSError."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        """Where it listens; only after `start`."""
        if self._server is None:
            msg = "the proxy does not listen"
            raise RuntimeError(msg)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many connections go through it now."""
        return len(self._pipes)

    def redirect(self, url: str) -> str:
        """Give the same URL with the proxy's host and port."""
        parts = urlsplit(url)
        credentials, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}"))

    # --- faults --------------------------------------------------------------------------------

    def cut(self) -> int:
        """Reset every connection, as a crashed router would; return how many. New ones are let through."""
        pipes = tuple(self._pipes)
        for pipe in pipes:
            pipe.reset()
        return len(pipes)

    def half_close(self) -> int:
        """Tell the clients that the server sends nothing more, and go on taking what they send; return how many."""
        pipes = tuple(self._pipes)
        for pipe in pipes:
            pipe.end_of_server()
        return len(pipes)

    def stall(self, side: Side = "both") -> None:
        """Pass nothing on, and close nothing: sockets stay open and silent. New connections are stalled too."""
        for name in self._sides(side):
            self._flows[name].clear()

    def delay(self, seconds: float) -> None:
        """Hold every chunk back for so long, in each direction."""
        self._delay = seconds

    def refuse(self) -> None:
        """Reset new connections at once; those that stand go on."""
        self._refusing = True

    def resume(self) -> None:
        """End stalls, delays and refusals; what was held back is passed on."""
        self._delay, self._refusing = 0.0, False
        for flow in self._flows.values():
            flow.set()

    async def close(self) -> None:
        """Stop listening and reset what is left."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._server is not None:
            await self._server.wait_closed()

    # --- passing on ----------------------------------------------------------------------------

    @staticmethod
    def _sides(side: Side) -> tuple[str, ...]:
        return ("client", "server") if side == "both" else (side,)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            # Only `close` cancels; asyncio's server would report it as an error of ours.
            return
        finally:
            if task is not None:
                self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _reset(writer)
            return
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        self.accepted += 1
        pipe = _Pipe(writer, there_writer)
        self._pipes.add(pipe)
        try:
            await asyncio.gather(
                self._pass(reader, there_writer, "client", pipe), self._pass(there_reader, writer, "server", pipe)
            )
        finally:
            self._pipes.discard(pipe)
            pipe.reset()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, side: str, pipe: "_Pipe") -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._flows[side].wait()
                if side == "server" and pipe.server_ended:
                    continue
                sink.write(chunk)
                await sink.drain()
            await self._flows[side].wait()
            if sink.can_write_eof() and not sink.is_closing():
                sink.write_eof()


class _Pipe:
    """The two sockets of one connection that is passed on."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client, self._server = client, server
        self.server_ended = False

    def reset(self) -> None:
        """End both at once, without a goodbye."""
        for writer in (self._client, self._server):
            _reset(writer)

    def end_of_server(self) -> None:
        """Send the client an end of file; its own direction stays open."""
        self.server_ended = True
        with suppress(OSError):
            self._client.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN: no lingering, nothing flushed."""
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None and not writer.transport.is_closing():
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    writer.transport.abort()
