"""Any sequence of outcomes ends a message exactly once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit import DeadLetter, Discard, RetryAfter
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import (
    Raised,
    Returned,
    Stopped,
)
from amqpkit.events import Outcome
from tests.walk.play import got
from tests.walk.world import Got, World, terms

handler_outcomes = st.lists(
    st.sampled_from(
        [
            "returns",
            "fails",
            "fails",
            "never",
            "dead",
            "discards",
            "later",
            "much later",
            "dies",
            "stops",
        ]
    ),
    max_size=12,
)


def outcome(name: str) -> object:
    match name:
        case "fails":
            raise ConnectionError("down")
        case "never":
            raise PermissionError("no")
        case "dead":
            return DeadLetter("gone")
        case "discards":
            return Discard("not ours")
        case "later":
            raise RetryAfter(5)
        case "much later":
            return RetryAfter(timedelta(days=3))
        case _:
            return None


class Crash(BaseException):
    """The process is gone inside the handler."""


class Lived(World):
    """A world whose handler may also die or be stopped."""

    def __init__(self, script: list[str]) -> None:
        super().__init__(lambda _call: None, ready=[got()], terms=terms(never=(PermissionError,)))
        self.script = script

    def _call(self, payload: Any) -> Returned | Raised:
        name = self.script.pop(0) if self.script else "fails"
        if name == "dies":
            raise Crash
        if name == "stops":
            raise Stopped("the worker stops")
        self.handler = lambda _call: outcome(name)
        return super()._call(payload)


@settings(deadline=None, max_examples=300)
@given(script=handler_outcomes)
def test_whatever_a_handler_does_a_message_ends_exactly_once_and_its_history_names_its_delays(
    script: list[str],
) -> None:
    world = Lived(list(script))
    ends = []
    for steps in world.deliveries(bound=200):
        try:
            ends.append(drive_blocking(steps, world))
        except Crash:
            world.came_back()

    final = [end for end in ends if end.outcome in (Outcome.HANDLED, Outcome.DISCARDED, Outcome.DEAD)]
    assert len(final) == 1
    assert ends[-1] is final[0]
    assert not world.refused
    assert not world.leases or world.deaths
    assert bool(world.done) is (not world.dead)
    assert [end.delay for end in ends if end.delay] == world.delays
    if world.dead:
        (letter,) = world.dead
        history: list[dict[str, Any]] = letter.properties.headers["amqpkit-history"]
        retried = [end.delay for end in ends if end.outcome is Outcome.RETRIED]
        assert [line["delay"] for line in history] == [*retried, None]
        assert [line["attempt"] for line in history[:-1]] == list(range(1, len(retried) + 1))
        assert letter.body == Got().body
