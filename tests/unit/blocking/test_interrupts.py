"""A KeyboardInterrupt at every line of a publish: what is stored was named, and no place of the window is lost.

Not at the lines of a `with`: there Python lets an interrupt in only while the lock is not held, a trace also after.
"""

import linecache
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from amqpkit.errors import Overloaded
from amqpkit.events import Fate, Published
from tests.unit.blocking.world import Gated, Plain, Small, World

WHERE = ("deliver/flights.py", "deliver/blocking.py", "deliver/places.py", "deliver/sending.py", "memory/blocking.py")
NAMED = {Fate.CONFIRMED, Fate.UNCERTAIN}


class Interrupt:
    """Raises a KeyboardInterrupt at one of the lines that are run, counted from 1."""

    def __init__(self, at):
        self._left, self.line = at, ""
        self._before = sys.gettrace()

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_error):
        sys.settrace(self._before)

    def _trace(self, frame, event, _argument):
        if not frame.f_code.co_filename.endswith(WHERE):
            return None
        if event == "line" and not self.line:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            self._left -= not line.startswith("with ")
            if self._left == 0:
                self.line = f"{frame.f_code.co_filename}:{frame.f_lineno}: {line}"
                raise KeyboardInterrupt
        return self._trace


def interrupted(payload, at):
    """Publish two, interrupted at a line; that line, or nothing when there are not so many."""
    world, told = World(), defaultdict(set)
    publisher = world.publisher(window=2, overload="fail", timeout=0.5)
    if payload is Small:
        world.fill("small", 4)
    before = set(world.stored(payload.payload_type))

    def note(outcome):
        told[outcome.message_id].add(outcome.fate)

    interrupt = Interrupt(at)
    try:
        with interrupt:
            publisher.publish_many([payload(n=n) for n in range(2)], progress=note)
    except KeyboardInterrupt:
        pass
    if interrupt.line:
        stored = set(world.stored(payload.payload_type)) - before
        assert stored <= {each for each, fates in told.items() if fates <= NAMED}, f"stored untold by {interrupt.line}"
        assert all(len(fates) == 1 for fates in told.values()), f"two stories of one message by {interrupt.line}"
        heard = {event.message_id for event in world.events if isinstance(event, Published)}
        assert stored <= heard, f"no event by {interrupt.line}"
        assert payload is not Plain or publisher.pressure == 0.0, f"a place is lost by {interrupt.line}"
        assert isinstance(full(publisher), Overloaded), f"nobody asks any more by {interrupt.line}"
    return interrupt.line


def full(publisher):
    """Publish one more to the gated queue than it may have; the error of the last."""
    return publisher.publish_many([Gated(n=n) for n in range(6)])[-1].error


@pytest.mark.parametrize("payload", [Plain, Small, Gated])
def test_at_whatever_moment_it_comes_what_is_stored_was_named(payload):
    at = 1
    # In a thread of its own: an interrupt out of a trace can leave CPython's thread in the middle of an exception,
    # which every later one of that thread then has as its context.
    with ThreadPoolExecutor(max_workers=1) as apart:
        while apart.submit(interrupted, payload, at).result():
            at += 1
    assert at > 100
