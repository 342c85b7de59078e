from dataclasses import dataclass, field

import pytest

from amqpkit.model import Properties
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.letter import read_letter
from amqpkit.operate.dead_letters.verdicts import Go, Order, Reason, judge, was_out


@dataclass(frozen=True)
class Found:
    queue: str = "b.dead"
    exchange: str = "ev"
    routing_key: str = "made"
    redelivered: bool = False
    body: bytes = b""
    properties: Properties = field(default_factory=Properties)


def found(redelivered=False, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Found(redelivered=redelivered, properties=Properties(headers=named))


def dead(**headers):
    deaths = [{"queue": "b", "reason": "rejected", "exchange": "ev", "routing-keys": ["made"], "count": 1}]
    return read_letter(found(x_death=deaths, **headers), work=None)


@pytest.mark.parametrize(
    ("letter", "order", "verdict"),
    [
        (dead(), Order("r"), Go("", "b")),
        (dead(), Order("r", to="c"), Go("", "c")),
        (dead(), Order("r", to_exchange=True), Go("ev", "made")),
        (dead(), Order("r", to="b.dead"), Reason.ITSELF),
        (read_letter(found(), work=None), Order("r"), Reason.NO_TARGET),
        (read_letter(found(), work=None), Order("r", to="c"), Go("", "c")),
        (dead(), Order("r", Filter(id="other")), Reason.FILTERED),
        (dead(amqpkit_replays=2), Order("r"), Go("", "b")),
        (dead(amqpkit_replays=3), Order("r"), Reason.TOO_OFTEN),
        (dead(amqpkit_replays=3), Order("r", force=True), Go("", "b")),
        (dead(amqpkit_replay_run="r"), Order("r", force=True), Reason.THIS_RUN),
        (dead(amqpkit_replay_run="q"), Order("r"), Go("", "b")),
    ],
)
def test_where_a_letter_goes_or_why_it_stays(letter, order, verdict):
    assert judge(letter, order, max_replays=3) == verdict


@pytest.mark.parametrize(
    ("received", "answer"),
    [
        (found(), False),
        (found(x_delivery_count=1), False),
        (found(redelivered=True), True),
        (found(redelivered=True, x_delivery_count=1), True),
        (found(redelivered=True, x_acquired_count=1), False),
        (found(redelivered=True, x_acquired_count=2, x_delivery_count=1), True),
    ],
)
def test_a_letter_that_a_lost_reader_had_is_told_from_one_that_was_looked_at(received, answer):
    assert was_out(received) is answer
