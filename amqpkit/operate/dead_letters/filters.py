"""Which letters are meant.

Pure.
"""

from dataclasses import dataclass
from datetime import datetime

from amqpkit.operate.dead_letters.letter import Letter


@dataclass(frozen=True, slots=True)
class Filter:
    """What a letter must be; what is None is not asked.

    `error` is the error's type or a part of its message, whatever the case. `since` and `until` are aware and compared
    with the death, else with the publish; a letter that tells neither is in no span of time.
    """

    fate: str | None = None
    type: str | None = None
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    id: str | None = None
    replayed_below: int | None = None

    def admits(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            self.fate in (None, letter.fate)
            and self.type in (None, letter.type)
            and self.key in (None, letter.key)
            and self.id in (None, letter.id)
            and (self.replayed_below is None or letter.replays < self.replayed_below)
            and self._is_its_error(letter)
            and self._is_its_time(letter)
        )

    def _is_its_error(self, letter: Letter) -> bool:
        if self.error is None:
            return True
        kind, message, _ = letter.error
        return self.error == kind or self.error.casefold() in message.casefold()

    def _is_its_time(self, letter: Letter) -> bool:
        if self.since is None and self.until is None:
            return True
        at = letter.at
        if at is None:
            return False
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)
