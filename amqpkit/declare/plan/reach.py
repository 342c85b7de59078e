"""Which policies reach an object, the one that rules first. Pure."""

from collections.abc import Iterable
from typing import Final

from amqpkit.declare.policies import PolicyIndex
from amqpkit.model import Exchange, Policy, Queue


class Reach:
    """Policies, asked by the objects that they reach; linear in objects and policies together."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Take the patterns apart, once."""
        self._index: Final = PolicyIndex(policies)
        self.unreadable: Final = self._index.unreadable

    def reaching(self, declared: Queue | Exchange) -> tuple[Policy, ...]:
        """Give the policies that reach an object, the one that rules first; Python reads the patterns, not PCRE.

        One with a key that the queue's type lacks does not reach it at all.
        """
        ruling = self._index.ruling(declared)
        return () if ruling.winner is None else (ruling.winner, *ruling.rivals, *ruling.ignored)

    def perhaps(self, declared: Queue | Exchange) -> tuple[Policy, ...]:
        """Give the policies that may reach an object, of those whose pattern only RabbitMQ can read."""
        return self._index.perhaps(declared)

    def ruling(self, declared: Queue | Exchange) -> Policy | None:
        """Give the policy that rules an object; of equal priorities the first by name."""
        return self._index.ruling(declared).winner
