"""Several listeners on the one `on_event` hook, none of which can hurt another or a delivery."""

import logging
from collections.abc import Callable

from amqpkit.events import Event, OnEvent

log = logging.getLogger("amqpkit.listeners")


def listeners(*each: OnEvent) -> OnEvent:
    """Make one listener of several; one that raises is logged at its first failure, and goes on being told."""
    guarded = tuple(map(_guarded, each))

    def tell(event: Event) -> None:
        for listener in guarded:
            listener(event)

    return tell


def _guarded(listener: OnEvent) -> Callable[[Event], None]:
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
