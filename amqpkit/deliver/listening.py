"""Telling listeners what happened, without letting them decide anything."""

import logging

from amqpkit.events import Event, OnEvent, ignore

log = logging.getLogger("amqpkit.events")


def quiet(on_event: OnEvent) -> OnEvent:
    """Guard against a listener that raises: an observer must not decide a message's fate."""
    if on_event is ignore:
        return ignore

    def tell(event: Event) -> None:
        try:
            on_event(event)
        except Exception:
            log.exception("a listener failed on %s", type(event).__name__)

    return tell
