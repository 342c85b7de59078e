"""The two drivers: they perform a walk's effects with somebody's hands, one awaiting and one blocking."""

from typing import Protocol

from amqpkit.deliver.case import End
from amqpkit.deliver.effects import Effect, Stopped
from amqpkit.deliver.walk import Walk
from amqpkit.errors import Unsendable


class Hands(Protocol):
    """Whoever can perform effects and wait without blocking."""

    async def perform(self, effect: Effect) -> object:
        """Do it and return the reply; raise only Stopped or Unsendable, which the walk knows how to end on.

        Release, Ack, Requeue and Refuse never raise: a walk that is ending cannot end otherwise.
        """


class BlockingHands(Protocol):
    """Whoever performs effects and blocks."""

    def perform(self, effect: Effect) -> object:
        """Do it and return the reply; raise only Stopped or Unsendable, which the walk knows how to end on.

        Release, Ack, Requeue and Refuse never raise: a walk that is ending cannot end otherwise.
        """


async def drive(walk: Walk, hands: Hands) -> End:
    """Take a walk to its end."""
    try:
        effect = next(walk)
        while True:
            try:
                reply = await hands.perform(effect)
            except (Stopped, Unsendable) as news:
                effect = walk.throw(news)
            else:
                effect = walk.send(reply)
    except StopIteration as end:
        value: End = end.value
        return value


def drive_blocking(walk: Walk, hands: BlockingHands) -> End:
    """Take a walk to its end; the same as `drive` but for two words."""
    try:
        effect = next(walk)
        while True:
            try:
                reply = hands.perform(effect)
            except (Stopped, Unsendable) as news:
                effect = walk.throw(news)
            else:
                effect = walk.send(reply)
    except StopIteration as end:
        value: End = end.value
        return value
