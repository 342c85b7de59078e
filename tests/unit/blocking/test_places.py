"""The window that threads share."""

from amqpkit.deliver.places import Places


class Waiter:
    """Somebody who wants a place."""

    def __init__(self, told, name):
        self.told, self.name = told, name

    def granted(self):
        self.told.append(self.name)


def waiters(told, names):
    return [Waiter(told, name) for name in names]


def test_who_finds_no_place_is_told_in_order():
    places, told = Places(2), []
    a, b, c, d = waiters(told, "abcd")
    assert places.enter(a.granted)
    assert places.enter(b.granted)
    assert not places.enter(c.granted)
    assert not places.enter(d.granted)

    for each in (b, a, c, d):
        places.leave(each.granted)

    assert told == ["c", "d"]
    assert places.taken == 0


def test_who_has_left_the_line_is_not_told_and_takes_no_place():
    places, told = Places(1), []
    a, b = waiters(told, "ab")
    places.enter(a.granted)
    places.enter(b.granted)

    assert places.withdraw(b.granted)
    assert not places.withdraw(b.granted)
    places.leave(a.granted)
    assert (told, places.taken) == ([], 0)


def test_nobody_overtakes_the_line():
    places, told = Places(1), []
    a, b, c = waiters(told, "abc")
    places.enter(a.granted)
    places.enter(b.granted)

    assert not places.enter(c.granted)
    places.leave(a.granted)

    assert told == ["b"]


def test_a_place_given_back_twice_is_one_place():
    places, told = Places(1), []
    a, b, c = waiters(told, "abc")
    places.enter(a.granted)
    places.enter(b.granted)
    places.enter(c.granted)

    places.leave(a.granted)
    places.leave(a.granted)

    assert (told, places.taken) == (["b"], 1)
