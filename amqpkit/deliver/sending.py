"""One publish from its caller's wish to its fate: paced, held at a full queue, sent, sent again after a nack.

Pure: a generator that yields what is to be done and is sent what came of it, so that an async and a blocking
publisher perform the same flow. It may know no broker, no clock and no chance: each answer says what time it is (in
seconds), and the back-off is handed in. A failure is a value until the driver raises it.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from amqpkit.deliver.brakes import Gate, Look, Pace
from amqpkit.errors import (
    BrokerBlocked,
    Nacked,
    Overloaded,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unroutable,
    Unsendable,
)
from amqpkit.events import Fate

ASK_SHARE: Final = 0.5
"""How much of what is left of the deadline a question about a queue may take."""
ASK_TIMEOUT: Final = 2.0
"""Seconds that it may take at most."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let seconds pass; answer with None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AskDepth:
    """Ask how many messages are in the gate's queue, or wait for whoever is asking already; answer with None.

    The driver calls `gate.asked()` before it asks and `gate.told(depth or None, now)` after, within `timeout` seconds.
    """

    gate: Gate
    timeout: float


@dataclass(frozen=True, slots=True)
class Transmit:
    """Send, and answer with the PublishError that came of it or None; `timeout` in seconds covers all of it.

    `tries` counts from 1: from the second on, other queues of a fan-out may get a second copy.
    """

    timeout: float
    tries: int


Effect = Wait | AskDepth | Transmit
Answer = tuple[float, PublishError | None]
"""What time it is now, and what came of a Transmit."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one publish.

    `timeout` in seconds is for everything; `patient` waits for a queue above its limit and sends again what was
    nacked, else both are told at once. `backoff` gives the seconds to wait after so many tries.
    """

    timeout: float
    patient: bool = True
    gates: tuple[Gate, ...] = ()
    pace: Pace | None = None
    backoff: Callable[[int], float] = lambda tries: 0.1 * 2**tries


@dataclass(frozen=True, slots=True)
class End:
    """How it ended: how often it was sent, and the error that its caller gets, if any."""

    tries: int
    error: PublishError | None = None


def sending(terms: Terms, now: float) -> Generator[Effect, Answer, End]:
    """Take one message to its end; the errors that are made here do not name it yet (see `outgoing.named`)."""
    deadline, tries = now + terms.timeout, 0
    if terms.pace is not None:
        now, late = yield from _turn(terms.pace, now, deadline)
        if late is not None:
            return End(0, late)
    nacked: Nacked | None = None
    while True:
        if terms.gates:
            now, held = yield from _pass(terms, now, deadline)
            if held is not None:
                return End(tries, nacked or held)
        if now >= deadline:
            return End(tries, nacked or PublishTimeout("nothing was left of its time when its turn came"))
        tries += 1
        now, error = yield Transmit(deadline - now, tries)
        if not isinstance(error, Nacked):
            return End(tries, _of_all_tries(nacked, error))
        nacked = error
        for gate in terms.gates:
            gate.give_back(now)
        wait = terms.backoff(tries)
        if not terms.patient or now + wait >= deadline:
            return End(tries, nacked)
        now, _ = yield Wait(wait)


def _turn(pace: Pace, now: float, deadline: float) -> Generator[Effect, Answer, tuple[float, PublishTimeout | None]]:
    """Wait for the next turn, or say at once that it comes too late."""
    wait = pace.reserve(now, deadline - now)
    if wait is None:
        return now, PublishTimeout(f"at {pace.rate:g} messages a second its turn is after the deadline")
    if wait > 0:
        now, _ = yield Wait(wait)
    return now, None


def _pass(terms: Terms, now: float, deadline: float) -> Generator[Effect, Answer, tuple[float, Overloaded | None]]:
    """Get through every gate, and count as taken in each; or the error once there is no time or no patience."""
    while True:
        for gate in terms.gates:
            look = gate.look(now)
            if look is Look.ASK and now < deadline:
                now, _ = yield AskDepth(gate, min(ASK_TIMEOUT, ASK_SHARE * (deadline - now)))
                break
            if look is not Look.PASS:
                if look is Look.ASK and not gate.shut:
                    return now, None  # no time is left to ask, and nothing is known against it: the deadline it is
                wait = gate.opens_in(now)
                if not terms.patient or now + wait >= deadline:
                    return now, _overloaded(gate)
                now, _ = yield Wait(wait)
                break
        else:
            for gate in terms.gates:
                gate.take()
            return now, None


def _of_all_tries(nacked: Nacked | None, last: PublishError | None) -> PublishError | None:
    """Tell the last try's end, unless it was not sent: of a nacked one before it, other queues may have the message."""
    return nacked if nacked is not None and isinstance(last, PublishTimeout) else last


def _overloaded(gate: Gate) -> Overloaded:
    reason = f'queue "{gate.queue}" has {gate.depth} messages, its limits.depth is {gate.limit}'
    return Overloaded(reason, queue=gate.queue, depth=gate.depth, retry_after=gate.retry_after)


def fate_of(error: PublishError | None) -> Fate:
    """Name how a publish ended."""
    match error:
        case None:
            return Fate.CONFIRMED
        case Unroutable():
            return Fate.UNROUTABLE
        case Nacked():
            return Fate.NACKED
        case Overloaded():
            return Fate.OVERLOADED
        case BrokerBlocked():
            return Fate.BLOCKED
        case PublishTimeout():
            return Fate.TIMED_OUT
        case PublishUncertain():
            return Fate.UNCERTAIN
        case Unsendable():
            return Fate.UNSENDABLE
        case _:  # it never got so far as to be a message
            return Fate.UNSENDABLE
