"""Instants that are no seconds keep the number that they were."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit.model import Stamp


@pytest.mark.parametrize(
    ("sent", "instant"),
    [
        (1_772_366_400_500, datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC)),
        (1_772_366_400_500_250, datetime(2026, 3, 1, 12, 0, 0, 500_250, UTC)),
        (1_772_366_400_500_250_999, datetime(2026, 3, 1, 12, 0, 0, 500_250, UTC)),
        (2**32, datetime(1970, 2, 19, 17, 2, 47, 296_000, UTC)),
    ],
    ids=["milliseconds", "microseconds", "nanoseconds", "the least"],
)
def test_the_unit_is_the_one_that_makes_a_date(sent: int, instant: datetime) -> None:
    assert Stamp.of(sent) == instant


@given(st.integers(2**32, 2**64 - 1))
def test_every_number_of_64_bits_is_an_instant_and_stays_what_it_was(sent: int) -> None:
    stamp = Stamp.of(sent)

    assert stamp.sent == sent
    assert stamp.tzinfo is UTC
    assert stamp > datetime(1970, 1, 1, tzinfo=UTC)


def test_an_instant_that_is_computed_from_one_was_never_sent() -> None:
    later = Stamp.of(2**40) + timedelta(seconds=1)

    assert getattr(later, "sent", None) is None
