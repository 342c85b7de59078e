"""How many messages threads may have under way at once: a place for each, given in order."""

import threading
from collections import deque
from collections.abc import Callable


class Places:
    """So many places; who finds none leaves word and is told, in whatever thread gives one back."""

    def __init__(self, size: int) -> None:
        """Begin empty."""
        self.size, self.taken = size, 0
        self._lock = threading.Lock()
        self._line: deque[Callable[[], None]] = deque()

    def enter(self, granted: Callable[[], None]) -> bool:
        """Take a place, or (False) get in line: `granted` is then called, once, with the place taken for you."""
        with self._lock:
            if self.taken < self.size and not self._line:
                self.taken += 1
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

    def leave(self) -> None:
        """Give a place back: to the first in the line, if anybody is."""
        with self._lock:
            granted = self._line.popleft() if self._line else None
            if granted is None:
                self.taken -= 1
        if granted is not None:
            granted()
