"""Which messages wait, for what, and in which order they go on."""

from dataclasses import dataclass

from amqpkit.brokers.lanes import Lanes


@dataclass(eq=False)
class Sent:
    name: str
    exchange: str = ""
    message_id: str | None = None
    late: bool = False


def test_the_default_exchange_is_known():
    assert Lanes[Sent]().admit(Sent("a"))


def test_messages_for_an_unknown_exchange_wait_and_ask_once():
    lanes = Lanes[Sent]()
    a, b = Sent("a", "x"), Sent("b", "x")

    assert not lanes.admit(a)
    assert lanes.wants_check("x")
    assert not lanes.admit(b)
    assert not lanes.wants_check("x")
    assert lanes.parked


def test_the_first_goes_on_trial_and_its_end_frees_the_others_in_order():
    lanes = Lanes[Sent]()
    a, b, c = Sent("a", "x"), Sent("b", "x"), Sent("c", "x")
    for each in (a, b, c):
        lanes.admit(each)

    assert lanes.exists("x") == [a]
    assert lanes.admit(a)
    assert not lanes.admit(Sent("d", "x"))
    freed = lanes.finished(a)

    assert [each.name for each in freed] == ["b", "c", "d"]
    assert all(lanes.admit(each) for each in freed)
    assert lanes.admit(Sent("e", "x"))
    assert not lanes.parked


def test_a_trial_that_comes_too_late_is_taken_over_by_the_next():
    lanes = Lanes[Sent]()
    a, b, c = Sent("a", "x"), Sent("b", "x", late=True), Sent("c", "x")
    for each in (a, b, c):
        lanes.admit(each)

    lanes.exists("x")

    assert lanes.dropped(a) == [c]
    assert lanes.dropped(Sent("nobody", "x")) == []


def test_when_all_came_too_late_the_next_message_asks_again():
    lanes = Lanes[Sent]()
    lanes.admit(Sent("a", "x", late=True))
    lanes.wants_check("x")

    assert lanes.exists("x") == []
    lanes.admit(Sent("b", "x"))
    assert lanes.wants_check("x")


def test_a_refused_exchange_gives_all_that_waited_and_is_asked_for_again():
    lanes = Lanes[Sent]()
    a, b = Sent("a", "x"), Sent("b", "x")
    lanes.admit(a)
    lanes.wants_check("x")
    lanes.admit(b)

    assert lanes.refused("x") == [a, b]
    assert not lanes.parked
    lanes.admit(Sent("c", "x"))
    assert lanes.wants_check("x")


def test_of_one_id_only_one_is_under_way():
    lanes = Lanes[Sent]()
    first, second, third = (Sent(name, message_id="1") for name in "abc")
    other = Sent("other", message_id="2")

    assert lanes.admit(first)
    assert not lanes.admit(second)
    assert not lanes.admit(third)
    assert lanes.admit(other)
    assert lanes.finished(first) == [second, third]
    assert lanes.admit(second)
    assert not lanes.admit(third)
    assert lanes.finished(second) == [third]


def test_it_says_who_waits():
    lanes = Lanes[Sent]()
    a, b, c = Sent("a", "x"), Sent("b", message_id="1"), Sent("c", message_id="1")
    for each in (a, b, c):
        lanes.admit(each)

    assert {each.name for each in lanes.messages()} == {"a", "c"}
