"""Which letters a filter admits."""

from datetime import timedelta

import pytest

from amqpkit.operate.dead_letters.filters import Filter
from tests.unit.operate.dead_letters.letters import DIED, letter

SECOND = timedelta(seconds=1)
ONE = letter(error=("NoAnswer", "No answer in 8 s", ""), replays=2)


@pytest.mark.parametrize(
    ("chosen", "admits"),
    [
        (Filter(), True),
        (Filter(fate="exhausted"), True),
        (Filter(fate="crashed"), False),
        (Filter(type="order.place"), True),
        (Filter(type="order"), False),
        (Filter(error="NoAnswer"), True),
        (Filter(error="noanswer"), False),
        (Filter(error="no ANSWER"), True),
        (Filter(error="NoAns"), False),
        (Filter(since=DIED), True),
        (Filter(since=DIED + SECOND), False),
        (Filter(until=DIED), True),
        (Filter(until=DIED - SECOND), False),
        (Filter(since=DIED - SECOND, until=DIED + SECOND), True),
        (Filter(key="m-1"), True),
        (Filter(key="m"), False),
        (Filter(id="m-1"), True),
        (Filter(id="m-2"), False),
        (Filter(replayed_below=3), True),
        (Filter(replayed_below=2), False),
        (Filter(fate="exhausted", type="order.cancel"), False),
    ],
)
def test_a_letter_is_meant_when_all_that_is_asked_is_so(chosen: Filter, admits: bool) -> None:
    assert chosen.admits(ONE) is admits


def test_a_letter_whose_death_has_no_time_is_dated_by_its_publish_and_one_without_any_is_in_no_span() -> None:
    published = letter(died_at=None, published_at=DIED)

    assert Filter(since=DIED).admits(published)
    assert not Filter(since=DIED + SECOND).admits(published)
    assert not Filter(since=DIED).admits(letter(died_at=None, published_at=None))
    assert Filter().admits(letter(died_at=None, published_at=None))
