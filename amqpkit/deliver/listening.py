"""Telling listeners what happened, without letting them decide anything."""

import logging

from amqpkit.events import Event, OnEvent, ignore

log = logging.getLogger("amqpkit.events")


def listeners(*each: OnEvent) -> OnEvent:
    """Make one listener of several, none of which can hurt another or a delivery.

    One that raises is logged at its first failure, and goes on being told.
    """
    guarded = [_guarded(listener) for listener in each if listener is not ignore]
    if len(guarded) <= 1:
        return guarded[0] if guarded else ignore

    def tell(event: Event) -> None:
        for listener in guarded:
            listener(event)

    return tell


def _guarded(listener: OnEvent) -> OnEvent:
    failed = False

    def tell(event: Event) -> None:
        nonlocal failed
        try:
            listener(event)
        except Exception:
            if not failed:  # once: a listener that is broken would fill the log faster than anything worth reading
                log.exception("listener %r failed on %s; later failures are not logged", listener, type(event).__name__)
            failed = True

    return tell
