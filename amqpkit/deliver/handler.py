"""Calling a handler: awaited or in a thread, within its timeout, in a context of its own."""

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from concurrent.futures import Future as ThreadFuture
from typing import Any

from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.context import Context
from amqpkit.deliver.effects import HandlerTimeout, Stopped
from amqpkit.deliver.payload import Payload
from amqpkit.ports import Clock


class Halt:
    """Ends every wait inside its scopes at once, when the grace period is over."""

    def __init__(self) -> None:
        """Start with nothing to end."""
        self.now = False
        self._scopes: set[asyncio.Timeout] = set()

    def halt(self) -> None:
        """End all scopes, those entered later too."""
        if self.now:
            return  # a scope that is ending already cannot be told again
        self.now = True
        when = asyncio.get_running_loop().time()
        for scope in self._scopes:
            scope.reschedule(when)

    async def guard(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await `work`, but no longer than until `halt`: then it is cancelled and Stopped is raised."""
        if self.now:
            work.close()
            raise Stopped("the worker stops")
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    return await work
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if scope.expired():
                raise Stopped("the worker stops") from None
            raise


class Handler:
    """One consumer's `handle`, called for one message at a time; a worker has one for each unit of concurrency."""

    def __init__(self, consumer: Consumer[Any], *, timeout: float | None, clock: Clock, threads: Executor) -> None:
        """Keep the parts; `timeout` in seconds."""
        self.consumer = consumer
        self._handle: Callable[..., Any] = consumer.handle
        self._async = consumer.is_async()
        self._timeout, self._clock, self._threads = timeout, clock, threads
        self.abandoned: ThreadFuture[Any] | None = None

    async def call(self, payload: Payload, context: Context) -> object:
        """Call it and return its value; raises what it raises, or HandlerTimeout.

        A thread cannot be cancelled: after a timeout it is `abandoned` and runs on.
        """
        return await self.call_method(self._handle, payload, context)

    async def call_method(self, method: Callable[..., Any], *arguments: Any) -> object:
        """Call another method of the consumer, in the same timeout: what undoes a step."""
        if self._timeout is None:
            return await self._run(method, *arguments)
        scope, loop = asyncio.timeout(None), asyncio.get_running_loop()
        # the timer is the clock's, virtual time included; asyncio's own scope then does the careful cancelling
        disarm = self._clock.call_later(self._timeout, lambda: scope.reschedule(loop.time()))
        try:
            async with scope:
                try:
                    return await self._run(method, *arguments)
                finally:
                    disarm()
        except TimeoutError as error:
            if scope.expired():
                msg = f"the handler took longer than {self._timeout:g} s"
                raise HandlerTimeout(msg) from error
            raise

    async def _run(self, method: Callable[..., Any], *arguments: Any) -> object:
        if not (self._async if method is self._handle else inspect.iscoroutinefunction(method)):
            return await self.in_thread(method, *arguments)
        own = contextvars.copy_context()
        # called inside too: what a handler sets before its first await stays its own
        return await InContext(own.run(method, *arguments), own)

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> object:
        """Call a plain function in a thread; one that is not waited for any more is `abandoned`."""
        own = contextvars.copy_context()
        thread = self._threads.submit(own.run, _called, function, *arguments)
        try:
            return await asyncio.wrap_future(thread)
        except asyncio.CancelledError:
            if not thread.cancel():
                self.abandoned = thread
            raise

    async def wait_for_abandoned(self, stop: asyncio.Event) -> None:
        """Wait until a thread that outlived its timeout has ended, or until `stop`; its outcome no longer matters."""
        thread, loop = self.abandoned, asyncio.get_running_loop()
        if thread is None:
            return
        ended = asyncio.Event()
        thread.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(ended.set))
        waits = [asyncio.create_task(event.wait()) for event in (ended, stop)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if thread.done():
            self.abandoned = None


def _called(function: Callable[..., Any], *arguments: Any) -> object:
    try:
        return function(*arguments)
    except StopIteration as error:
        # no future can carry it (the one that waits for this thread would never be done); a coroutine turns it the same
        msg = "the handler raised StopIteration"
        raise RuntimeError(msg) from error


class InContext:
    """Awaits a coroutine step by step inside a context of its own.

    A pool of workers shares its tasks among messages; without this a context variable that one handler sets
    would be seen by the next message's. A task per message would isolate too, at several times the cost.
    """

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> None:
        """Keep both; nothing runs yet."""
        self._coroutine, self._context = coroutine, context

    def __await__(self) -> Generator[Any, Any, Any]:
        """Pass the coroutine's futures up and the loop's answers down."""
        step, throw = self._coroutine.send, self._coroutine.throw
        run, sent, raised = self._context.run, None, None
        try:
            while True:
                future = run(step, sent) if raised is None else run(throw, raised)
                try:
                    sent, raised = (yield future), None
                except BaseException as error:  # noqa: BLE001 - handed to the coroutine, which decides
                    raised = error
        except StopIteration as end:
            return end.value
        finally:
            self._coroutine.close()
