"""What a handler may say."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from amqpkit import RetryAfter


@pytest.mark.parametrize("when", ["30s", None, True, object()])
def test_a_time_to_come_back_must_be_a_time(when: object) -> None:
    with pytest.raises(TypeError, match="a datetime, a timedelta or seconds"):
        RetryAfter(when)  # type: ignore[arg-type]


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        RetryAfter(datetime(2026, 1, 1))  # noqa: DTZ001 - the fault under test


@pytest.mark.parametrize("when", [datetime(2026, 1, 1, tzinfo=UTC), timedelta(minutes=1), 5, 0.5, math.inf])
def test_every_way_to_say_a_time_is_kept(when: datetime | timedelta | float) -> None:
    assert RetryAfter(when, "busy").when == when
