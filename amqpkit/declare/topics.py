"""Topic patterns in a tree, as RabbitMQ keeps them: finds what a key, or another pattern, can meet. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from amqpkit.declare.routing import words_of

_Held = TypeVar("_Held")


@dataclass(slots=True)
class _Branch(Generic[_Held]):
    held: list[_Held] = field(default_factory=list)
    below: "dict[str, _Branch[_Held]]" = field(default_factory=dict)
    many: bool = False
    """Whether it stands for `#`, which takes any number of words."""


class TopicTree(Generic[_Held]):
    """Values under topic patterns; a search costs as many steps as patterns share words with it."""

    def __init__(self, entries: Iterable[tuple[str, _Held]]) -> None:
        """Plant (pattern, value) pairs."""
        self._root: _Branch[_Held] = _Branch()
        for pattern, value in entries:
            branch = self._root
            for word in words_of(pattern):
                branch = branch.below.setdefault(word, _Branch(many=word == "#"))
            branch.held.append(value)

    def meeting(self, key: str, *, pattern: bool = False) -> Iterator[_Held]:
        """Yield what is held under patterns that match the key, or (`pattern`) some key that it matches too."""
        words = words_of(key)
        ahead = [(self._root, 0)]
        seen: set[tuple[int, int]] = set()
        while ahead:
            branch, at = ahead.pop()
            if (id(branch), at) in seen:
                continue
            seen.add((id(branch), at))
            if at == len(words):
                yield from branch.held
            elif branch.many:
                ahead.append((branch, at + 1))
            ahead += self._steps(branch, words, at, pattern=pattern)

    @staticmethod
    def _steps(
        branch: _Branch[_Held], words: list[str], at: int, *, pattern: bool
    ) -> Iterator[tuple[_Branch[_Held], int]]:
        if hashed := branch.below.get("#"):
            yield hashed, at
        if at == len(words):
            return
        word = words[at]
        if pattern and word == "#":
            yield branch, at + 1
            yield from ((below, at) for below in branch.below.values())
        elif pattern and word == "*":
            yield from ((below, at + 1) for below in branch.below.values() if not below.many)
        else:
            yield from ((branch.below[name], at + 1) for name in {word, "*"} if name in branch.below)
