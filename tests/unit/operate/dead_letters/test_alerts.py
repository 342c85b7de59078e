"""When a dead-letter queue wants a person."""

from datetime import timedelta

import pytest

from amqpkit.model import Alert
from amqpkit.operate.dead_letters.alerts import held
from tests.unit.operate.dead_letters.letters import DIED


@pytest.mark.parametrize(
    ("alert", "depth", "minutes", "reasons"),
    [
        (Alert(), 100, 100, ()),
        (Alert(messages=5), 4, 100, ()),
        (Alert(messages=5), 5, None, ("5 letters (alert at 5)",)),
        (Alert(messages=1), 1, None, ("1 letter (alert at 1)",)),
        (Alert(age=600.0), 1, 9, ()),
        (Alert(age=600.0), 1, 10, ("the oldest is older than 10m",)),
        (Alert(age=600.0), 1, None, ()),
        (Alert(age=600.0), 0, 10, ()),
        (Alert(messages=1, age=600.0), 2, 20, ("2 letters (alert at 1)", "the oldest is older than 10m")),
        (Alert(messages=100, age=600.0), 2, 20, ("the oldest is older than 10m",)),
    ],
)
def test_either_threshold_is_enough(alert: Alert, depth: int, minutes: int | None, reasons: tuple[str, ...]) -> None:
    oldest = None if minutes is None else DIED - timedelta(minutes=minutes)

    assert held(alert, depth=depth, oldest=oldest, now=DIED) == reasons
