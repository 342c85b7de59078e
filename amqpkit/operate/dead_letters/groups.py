"""Letters that died of the same thing, however many: what differs from one to the next is made alike.

Pure. Error messages are a stranger's text, so every pattern reads it once, from left to right, and only its beginning.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from amqpkit.operate.dead_letters.letter import Letter

READ_MAX: Final = 2000
"""Characters of a message that are looked at."""
NORMAL_MAX: Final = 200
_PASSES: Final = 20

# One alternation, read once: each branch begins with something that only it has, and none can be read two ways.
# Bounded repeats keep what they may give back short. A placeholder stands in guillemets and is passed over, so that a
# normal message is normal already.
_VARIABLE: Final = re.compile(
    r"""
    (?P<known>«[a-z]{1,8}»)
  | (?P<quoted>"[^"\n]{0,500}"|(?<![A-Za-z0-9])'[^'\n]{0,500}'(?![A-Za-z0-9])|`[^`\n]{0,500}`|“[^”\n]{0,500}”)
  | (?P<url>\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s"'<>«»]{1,500})
  | (?P<email>\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5})
  | (?P<uuid>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)
  | (?P<time>\b[0-9]{4}-[0-9]{2}-[0-9]{2}
          (?:[T\ ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?
        |\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?\b)
  | (?P<path>(?<![\w/])(?:~|\.{1,2})?(?:/[\w.@%+=:-]{1,255}){2,30}/?|\b[A-Za-z]:\\[^\s"'«»]{1,500})
  | (?P<hex>\b0[xX][0-9a-fA-F]{1,128}\b|\b(?=[a-fA-F]{0,128}[0-9])[0-9a-fA-F]{8,128}\b)
  | (?P<number>(?<![\w.])[-+]?[0-9]{1,400}(?:[.,][0-9]{1,400}){0,20}(?:[eE][-+]?[0-9]{1,5})?|[0-9]{1,400})
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What letters of one group share."""

    queue: str
    fate: str
    error: str
    message: str
    type: str
    version: int | None
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Grouped:
    """One group: how many, from when to when they died, how often replayed at most, and one of them as an example."""

    cause: Cause
    count: int
    first: datetime | None
    last: datetime | None
    replays: int
    example: str
    """The id of the newest of them."""
    bytes: int


def normal(message: str) -> str:
    """A message without what makes it unlike its neighbour: numbers, ids, times, addresses, paths, quoted text."""
    line = " ".join(message[:READ_MAX].split())
    for _ in range(_PASSES):  # what was replaced or cut off may have stood in the way of something next to it
        before, line = line, _VARIABLE.sub(_placeholder, line)[:NORMAL_MAX].rstrip()
        if line == before:
            break
    return line


def _placeholder(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "known" else f"«{found.lastgroup}»"


def cause_of(letter: Letter) -> Cause:
    """Name what a letter died of."""
    kind, message, _ = letter.error
    return Cause(
        letter.queue,
        letter.fate,
        kind,
        normal(message),
        letter.type,
        letter.version,
        letter.exchange,
        normal(letter.routing_key),
    )


class Grouping:
    """Letters put together as they come; only the groups are kept."""

    def __init__(self) -> None:
        """Begin without letters."""
        self._groups: dict[Cause, Grouped] = {}

    def add(self, letter: Letter) -> None:
        """Count one letter."""
        cause, at = cause_of(letter), letter.at
        before = self._groups.get(cause) or Grouped(cause, 0, None, None, 0, letter.id, 0)
        newest = at is not None and (before.last is None or at >= before.last)
        self._groups[cause] = Grouped(
            cause,
            before.count + 1,
            first=min(filter(None, (before.first, at)), default=None),
            last=max(filter(None, (before.last, at)), default=None),
            replays=max(before.replays, letter.replays),
            example=letter.id if newest else before.example,
            bytes=before.bytes + letter.size,
        )

    def groups(self) -> tuple[Grouped, ...]:
        """The groups, the largest first."""
        return tuple(sorted(self._groups.values(), key=lambda each: (-each.count, each.cause.fate, each.cause.error)))


def grouped(letters: Iterable[Letter]) -> tuple[Grouped, ...]:
    """Put letters together that died of the same thing, the largest group first."""
    grouping = Grouping()
    for letter in letters:
        grouping.add(letter)
    return grouping.groups()
