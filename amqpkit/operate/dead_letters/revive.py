"""The message that a replay publishes.

Pure. Everything of the producer's stays: body, properties and headers (a reader that asks for its own finds them). What
the broker wrote goes, with what it would act on again. Of ours, what counted down to the death goes, so that all
attempts are there again; history and last error stay, because whoever reads the message next, handler or person, wants
to know that it has died before and of what.
"""

from typing import Any

from amqpkit.deliver import headers as h
from amqpkit.model import Message, Received
from amqpkit.operate.dead_letters.foreign import read_deaths
from amqpkit.operate.dead_letters.letter import HistoryLine, Letter


def revived(received: Received, letter: Letter, *, run: str) -> Message:
    """Make the message; raises MessageTooLarge when its own headers leave no room for ours."""
    ours: dict[str, Any] = {
        h.EXCHANGE: letter.exchange,
        h.ROUTING_KEY: letter.routing_key,
        h.ATTEMPT: None,
        h.CRASHES: None,
        h.SNOOZES: None,
        h.NOT_BEFORE: None,
        h.FIRST_SEEN: None,
        h.FATE: None,
        h.REPLAYS: min(letter.replays + 1, h.COUNT_MAX),
        h.REPLAY_RUN: run,
    }
    if read_deaths(received.properties.headers):  # the broker's account goes, and is kept as ours
        ours[h.HISTORY] = [_written(line) for line in letter.history[-h.HISTORY_MAX :]]
    return h.fresh_copy_of(received, ours)


def _written(line: HistoryLine) -> dict[str, Any]:
    return {
        "attempt": line.attempt,
        "at": h.format_instant(line.at) if line.at else None,
        "type": h.sendable(line.type[:200]),
        "message": h.sendable(line.message[:500]),
        "delay": line.delay,
    }
