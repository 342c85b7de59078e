"""The window that threads share."""

from amqpkit.deliver.places import Places


def test_who_finds_no_place_is_told_in_order():
    places, told = Places(2), []
    assert places.enter(lambda: told.append("a"))
    assert places.enter(lambda: told.append("b"))
    assert not places.enter(lambda: told.append("c"))
    assert not places.enter(lambda: told.append("d"))

    places.leave()
    places.leave()
    places.leave()
    places.leave()

    assert told == ["c", "d"]
    assert places.taken == 0


def test_who_has_left_the_line_is_not_told_and_takes_no_place():
    places, told = Places(1), []
    places.enter(lambda: told.append("a"))

    def second():
        told.append("b")

    places.enter(second)

    assert places.withdraw(second)
    assert not places.withdraw(second)
    places.leave()
    assert (told, places.taken) == ([], 0)


def test_nobody_overtakes_the_line():
    places, told = Places(1), []
    places.enter(lambda: None)
    places.enter(lambda: told.append("first"))

    assert not places.enter(lambda: told.append("second"))
    places.leave()

    assert told == ["first"]
