"""What is under way, and when it is too late."""

from dataclasses import dataclass
from random import Random

import pytest

from amqpkit.brokers.blocking.window import Deadlines, Window


@dataclass(eq=False)
class Sent:
    message_id: str | None


def filled(count):
    window = Window()
    messages = [Sent(f"m-{n}") for n in range(1, count + 1)]
    for message in messages:
        window.add(message)
    return window, messages


def ids(settled):
    return [message.message_id for message, _ in settled]


@pytest.mark.parametrize(
    ("confirms", "expected"),
    [
        ([(3, False)], [["m-3"]]),
        ([(3, True)], [["m-1", "m-2", "m-3"]]),
        ([(2, False), (3, True)], [["m-2"], ["m-1", "m-3"]]),
        ([(5, False), (1, False), (4, True)], [["m-5"], ["m-1"], ["m-2", "m-3", "m-4"]]),
        ([(0, True)], [["m-1", "m-2", "m-3", "m-4", "m-5"]]),
        ([(2, True), (2, True), (2, False)], [["m-1", "m-2"], [], []]),
        ([(9, False)], [[]]),
    ],
)
def test_a_confirm_settles_one_or_all_up_to_its_tag(confirms, expected):
    window, _ = filled(5)

    assert [ids(window.settled(tag, multiple=multiple)) for tag, multiple in confirms] == expected


def test_every_message_is_settled_once_in_whatever_order_confirms_come():
    random = Random(4)
    for _ in range(50):
        window, messages = filled(200)
        seen = []
        tags = list(range(1, 201))
        random.shuffle(tags)
        for tag in tags:
            seen += ids(window.settled(tag, multiple=random.random() < 0.2))
        assert sorted(seen) == sorted(message.message_id for message in messages)
        assert len(window) == 0


def test_a_returned_message_is_known_by_its_id_until_its_confirm():
    window, (first, second, _) = filled(3)

    window.returned("m-2")

    assert window.settled(1, multiple=False) == [(first, False)]
    assert window.settled(2, multiple=False) == [(second, True)]
    again = Sent("m-2")
    window.add(again)
    assert window.settled(4, multiple=False) == [(again, False)]


def test_a_message_is_late_once_and_only_while_it_waits():
    alive = {1, 2, 3}
    deadlines = Deadlines(alive.__contains__)
    for number, deadline in ((1, 5.0), (2, 3.0), (3, 9.0)):
        deadlines.add(deadline, number)
    assert deadlines.next == 3.0
    alive.remove(1)

    assert deadlines.due(2.9) == []
    assert deadlines.due(3.0) == [2]
    assert deadlines.due(8.0) == []
    assert deadlines.next == 9.0
    assert deadlines.due(9.0) == [3]
    assert deadlines.next is None


def test_messages_that_have_ended_are_not_kept_until_their_deadline():
    alive = set()
    deadlines = Deadlines(alive.__contains__)
    for number in range(100_000):
        alive.add(number)
        deadlines.add(30.0 + number, number)
        alive.discard(number - 500)

    assert len(deadlines) < 5000
    assert deadlines.due(1e9) == sorted(alive)
