"""Which messages must wait before they are sent, and for what.

Two reasons: an exchange of which we do not know yet whether it takes messages, and a message with the same id under
way (a returned message is known by nothing else; two at once got each other's result in 50 of 50 tries). Pure.
"""

from typing import Generic, Protocol, TypeVar


class Routed(Protocol):
    """What is known of a message here."""

    @property
    def exchange(self) -> str: ...  # noqa: D102 - the protocol's docstring covers it
    @property
    def message_id(self) -> str | None: ...  # noqa: D102
    @property
    def late(self) -> bool: ...  # noqa: D102


T = TypeVar("T", bound=Routed)


class Lanes(Generic[T]):
    """Parks messages by exchange and by id, and says which may go on.

    An exchange begins unknown. Its messages wait until a check says that it exists; then one goes alone, on trial,
    since it may be internal or closed to us, which closes the channel. What the trial ends with opens the lane.
    """

    def __init__(self) -> None:
        """Know only the default exchange, which always exists and never refuses."""
        self._proven = {""}
        self._lanes: dict[str, list[T]] = {}
        self._unchecked: set[str] = set()
        self._on_trial: dict[str, T] = {}
        self._ids: dict[str, list[T]] = {}

    @property
    def parked(self) -> bool:
        """Whether anything waits here."""
        return any(self._lanes.values()) or any(self._ids.values())

    def admit(self, message: T) -> bool:
        """Whether it may be sent now; else it is parked."""
        exchange = message.exchange
        if exchange not in self._proven and self._on_trial.get(exchange) is not message:
            if exchange not in self._lanes:
                self._lanes[exchange] = []
                self._unchecked.add(exchange)
            self._lanes[exchange].append(message)
            return False
        return self._takes_id(message)

    def wants_check(self, exchange: str) -> bool:
        """Whether its first message has just been parked; says so once."""
        if exchange in self._unchecked:
            self._unchecked.remove(exchange)
            return True
        return False

    def exists(self, exchange: str) -> list[T]:
        """The check found it: give the message that goes on trial, first of those that still want to go."""
        lane = self._lanes.get(exchange, [])
        while lane:
            message = lane.pop(0)
            if not message.late:
                self._on_trial[exchange] = message
                return [message]
        # Nobody is left; the next one asks again.
        self._lanes.pop(exchange, None)
        return []

    def dropped(self, message: T) -> list[T]:
        """A message that was released is too late: give the next one for a trial, if it was on trial."""
        if self._on_trial.get(message.exchange) is not message:
            return []
        del self._on_trial[message.exchange]
        return self.exists(message.exchange)

    def refused(self, exchange: str) -> list[T]:
        """The check did not find it: give all that waited, and forget the exchange so that the next one asks again."""
        return self._lanes.pop(exchange, [])

    def finished(self, message: T) -> list[T]:
        """A message's fate is known: give those that waited for it, in order."""
        freed: list[T] = []
        if message.message_id is not None:
            same = self._ids.pop(message.message_id, [])
            freed += same
        if self._on_trial.get(message.exchange) is message:
            del self._on_trial[message.exchange]
            self._proven.add(message.exchange)
            freed += self._lanes.pop(message.exchange, [])
        return freed

    def messages(self) -> list[T]:
        """All that wait."""
        return [message for lane in (*self._lanes.values(), *self._ids.values()) for message in lane]

    def _takes_id(self, message: T) -> bool:
        if message.message_id is None:
            return True
        if message.message_id in self._ids:
            self._ids[message.message_id].append(message)
            return False
        self._ids[message.message_id] = []
        return True
