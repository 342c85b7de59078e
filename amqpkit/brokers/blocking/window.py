"""What was sent on a channel and is not answered yet, and when something is too late. Pure."""

import heapq
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Sent(Protocol):
    """What is known of a message here."""

    @property
    def message_id(self) -> str | None: ...  # noqa: D102 - the protocol's docstring covers it


T = TypeVar("T", bound=Sent)


class Window(Generic[T]):
    """The messages under way on one channel, by the tag that the broker counts them with.

    Confirms come in any order, singly or for all up to a tag. No two messages with one id are in it at once.
    """

    def __init__(self) -> None:
        """Begin with a fresh channel."""
        self._sent: dict[int, T] = {}
        self._tag = 0
        self._returned: set[str] = set()

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, message: T) -> None:
        """Count a message as sent: the broker counts the same way."""
        self._tag += 1
        self._sent[self._tag] = message

    def returned(self, message_id: str) -> None:
        """Remember that the broker found no queue for it; its confirm follows."""
        self._returned.add(message_id)

    def settled(self, tag: int, *, multiple: bool) -> list[tuple[T, bool]]:
        """Give the messages that a confirm is about, oldest first, each with whether it was returned."""
        if not multiple:
            tags = [tag] if tag in self._sent else []
        elif tag == 0:  # AMQP's way to say "all so far"
            tags = list(self._sent)
        else:
            tags = []
            for each in self._sent:  # in the order of their tags
                if each > tag:
                    break
                tags.append(each)
        return [self._end(self._sent.pop(each)) for each in tags]

    def _end(self, message: T) -> tuple[T, bool]:
        if message.message_id is not None and message.message_id in self._returned:
            self._returned.remove(message.message_id)
            return message, True
        return message, False

    def messages(self) -> list[T]:
        """All that are under way, oldest first."""
        return list(self._sent.values())


class Deadlines:
    """When which message is too late, without a timer for each.

    Most messages end long before: their entries are swept out when they are the greater part.
    """

    _SWEEP = 1000

    def __init__(self, alive: Callable[[int], bool]) -> None:
        """Ask `alive` whether a message with that number still waits for its end."""
        self._alive = alive
        self._heap: list[tuple[float, int]] = []
        self._sweep_at = self._SWEEP

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, number: int) -> None:
        """Watch a message; `deadline` in seconds on any clock."""
        heapq.heappush(self._heap, (deadline, number))
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if self._alive(entry[1])]
            heapq.heapify(self._heap)
            self._sweep_at = max(self._SWEEP, 2 * len(self._heap))

    def due(self, now: float) -> list[int]:
        """Give the numbers of those that are too late now, each once."""
        late: list[int] = []
        while self._heap and (self._heap[0][0] <= now or not self._alive(self._heap[0][1])):
            _, number = heapq.heappop(self._heap)
            if self._alive(number):
                late.append(number)
        return late

    @property
    def next(self) -> float | None:
        """The earliest deadline that is watched."""
        return self._heap[0][0] if self._heap else None
