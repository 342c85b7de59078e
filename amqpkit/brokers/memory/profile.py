"""Which RabbitMQ is imitated; the facts of both were measured on real brokers."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """A version of the broker, and the one line that divides its behaviours."""

    version: str
    since_4_3: bool


PROFILES: Final = {
    "4.0": Profile("4.0.5", since_4_3=False),
    "4.3": Profile("4.3.6", since_4_3=True),
}


class NotModelled(NotImplementedError):
    """The real broker has this and the simulator has not: it refuses rather than pretends."""

    def __init__(self, what: str) -> None:
        """Name what is missing."""
        super().__init__(f"the in-memory broker does not model {what}; use a real broker for this")
