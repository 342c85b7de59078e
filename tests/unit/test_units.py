"""Durations, sizes and rates, as people write them and back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpkit.units import format_duration, format_rate, parse_duration, parse_percent, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30s", 30_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 1.001 s ", 1001),
        ("5ms", 5),
        ("0s", 0),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("30", r"30 what\? write 30s \(units: ms, s, m, h, d\)"),
        ("soon", r"'soon' is not a duration; write 30s, 2m, 1h or 7d"),
        ("-5s", "is not a duration"),
        ("1w", "is not a duration"),
        ("0.5ms", r"'0.5ms' is not a whole number of milliseconds"),
    ],
)
def test_what_is_no_duration_says_what_to_write(text, advice):
    with pytest.raises(ValueError, match=advice):
        parse_duration(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (60_000, "1m"),
        (90_000, "90s"),
        (28_500, "28500ms"),
        (86_400_000, "1d"),
        (5_400_000, "90m"),
    ],
)
def test_a_duration_is_spelled_with_the_largest_unit_that_divides_it(milliseconds, text):
    assert format_duration(milliseconds) == text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(st.integers(0, 10**12))
def test_every_duration_reads_back(milliseconds):
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"), [("64KiB", 65_536), ("1.5GiB", 1_610_612_736), ("500MB", 500_000_000), ("7B", 7)]
)
def test_a_size_is_a_number_and_a_unit(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["10", "10 kib", "many"])
def test_what_is_no_size_says_what_to_write(text):
    with pytest.raises(ValueError, match=r"is not a size; write 64KiB, 10MiB or 1GiB"):
        parse_size(text)


@pytest.mark.parametrize(("text", "rate"), [("50/s", 50.0), ("600/m", 10.0), ("36 / h", 0.01), ("0.5/s", 0.5)])
def test_a_rate_is_events_per_unit(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["50", "0/s", "fast", "5/w"])
def test_what_is_no_rate_says_what_to_write(text):
    with pytest.raises(ValueError, match=r"is not a rate; write 50/s or 600/m"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("rate", "text"), [(50.0, "50/s"), (0.5, "30/m"), (0.01, "36/h"), (1 / 3, "20/m"), (0.123457, "0.123457/s")]
)
def test_a_rate_is_spelled_in_whole_numbers_where_it_can_be(rate, text):
    assert format_rate(rate) == text


@pytest.mark.parametrize(("text", "percent"), [("10%", 10.0), (" 2.5 % ", 2.5)])
def test_a_percentage_has_its_sign(text, percent):
    assert parse_percent(text) == percent


def test_what_is_no_percentage_says_what_to_write():
    with pytest.raises(ValueError, match="'10' is not a percentage; write 10%"):
        parse_percent("10")
