"""`/metrics` and `/healthz` over HTTP, in a thread of their own: they answer also when the worker's loop does not."""

import asyncio
import concurrent.futures
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

LOOP_TIMEOUT: Final = 5.0
"""Seconds until a loop that does not answer counts as stuck."""
FRESH: Final = 5.0
"""Seconds for which an answer of the loop serves every asker."""
Respond = Callable[[str, list[tuple[str, str]]], Any]


class Asked:
    """Asks the loop from other threads: one question at a time, its answer shared for a while."""

    def __init__(self, question: Callable[[], Awaitable[Any]], loop: asyncio.AbstractEventLoop) -> None:
        """Keep the question."""
        self._question, self._loop = question, loop
        self._lock = threading.Lock()
        self._until, self._answer, self._stuck = 0.0, None, -math.inf

    def __call__(self) -> Any:
        """Give the answer; raises TimeoutError when the loop is stuck, and what the question raises."""
        came = time.monotonic()
        with self._lock:
            if time.monotonic() < self._until:
                return self._answer
            if self._stuck >= came:  # found out while we waited: not each of many shall wait once more
                raise TimeoutError(_stuck())
            asked = asyncio.run_coroutine_threadsafe(_awaited(self._question), self._loop)
            try:
                self._answer = asked.result(LOOP_TIMEOUT)
            except concurrent.futures.TimeoutError:
                asked.cancel()
                self._stuck = time.monotonic()
                raise TimeoutError(_stuck()) from None
            self._until = time.monotonic() + FRESH
            return self._answer


def _stuck() -> str:
    return f"the worker's event loop has not answered for {LOOP_TIMEOUT:g} s"


async def _awaited(question: Callable[[], Awaitable[Any]]) -> Any:
    return await question()


class Face:
    """The WSGI application: `/metrics` after `refresh`, `/healthz` by `trouble`, which names what is wrong or nothing.

    Neither may raise anything but TimeoutError.
    """

    def __init__(
        self, registry: CollectorRegistry, refresh: Callable[[], object], trouble: Callable[[], str | None]
    ) -> None:
        """Keep the parts."""
        self._metrics = make_wsgi_app(registry)
        self._refresh, self._trouble = refresh, trouble

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        """Answer one request."""
        match environ["PATH_INFO"]:
            case "/metrics":
                self._refresh()
                answer: Iterable[bytes] = self._metrics(environ, respond)
                return answer
            case "/healthz":
                trouble = self._trouble()
                return _text(respond, "503 Service Unavailable" if trouble else "200 OK", trouble or "ok")
            case _:
                return _text(respond, "404 Not Found", "here are /metrics and /healthz")


def _text(respond: Respond, status: str, text: str) -> Iterable[bytes]:
    respond(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [f"{text}\n".encode()]


class _Handler(WSGIRequestHandler):
    timeout = 10.0
    """Seconds that a silent client may keep a thread."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log no request: a scrape every few seconds is no news."""


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left: the standard server would write a traceback to stderr."""


@contextmanager
def serving(face: Face, *, host: str, port: int) -> Iterator[int]:
    """Serve while the context lasts and give the port (another one than 0); raises OSError when it cannot be had."""
    server = make_server(host, port, face, server_class=_Server, handler_class=_Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(1)
