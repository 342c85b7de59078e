"""One publish as a flow: what is asked of the driver, step by step, at which time, and how it ends."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from amqpkit.deliver.brakes import ASK_AGAIN, Gate, Pace
from amqpkit.deliver.sending import AskDepth, Effect, End, Terms, Transmit, Wait, fate_of, sending
from amqpkit.errors import (
    BrokerBlocked,
    MessageTooLarge,
    Nacked,
    Overloaded,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unroutable,
)
from amqpkit.events import Fate


class World:
    """A driver in virtual time: says what the broker says, and keeps what was asked of it."""

    def __init__(self, answers: Iterator[PublishError | None], depths: Iterable[int | None] = ()) -> None:
        self.now = 100.0
        self.asked: list[Effect] = []
        self._answers, self._depths = answers, iter(depths)

    def perform(self, effect: Effect) -> PublishError | None:
        self.asked.append(effect)
        match effect:
            case Wait(seconds):
                assert seconds > 0
                self.now += seconds
            case AskDepth(gate, timeout):
                assert timeout > 0
                gate.asked()
                gate.told(next(self._depths), self.now)
            case Transmit(timeout):
                assert timeout > 0
                return next(self._answers)
        return None

    def run(self, terms: Terms) -> End:
        flow = sending(terms, self.now)
        try:
            effect = next(flow)
            while True:
                error = self.perform(effect)
                effect = flow.send((self.now, error))
        except StopIteration as stop:
            end = stop.value
            assert isinstance(end, End)
            return end

    def kinds(self) -> str:
        return " ".join(type(effect).__name__ for effect in self.asked)


def always(wait: float) -> Callable[[int], float]:
    return lambda _tries: wait


def test_a_message_that_nothing_holds_is_sent_at_once_with_all_of_its_time() -> None:
    world = World(iter([None]))
    assert world.run(Terms(timeout=5.0)) == End(1)
    assert world.asked == [Transmit(5.0, 1)]


@pytest.mark.parametrize(
    "error", [Unroutable("x"), PublishTimeout("x"), BrokerBlocked("x"), PublishUncertain("x"), MessageTooLarge("x")]
)
def test_only_a_nack_is_worth_another_try(error: PublishError) -> None:
    world = World(iter([error]))
    assert world.run(Terms(timeout=5.0)) == End(1, error)


def test_a_nacked_message_is_sent_again_after_a_while_with_what_is_left_of_its_time() -> None:
    world = World(iter([Nacked("full"), Nacked("full"), None]))
    assert world.run(Terms(timeout=5.0, backoff=float)) == End(3)
    assert world.asked == [Transmit(5.0, 1), Wait(1.0), Transmit(4.0, 2), Wait(2.0), Transmit(2.0, 3)]


def test_a_nack_is_told_when_the_next_try_would_come_after_the_deadline() -> None:
    last = Nacked("full")
    world = World(iter([Nacked("full"), last]))
    assert world.run(Terms(timeout=5.0, backoff=always(3.0))) == End(2, last)
    assert world.now == 103.0


def test_who_has_no_patience_is_told_of_a_nack_at_once() -> None:
    error = Nacked("full")
    assert World(iter([error])).run(Terms(timeout=5.0, patient=False)) == End(1, error)


def test_a_queue_above_its_limit_is_waited_for_until_it_has_fallen_to_80_percent() -> None:
    world = World(iter([None]), iter([100, 99, 81, 80]))
    assert world.run(Terms(timeout=5.0, gates=(Gate("q", 100),))) == End(1)
    assert world.kinds() == "AskDepth Wait AskDepth Wait AskDepth Wait AskDepth Transmit"
    assert world.asked[-1] == Transmit(5.0 - 3 * ASK_AGAIN, 1)


def test_a_queue_that_stays_above_its_limit_is_an_overload_at_the_deadline_and_nothing_was_sent() -> None:
    world = World(iter([]), iter([100] * 9))
    end = world.run(Terms(timeout=2.2, gates=(Gate("q", 100),)))
    assert isinstance(end.error, Overloaded)
    assert (end.tries, end.error.queue, end.error.depth) == (0, "q", 100)
    assert 101.5 < world.now <= 102.2


def test_who_has_no_patience_is_told_of_an_overload_without_a_second_question() -> None:
    gate, world = Gate("q", 100), World(iter([]), iter([100]))
    for _ in range(3):
        assert isinstance(world.run(Terms(timeout=5.0, patient=False, gates=(gate,))).error, Overloaded)
    assert world.kinds() == "AskDepth"


def test_of_a_fan_out_each_queue_may_hold_the_message_and_none_is_counted_before_all_let_it_pass() -> None:
    wide, narrow = Gate("wide", 1000), Gate("narrow", 10)
    world = World(iter([None]), iter([0, 10, 0]))
    assert world.run(Terms(timeout=5.0, gates=(wide, narrow))) == End(1)
    assert (wide.fullness(world.now), narrow.fullness(world.now)) == (1 / 1000, 1 / 10)


def test_a_lone_publisher_stops_at_the_limit_and_asks_seldom() -> None:
    gate, stored = Gate("q", 1000), 0
    world = World(iter([]), iter(()))
    fates = []
    for _ in range(1500):
        world = World(iter([None]), iter([stored] * 3))
        end = world.run(Terms(timeout=1.0, patient=False, gates=(gate,)))
        stored += end.error is None
        fates.append(world.kinds().count("AskDepth"))
    assert stored == 1000
    assert sum(fates) <= 22


def test_a_queue_that_cannot_be_asked_holds_nobody() -> None:
    world = World(iter([None]), iter([None]))
    assert world.run(Terms(timeout=5.0, gates=(Gate("q", 10),))) == End(1)


def test_a_question_takes_at_most_half_of_what_is_left_and_when_nothing_is_left_the_deadline_is_told() -> None:
    flow = sending(Terms(timeout=1.0, gates=(Gate("q", 10),)), 0.0)
    asked = next(flow)
    assert isinstance(asked, AskDepth)
    assert asked.timeout == 0.5
    with pytest.raises(StopIteration) as stop:
        flow.send((1.5, None))  # the answer came far too late, and nobody told the gate
    assert isinstance(stop.value.value.error, PublishTimeout)


def test_after_a_nack_the_queue_is_looked_at_before_the_message_is_sent_again() -> None:
    world = World(iter([Nacked("full"), None]), iter([5, 5]))
    assert world.run(Terms(timeout=5.0, gates=(Gate("q", 10),), backoff=always(0.1))).tries == 2
    assert world.kinds() == "AskDepth Transmit Wait AskDepth Transmit"


def test_a_nacked_message_that_is_held_later_is_told_as_nacked_since_copies_may_exist() -> None:
    world = World(iter([Nacked("full")]), iter([5, 10, 10, 10]))
    end = world.run(Terms(timeout=1.0, gates=(Gate("q", 10),), backoff=always(0.1)))
    assert isinstance(end.error, Nacked)


@pytest.mark.parametrize("error", [PublishTimeout("x"), BrokerBlocked("x")])
def test_a_nacked_message_that_cannot_be_sent_again_is_told_as_nacked_since_copies_may_exist(
    error: PublishError,
) -> None:
    nack = Nacked("full")
    assert World(iter([nack, error])).run(Terms(timeout=5.0, backoff=always(0.1))) == End(2, nack)


@pytest.mark.parametrize("error", [PublishUncertain("x"), Unroutable("x")])
def test_what_became_of_the_last_try_is_told_when_it_says_more_than_a_nack(error: PublishError) -> None:
    assert World(iter([Nacked("full"), error])).run(Terms(timeout=5.0, backoff=always(0.1))) == End(2, error)


def test_the_pace_is_kept_and_a_turn_after_the_deadline_is_told_at_once() -> None:
    pace, starts = Pace(2.0), []
    for _ in range(3):
        world = World(iter([None]))
        world.run(Terms(timeout=5.0, pace=pace))
        starts.append(world.now)
    assert starts == [100.0, 100.5, 101.0]
    end = World(iter([])).run(Terms(timeout=1.0, pace=pace))
    assert (end.tries, type(end.error)) == (0, PublishTimeout)
    assert World(iter([None])).run(Terms(timeout=2.0, pace=pace)) == End(1)  # the refused one took no turn


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (None, Fate.CONFIRMED),
        (Unroutable("x"), Fate.UNROUTABLE),
        (Nacked("x"), Fate.NACKED),
        (Overloaded("x"), Fate.OVERLOADED),
        (BrokerBlocked("x"), Fate.BLOCKED),
        (PublishTimeout("x"), Fate.TIMED_OUT),
        (PublishUncertain("x"), Fate.UNCERTAIN),
        (MessageTooLarge("x"), Fate.UNSENDABLE),
        (PublishError("x"), Fate.UNSENDABLE),
    ],
)
def test_every_end_has_a_name(error: PublishError | None, fate: Fate) -> None:
    assert fate_of(error) is fate
