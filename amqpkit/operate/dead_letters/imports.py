"""Importing: lines of an export or an audit file become messages again, in the queue that they were in."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from amqpkit.errors import BrokerError, PublishError, PublishUncertain, QueueMissing, Unsendable
from amqpkit.model import Message
from amqpkit.operate.dead_letters.lines import Kept, from_line
from amqpkit.operate.dead_letters.targets import Targets
from amqpkit.operate.dead_letters.waiting import Pace
from amqpkit.operate.dead_letters.window import DEADLINE, Window
from amqpkit.ports import Clock, Transport

GIVE_UP_AFTER: Final = 20
"""Refusals in a row that are no single line's fault."""
COPIES: Final = frozenset({"CC", "BCC"})
"""Headers by which the broker would send copies to other queues."""
COUNTS: Final = frozenset({"x-delivery-count", "x-acquired-count"})
"""The broker's count of deliveries from the queue that the letter was in: no part of the letter."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that is not stored, or of which nobody knows (`uncertain`); numbers begin at 1."""

    line: int
    reason: str
    uncertain: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an import is: lines read, stored, and the number up to which each is stored or a fault.

    Whoever skips the first `safe` lines after a kill imports at most a window of lines (100) twice.
    """

    read: int
    stored: int
    safe: int


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to.

    `read` lines (those that were skipped too) were read: each is stored or among the faults, so `skip=read` goes on.
    `changed` messages lost their user id or their CC, which no broker would have taken as they were. `trouble` says
    why it ended before the end.
    """

    read: int
    stored: int
    faults: tuple[Fault, ...] = ()
    changed: int = 0
    trouble: str = ""

    @property
    def complete(self) -> bool:
        """Whether every line is stored."""
        return not (self.trouble or self.faults)


async def import_letters(  # noqa: PLR0913 - keyword-only settings, each with its default
    transport: Transport,
    lines: Iterable[str | bytes],
    *,
    to: str | None = None,
    skip: int = 0,
    rate: float | None = None,
    clock: Clock,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[Standing], None] = lambda _standing: None,
    on_fault: Callable[[Fault, str | bytes], None] = lambda _fault, _line: None,
) -> Imported:
    """Publish lines, confirmed, to the queues that they name, or to one; a broken line is a fault and stops nothing.

    `skip` lines are passed over unread; empty lines too. `on_fault` gets each line that is not stored, to be kept. What
    the broker refuses again and again, and a fate that is not known, end it.
    """
    run = _Import(transport, to, Pace(rate, clock), Window(clock), stop or asyncio.Event(), on_fault)
    try:
        for number, line in enumerate(lines, start=1):
            if run.trouble or run.stop.is_set():
                break
            if number > skip and line.strip() and not await run.treat(number, line):
                break
            run.read = number  # not before: whoever goes on from here must find a line that could not be treated
            on_progress(run.standing)
    except BrokerError as error:
        run.trouble = run.trouble or str(error)
    finally:
        await run.window.drain(stop=run.stop)
        on_progress(run.standing)
    await run.look_back()
    return run.report()


class _Import:
    """One import on its way."""

    def __init__(  # noqa: PLR0913, PLR0917 - what `import_letters` was given
        self,
        transport: Transport,
        to: str | None,
        pace: Pace,
        window: Window,
        stop: asyncio.Event,
        on_fault: Callable[[Fault, str | bytes], None],
    ) -> None:
        self.window, self.stop = window, stop
        self.read, self.trouble = 0, ""
        self._transport, self._to, self._pace, self._on_fault = transport, to, pace, on_fault
        self._targets = Targets(transport)
        self._stored = self._changed = self._in_a_row = 0
        self._under_way: set[int] = set()
        self._unwatched: dict[str, list[tuple[int, str | bytes]]] = {}
        self._faults: list[Fault] = []

    @property
    def standing(self) -> Standing:
        safe = min(self._under_way) - 1 if self._under_way else self.read
        return Standing(self.read, self._stored, safe)

    async def treat(self, number: int, line: str | bytes) -> bool:
        """Send a line or name its fault; False, and neither, once it is told to stop."""
        try:
            kept = from_line(line.decode() if isinstance(line, bytes) else line)
            queue = self._to or kept.queue
            await self._targets.find(queue)
        except (ValueError, QueueMissing) as error:
            self._fail(number, line, str(error))
            return True
        await self._pace.turn(self.stop)
        await self.window.room(len(kept.message.body), stop=self.stop)
        if self.stop.is_set() or self.trouble:
            return False
        self._send(number, line, queue, kept)
        return True

    def _send(self, number: int, line: str | bytes, queue: str, kept: Kept) -> None:
        message = sendable(kept)
        self._changed += would_go_astray(kept)
        # A message without an id would be given one if it had to come back, and would not be what it was.
        mandatory = message.properties.message_id is not None
        if not mandatory:
            self._unwatched.setdefault(queue, []).append((number, line))
        self._under_way.add(number)
        future = self._transport.publish("", queue, message, mandatory=mandatory, timeout=DEADLINE)
        self.window.put(future, len(message.body), partial(self._settle, number, line))

    def _settle(self, number: int, line: str | bytes, error: BaseException | None) -> None:
        self._under_way.discard(number)
        match error:
            case None:
                self._stored, self._in_a_row = self._stored + 1, 0
            case Unsendable():
                self._fail(number, line, str(error))
            case PublishUncertain() | TimeoutError() | asyncio.CancelledError():
                self._fail(number, line, str(error), uncertain=True)
                self.trouble = self.trouble or f"ended, because the fate of line {number} is not known: {error}"
            case PublishError():
                self._fail(number, line, str(error))
                self._in_a_row += 1
                if self._in_a_row >= GIVE_UP_AFTER and not self.trouble:
                    self.trouble = f"given up after {self._in_a_row} failures in a row, the last: {error}"
            case _:
                self._fail(number, line, repr(error))
                self.trouble = self.trouble or repr(error)

    def _fail(self, number: int, line: str | bytes, reason: str, *, uncertain: bool = False) -> None:
        fault = Fault(number, reason, uncertain)
        self._faults.append(fault)
        self._on_fault(fault, line)

    async def look_back(self) -> None:
        """See whether the queues are still there to which messages went that could not have come back."""
        for queue, numbers in self._unwatched.items():
            try:
                await Targets(self._transport).find(queue)
            except BrokerError as error:
                for number, line in numbers:
                    self._fail(number, line, str(error), uncertain=True)

    def report(self) -> Imported:
        faults = tuple(sorted(self._faults, key=lambda fault: fault.line))
        return Imported(self.read, self._stored, faults, self._changed, self.trouble)


def sendable(kept: Kept) -> Message:
    """A kept letter as a broker takes it into one queue: without what would copy it, and without its sender's login."""
    properties = kept.message.properties
    headers = {name: value for name, value in properties.headers.items() if name not in COPIES | COUNTS}
    if properties.user_id is None and len(headers) == len(properties.headers):
        return kept.message
    return Message(kept.message.body, replace(properties, user_id=None, headers=headers))


def would_go_astray(kept: Kept) -> bool:
    """Whether a kept letter says something that `sendable` has to leave out though it is the producer's."""
    properties = kept.message.properties
    return properties.user_id is not None or not COPIES.isdisjoint(properties.headers)
