"""What holds a publisher back, by tables of numbers."""

import pytest

from amqpkit.deliver.brakes import ASK_AGAIN, FADES, FRESH_FAR, FRESH_NEAR, RETRY_AFTER, Gate, Look, Pace, pressure


def seen(depth: int, *, limit: int = 100, now: float = 0.0) -> Gate:
    gate = Gate("q", limit)
    gate.asked()
    gate.told(depth, now)
    return gate


@pytest.mark.parametrize(
    ("depth", "now", "look"),
    [
        (0, 0.0, Look.PASS),
        (0, FRESH_FAR - 0.1, Look.PASS),
        (0, FRESH_FAR, Look.ASK),
        (60, FRESH_NEAR - 0.1, Look.PASS),
        (60, FRESH_NEAR, Look.ASK),
        (99, 0.0, Look.PASS),
        (100, 0.0, Look.SHUT),
        (100, ASK_AGAIN, Look.ASK),
    ],
)
def test_a_queue_is_looked_at_more_often_the_fuller_it_is(depth: int, now: float, look: Look) -> None:
    assert seen(depth).look(now) is look


def test_nothing_passes_before_the_first_look() -> None:
    assert Gate("q", 100).look(0.0) is Look.ASK


def test_what_was_let_through_counts_until_the_next_look() -> None:
    gate = seen(98)
    gate.take()
    assert gate.look(0.0) is Look.PASS
    gate.take()
    assert gate.look(0.0) is Look.ASK
    gate.asked()
    assert gate.look(0.0) is Look.ASK  # until the answer is there, nothing is known that was not before
    gate.take()  # let through while the question was under way
    gate.told(98, 0.0)
    assert gate.look(0.0) is Look.PASS
    gate.take()
    assert gate.look(0.0) is Look.ASK


@pytest.mark.parametrize(("publishers", "most"), [(1, 1000), (3, 1150), (10, 1500)])
def test_several_that_fill_a_queue_at_once_look_again_before_each_of_them_has_filled_it(
    publishers: int, most: int
) -> None:
    gates, depth, looks = [Gate("q", 1000) for _ in range(publishers)], 0, 0
    while gates:
        for gate in tuple(gates):
            if gate.look(0.0) is Look.ASK:
                looks += 1
                gate.asked()
                gate.told(depth, 0.0)
            if gate.shut:
                gates.remove(gate)
            else:
                gate.take()
                depth += 1
    assert 1000 <= depth <= most
    assert looks <= 22 * publishers, "it is cheap all the same"


def test_a_gate_shuts_at_the_limit_and_opens_at_80_percent() -> None:
    gate = seen(99)
    assert not gate.shut
    for depth, shut in [(100, True), (81, True), (80, False), (99, False), (130, True)]:
        gate.told(depth, 1.0)
        assert gate.shut is shut


def test_a_queue_that_cannot_be_asked_is_no_longer_shut() -> None:
    gate = seen(100)
    gate.told(None, 1.0)
    assert (gate.look(1.0), gate.fullness(1.0)) == (Look.PASS, 0.0)
    assert gate.look(3.0) is Look.ASK


def test_that_a_queue_cannot_be_asked_is_news_once_until_it_can() -> None:
    gate = Gate("q", 100)
    assert [gate.told(depth, 0.0) for depth in (None, None, 5, None, 5)] == [True, False, False, True, False]


def test_how_long_to_stay_away_follows_from_how_fast_the_queue_drains() -> None:
    least, unknown, most = RETRY_AFTER
    gate = seen(200)
    assert gate.retry_after == unknown
    gate.told(180, 2.0)  # 10 a second; 100 more to go
    assert gate.retry_after == 10.0
    gate.told(81, 3.0)
    assert gate.retry_after == least
    gate.told(81, 4.0)
    assert gate.retry_after == unknown
    gate = seen(1_000_000)
    gate.told(999_999, 10.0)
    assert gate.retry_after == most


def test_a_pause_earns_a_tenth_of_a_second_at_once_and_no_more() -> None:
    pace = Pace(100.0)
    assert pace.reserve(0.0, 1.0) == 0.0
    waits = [pace.reserve(10.0, 1.0) for _ in range(12)]
    assert waits[:10] == [0.0] * 10
    assert waits[10] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0.0),
        ({"under_way": 50}, 0.5),
        ({"blocked": True}, 1.0),
        ({"nacked_at": 0.0}, 1.0),
        ({"nacked_at": -FADES}, 0.5),
        ({"gates": (seen(30), seen(70))}, 0.7),
        ({"gates": (seen(700),)}, 1.0),
        ({"gates": (seen(100, now=-FRESH_FAR - FADES),)}, 0.5),
        ({"gates": (Gate("q", 10),)}, 0.0),
    ],
)
def test_pressure_is_the_hardest_of_the_brakes(settings: dict[str, object], expected: float) -> None:
    given = {"under_way": 0, "window": 100, "gates": (), "blocked": False, "nacked_at": None, **settings}
    assert pressure(0.0, **given) == pytest.approx(expected)  # type: ignore[arg-type]
