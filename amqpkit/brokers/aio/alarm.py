"""Whether the broker blocks a connection's publishes: aiormq hears of it, holds nothing back, and tells nobody."""

from collections.abc import Callable
from typing import Final

_BLOCKED: Final = b"\x00\x0a\x00\x3c"
_UNBLOCKED: Final = b"\x00\x0a\x00\x3d"


class Alarm:
    """What `connection.blocked` and `connection.unblocked` last said; a new connection begins unblocked.

    The broker says it only to a connection that publishes, and reads nothing more from it (measured).
    """

    def __init__(self) -> None:
        """Begin without an alarm."""
        self.blocked, self.reason = False, ""
        self.call_at_end(lambda: None)

    def call_at_end(self, on_end: Callable[[], object]) -> None:
        """Call this, and nobody else, when an alarm ends."""
        self._on_end = on_end

    def hear(self, payload: bytes) -> None:
        """Take the payload of a method frame on channel 0; most say nothing of alarms."""
        method = payload[:4]
        if method == _BLOCKED:
            self.blocked, self.reason = True, payload[5 : 5 + payload[4]].decode(errors="replace")
        elif method == _UNBLOCKED:
            self.blocked, self.reason = False, ""
            self._on_end()
