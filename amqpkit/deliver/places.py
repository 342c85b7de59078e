"""How many messages threads may have under way at once: a place for each, given in order."""

import threading
from collections import deque
from collections.abc import Callable


class Places:
    """So many places; who finds none leaves word and is told, in whatever thread gives one back.

    Whoever asks is known by the callable that he leaves: so a place can be given back twice without harm.
    """

    def __init__(self, size: int) -> None:
        """Begin empty."""
        self.size = size
        self._lock = threading.Lock()
        self._holders: set[Callable[[], None]] = set()
        self._line: deque[Callable[[], None]] = deque()

    @property
    def taken(self) -> int:
        """How many are taken."""
        return len(self._holders)

    def enter(self, granted: Callable[[], None]) -> bool:
        """Take a place, or (False) get in line: `granted` is then called, once, with the place taken for you."""
        with self._lock:
            if len(self._holders) < self.size and not self._line:
                self._holders.add(granted)
                return True
            self._line.append(granted)
            return False

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """Get out of the line; False when the place has been given already."""
        with self._lock:
            try:
                self._line.remove(granted)
            except ValueError:
                return False
            return True

    def leave(self, granted: Callable[[], None]) -> None:
        """Give a place back, to the first in the line, if anybody is; nothing when it was given back before."""
        heirs: list[Callable[[], None]] = []
        with self._lock:
            self._holders.discard(granted)
            while self._line and len(self._holders) < self.size:
                heirs.append(self._line.popleft())
                self._holders.add(heirs[-1])
        for heir in heirs:
            heir()
