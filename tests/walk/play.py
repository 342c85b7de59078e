"""Hands that reply from a script, and the deliveries that they are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from amqpkit.deliver.case import End, Terms
from amqpkit.deliver.drive import drive_blocking
from amqpkit.deliver.effects import (
    Claim,
    Effect,
    Invoke,
    Moment,
    Publish,
    Raised,
    Returned,
    Stopped,
)
from amqpkit.deliver.walk import walk
from amqpkit.events import Outcome
from amqpkit.model import Properties
from amqpkit.ports import Claimed, Hold
from tests.walk.world import START, Got, terms

KEY = "orders:m-1"
AT = START + timedelta(seconds=5)
STARTED, ENDED = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:05.000Z"
CLAIM, INVOKE = "Claim", "Invoke"
RETRY = [CLAIM, INVOKE, "Publish", "Release", "Ack"]
EARLY = ["Publish", "Ack"]


GRANTED = Claimed(Hold.CLAIMED)


@dataclass
class Play:
    """Hands that reply from a script and write down every effect; `stop_at` throws `news` there."""

    says: object = None
    raises: BaseException | None = None
    claimed: Claimed = GRANTED
    stop_at: type | None = None
    news: Exception = field(default_factory=lambda: Stopped("the worker stops"))
    chance: float = 0.0
    effects: list[Effect] = field(default_factory=list)

    def perform(self, effect: Effect) -> object:
        self.effects.append(effect)
        if self.stop_at is not None and isinstance(effect, self.stop_at):
            self.stop_at = None
            raise self.news
        match effect:
            case Claim():
                return self.claimed
            case Invoke():
                moment = Moment(AT, self.chance)
                return Returned(self.says, moment) if self.raises is None else Raised(self.raises, moment)
            case _:
                return None

    @property
    def names(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects]

    @property
    def copies(self) -> list[Publish]:
        return [effect for effect in self.effects if isinstance(effect, Publish)]

    @property
    def headers(self) -> dict[str, Any]:
        (copy,) = self.copies
        return dict(copy.message.properties.headers)


def play(received: Got, rules: Terms | None = None, **script: Any) -> tuple[Play, End]:
    hands = Play(**script)
    end = drive_blocking(walk(received, rules or terms(), Moment(START, hands.chance)), hands)
    return hands, end


def got(headers: dict[str, Any] | None = None, *, redelivered: bool = False, **properties: Any) -> Got:
    named = {"message_id": "m-1", "type": "order.place"} | properties
    return Got(properties=Properties(headers=headers or {}, **named), redelivered=redelivered)


def failure() -> ConnectionError:
    return ConnectionError("the provider is down")


HELD = Claimed(Hold.HELD, 45.0)
BURIED = [CLAIM, INVOKE, "Compensate", "Publish", "Release", "Ack"]


def check_dead(hands: Play, end: End, fate: str) -> None:
    (copy,) = hands.copies
    assert (copy.exchange, copy.routing_key) == ("orders.dlx", "orders")
    assert copy.message.body == Got().body
    assert hands.headers["amqpkit-fate"] == end.fate == fate
    assert hands.headers["amqpkit-history"][-1]["delay"] is None
    assert "amqpkit-not-before" not in hands.headers
    assert end.outcome is Outcome.DEAD
