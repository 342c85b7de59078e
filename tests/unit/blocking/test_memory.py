"""The blocking publisher on the broker in memory: what its flow does with window, brakes, deadlines and threads."""

import math
import threading
import time
from collections.abc import Callable

import pytest

from amqpkit.brokers.memory.blocking import MemoryBlockingTransport
from amqpkit.deliver.payload import Payload
from amqpkit.errors import (
    BrokerBlocked,
    ConnectionFailed,
    MessageTooLarge,
    Nacked,
    Overloaded,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Unroutable,
    Unsendable,
)
from amqpkit.events import ConnectionLost, Fate, Published
from amqpkit.model import Message, Properties
from tests.unit.blocking.world import Gated, Plain, Small, World


class Homeless(Payload, type="homeless"):
    pass


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"overload": "wiat"}, 'overload is \'wiat\'; write "wait" or "fail"'),
        ({"timeout": math.nan}, "timeout is nan; it must be a number of seconds"),
    ],
    ids=["overload", "timeout"],
)
def test_a_word_or_number_that_means_nothing_is_refused_by_every_verb(world, said, says):
    pub, taken = world.publisher(), iter([Plain()])

    for go in (lambda: pub.publish(Plain(), **said), lambda: pub.publish_many(taken, **said)):
        with pytest.raises(ValueError, match=says):
            go()
    assert len(list(taken)) == 1
    assert world.stored("plain") == []
    with pytest.raises(ValueError, match=said.get("overload", "timeout is nan")):
        world.publisher(**said)


@pytest.mark.parametrize("name", [1, None, b"x"])
def test_a_header_whose_name_is_no_text_is_unsendable(world, name):
    with pytest.raises(Unsendable, match=r"^a header is called .*; a header's name is text$"):
        world.publisher().publish(Plain(), headers={name: "v"})


def until(condition: Callable[[], object], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def world():
    return World()


def test_a_publish_returns_the_id_of_what_is_stored(world):
    identity = world.publisher().publish(Plain(n=1), message_id="mine")

    assert identity == "mine"
    assert world.depth("plain") == 1
    told = [event for event in world.events if isinstance(event, Published)]
    assert [(event.fate, event.tries, event.message_id) for event in told] == [(Fate.CONFIRMED, 1, "mine")]


def test_what_the_topology_does_not_route_is_raised_before_anything_is_sent(world):
    with pytest.raises(Unroutable, match="homeless"):
        world.publisher().publish(Homeless())


def test_settings_that_mean_nothing_are_refused(world):
    for wrong in ({"timeout": 0}, {"window": 0}, {"rate": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            world.publisher(**wrong)


def test_a_deadline_may_be_as_far_away_as_one_likes(world):
    world.broker.hold_confirms()
    publisher, ends = world.publisher(window=1, timeout=math.inf), []
    threads = [threading.Thread(target=lambda: ends.append(publisher.publish(Plain())), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: publisher.pressure == 1.0)
    line = publisher._here.shared.places._line
    until(lambda: len(line) == 2 or not all(thread.is_alive() for thread in threads))
    world.broker.release_confirms()
    for thread in threads:
        thread.join(10)
    assert len(ends) == 3


# --- many -------------------------------------------------------------------------------------


def test_many_end_each_in_their_own_way_and_in_order(world):
    items = [Plain(n=0), Homeless(), {"n": 2}, {"n": "two"}, Plain(n=4)]
    seen = []

    outcomes = world.publisher().publish_many(items, of=Plain, progress=seen.append)

    fates = [outcome.fate for outcome in outcomes]
    assert fates == [Fate.CONFIRMED, Fate.UNROUTABLE, Fate.CONFIRMED, Fate.UNSENDABLE, Fate.CONFIRMED]
    assert [outcome.index for outcome in outcomes] == list(range(5))
    assert sorted(seen, key=lambda outcome: outcome.index) == outcomes
    assert world.depth("plain") == 3


def test_a_payload_is_taken_only_when_the_window_has_room(world):
    taken = []

    def payloads():
        for n in range(20):
            taken.append(n)
            yield Plain(n=n)

    world.broker.hold_confirms()
    publisher = world.publisher(window=4)
    result = []
    thread = threading.Thread(target=lambda: result.extend(publisher.publish_many(payloads())))
    thread.start()
    until(lambda: publisher.pressure == 1.0)
    time.sleep(0.05)
    assert len(taken) == 4
    world.broker.release_confirms()
    thread.join(10)

    assert {outcome.fate for outcome in result} == {Fate.CONFIRMED}
    assert len(result) == 20
    assert publisher.pressure == 0.0


@pytest.mark.parametrize("who", ["payloads", "progress"])
def test_what_the_callers_own_code_raises_is_raised_after_what_was_under_way(world, who):
    def payloads():
        yield from (Plain(n=n) for n in range(10))
        if who == "payloads":
            raise ZeroDivisionError

    def progress(outcome):
        if who == "progress":
            raise ZeroDivisionError

    publisher = world.publisher(window=4)
    with pytest.raises(ZeroDivisionError):
        publisher.publish_many(payloads(), progress=progress)

    assert publisher.pressure == 0.0
    assert isinstance(publisher.publish(Plain()), str)


def test_a_keyboard_interrupt_names_what_was_under_way_and_gives_the_window_back(world):
    world.broker.hold_confirms()
    publisher = world.publisher(window=4)
    seen = []

    def payloads():
        yield from (Plain(n=n) for n in range(3))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publisher.publish_many(payloads(), progress=seen.append)

    assert [outcome.fate for outcome in seen] == [Fate.UNCERTAIN] * 3
    world.broker.release_confirms()
    assert publisher.pressure == 0.0
    assert len(seen) == 3


# --- brakes -----------------------------------------------------------------------------------


def test_a_full_queue_is_tried_again_until_the_deadline_and_then_it_is_nacked(world):
    publisher = world.publisher(timeout=0.5)
    publisher.publish_many([Small(n=n) for n in range(10)], overload="fail")
    began = time.monotonic()

    with pytest.raises(Nacked, match="small"):
        publisher.publish(Small())

    assert 0.05 < time.monotonic() - began < 2
    assert world.events[-1].tries > 1
    assert publisher.pressure > 0.9


def test_a_gate_holds_publishers_at_the_limit_and_says_so(world):
    publisher = world.publisher(overload="fail")

    outcomes = publisher.publish_many(Gated(n=n) for n in range(20))

    assert [outcome.fate for outcome in outcomes] == [Fate.CONFIRMED] * 5 + [Fate.OVERLOADED] * 15
    with pytest.raises(Overloaded, match=r"limits\.depth is 5") as caught:
        publisher.publish(Gated())
    assert (caught.value.queue, caught.value.depth) == ("gated", 5)


def test_who_waits_at_a_gate_goes_on_when_the_queue_is_emptied(world):
    publisher = world.publisher(timeout=10.0)
    publisher.publish_many(Gated(n=n) for n in range(5))
    ids = []
    threads = [threading.Thread(target=lambda: ids.append(publisher.publish(Gated()))) for _ in range(3)]
    for each in threads:
        each.start()
    time.sleep(0.1)
    assert not ids
    world.broker.purge("gated")
    for each in threads:
        each.join(10)

    assert len(ids) == 3
    assert world.depth("gated") == 3


def test_a_rate_paces_all_threads_together(world):
    publisher = world.publisher(rate=200.0)
    began = time.monotonic()
    threads = [
        threading.Thread(target=publisher.publish_many, args=([Plain(n=n) for n in range(20)],)) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    # 80 messages at 200 a second, of which a tenth of a second's worth may come at once
    assert 0.25 < time.monotonic() - began < 3


def test_many_at_a_rate_are_taken_at_that_rate_however_long_all_of_them_take(world):
    began = time.monotonic()
    outcomes = world.publisher(rate=100.0, timeout=0.2).publish_many([Plain(n=n) for n in range(60)])

    # 60 at 100 a second take longer than one may, of which a tenth of a second's worth may come at once
    assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}
    assert time.monotonic() - began > 0.4


def test_an_alarm_holds_a_publish_until_its_deadline_in_real_time(world):
    publisher = world.publisher()
    world.broker.block()
    began = time.monotonic()

    with pytest.raises(BrokerBlocked, match="blocks publishers"):
        publisher.publish(Plain(), timeout=0.3)

    assert 0.25 < time.monotonic() - began < 2
    assert publisher.pressure == 1.0
    assert world.depth("plain") == 0
    waiting = threading.Thread(target=publisher.publish, args=(Plain(),))
    waiting.start()
    time.sleep(0.05)
    world.broker.unblock()
    waiting.join(10)
    assert world.depth("plain") == 1


def test_a_place_in_the_window_that_nobody_gives_back_is_a_timeout_not_a_doubt(world):
    publisher = world.publisher(window=1)
    world.broker.hold_confirms()
    first = []

    def publish_first():
        with pytest.raises(PublishUncertain) as caught:
            publisher.publish(Plain(), timeout=0.6)
        first.append(caught.value)

    thread = threading.Thread(target=publish_first)
    thread.start()
    until(lambda: publisher.pressure == 1.0)

    with pytest.raises(PublishTimeout, match="window"):
        publisher.publish(Plain(), timeout=0.2)

    thread.join(10)
    assert first
    assert publisher.pressure == 0.0


def test_sixteen_threads_are_each_told_their_own(world):
    publisher = world.publisher(window=5)
    ids = []

    def work(thread):
        ids.extend(publisher.publish(Plain(), message_id=f"{thread}-{n}") for n in range(100))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(ids) == sorted(f"{thread}-{n}" for thread in range(16) for n in range(100))
    assert world.depth("plain") == 1600


# --- the transport ----------------------------------------------------------------------------


def outcome(world, exchange="", key="plain", body=b"", **properties) -> PublishError | None:
    error = world.transport.publish(exchange, key, Message(body, Properties(**properties))).exception()
    assert error is None or isinstance(error, PublishError)
    return error


def test_each_fate_has_its_error(world):
    assert outcome(world) is None
    assert type(outcome(world, key="nobody")) is Unroutable
    assert type(outcome(world, exchange="nope")) is Unroutable
    assert type(outcome(world, body=bytes(16_777_217))) is MessageTooLarge
    assert outcome(world) is None


def test_a_dropped_connection_leaves_a_doubt_and_comes_back(world):
    world.broker.hold_confirms()
    future = world.transport.publish("", "plain", Message(b""))
    world.broker.drop_connections()
    world.broker.release_confirms()

    assert isinstance(future.exception(5), PublishUncertain)
    assert outcome(world) is None
    assert any(isinstance(event, ConnectionLost) for event in world.events)


def test_before_it_is_open_and_after_it_is_closed_nothing_is_taken(world):
    unopened = MemoryBlockingTransport(world.broker)
    with pytest.raises(ConnectionFailed, match="not open"):
        unopened.publish("", "plain", Message(b""))

    with world.publisher() as publisher:
        publisher.publish(Plain())

    with pytest.raises(PublishTimeout, match="closed"):
        publisher.publish(Plain())
    world.transport.close()
