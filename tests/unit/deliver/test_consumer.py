"""What a consumer class may say, how its pace is settled, and whether it fits the topology."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, Union

import pytest

from amqpkit import Consumer, Context, Payload
from amqpkit.deliver.consumer import Pace, Setting, check_consumers, pace_of
from amqpkit.deliver.context import context_of
from amqpkit.deliver.headers import Past
from amqpkit.errors import ConsumerError
from amqpkit.model import Consume, Policy, Properties, Queue, Topology, WorkQueue
from tests.walk.world import WORK, Got


class Placed(Payload, type="order.place"):
    id: str


class Cancelled(Payload, type="order.cancel"):
    id: str


class TakeOrders(Consumer[Placed], queue="orders"):
    async def handle(self, payload: Placed, context: Context) -> None: ...


class Both(Consumer[Placed | Cancelled], queue="orders"):
    def handle(self, payload: Placed | Cancelled, context: Context) -> None: ...


class Plain(Consumer[Placed], queue="plain"):
    retry = None

    def handle(self, payload: Placed, context: Context) -> None: ...


# --- classes ---------------------------------------------------------------------------------------------


def test_a_consumer_knows_its_queue_its_payloads_and_whether_it_awaits() -> None:
    assert (TakeOrders.queue, TakeOrders.payloads, TakeOrders.is_async()) == ("orders", (Placed,), True)
    assert (Both.queue, Both.payloads, Both.is_async()) == ("orders", (Placed, Cancelled), False)


def test_several_types_may_be_written_either_way() -> None:
    class Old(Consumer[Union[Placed, Cancelled]], queue="orders"):  # noqa: UP007 - that is the test
        def handle(self, payload: Any, context: Context) -> None: ...

    assert Old.payloads == (Placed, Cancelled)


def test_a_subclass_inherits_payloads_and_queue_and_may_change_them() -> None:
    class Louder(TakeOrders):
        prefetch = 5

    class Elsewhere(TakeOrders, queue="elsewhere"):
        pass

    class Tagged(TakeOrders, Generic[TypeVar("T")]):  # type: ignore[misc]
        pass

    class InBody(Consumer[Placed]):
        queue = "in-body"

        def handle(self, payload: Placed, context: Context) -> None: ...

    assert (Louder.queue, Louder.payloads) == ("orders", (Placed,))
    assert (Elsewhere.queue, Elsewhere.payloads) == ("elsewhere", (Placed,))
    assert (Tagged.queue, Tagged.payloads) == ("orders", (Placed,))
    assert InBody.queue == "in-body"
    assert TakeOrders.queue == "orders"


def test_a_handler_may_come_from_a_mixin() -> None:
    class Logs:
        def handle(self, payload: Any, context: Context) -> None: ...

    class Mixed(Logs, Consumer[Placed], queue="orders"):
        pass

    assert Mixed.payloads == (Placed,)


def handle(self: Any, payload: Any, context: Context) -> None: ...


def generator(self: Any, payload: Any, context: Context) -> Any:
    yield


async def async_generator(self: Any, payload: Any, context: Context) -> Any:
    yield


class Twin(Payload, type="order.place"):
    pass


P = TypeVar("P", bound=Payload)


@pytest.mark.parametrize(
    ("of", "queue", "body", "says"),
    [
        (Consumer[Placed], None, {"handle": handle}, 'Odd does not say its queue: class Odd(Consumer[…], queue="…")'),
        (Consumer[Placed], "", {"handle": handle}, "Odd does not say its queue"),
        (Consumer, "q", {"handle": handle}, "Odd does not say what it handles: class Odd(Consumer[YourPayload]"),
        (Consumer[P], "q", {"handle": handle}, "Odd does not say what it handles"),  # type: ignore[valid-type]
        (Consumer[Placed], "q", {}, "Odd has no `handle(self, payload, context)`"),
        (Consumer[Payload], "q", {"handle": handle}, "Payload'>, which is not a subclass of Payload"),
        (Consumer[int], "q", {"handle": handle}, "Odd handles <class 'int'>, which is not a subclass"),  # type: ignore[type-var]
        (Consumer[Placed | None], "q", {"handle": handle}, "NoneType'>, which is not a subclass"),  # type: ignore[type-var]
        (Consumer["Placed"], "q", {"handle": handle}, "Odd handles ForwardRef('Placed'), which is not"),
        (Consumer[Placed | Twin], "q", {"handle": handle}, 'Placed and Twin both have type "order.place"'),
        (Consumer[Placed], "q", {"handle": generator}, "Odd.handle holds a `yield`: called, it would do nothing"),
        (Consumer[Placed], "q", {"handle": async_generator}, "Odd.handle holds a `yield`"),
        (Consumer[Placed], "q", {"handle": handle, "never_retry": ValueError}, "; write a tuple of exception classes"),
        (
            Consumer[Placed],
            "q",
            {"handle": handle, "never_retry": [ValueError]},
            "; write a tuple of exception classes",
        ),
        (Consumer[Placed], "q", {"handle": handle, "never_retry": (ValueError, "x")}, "; write a tuple of exception"),
        (Consumer[Placed], "q", {"handle": handle, "never_retry": (ValueError(),)}, "; write a tuple of exception"),
    ],
)
def test_what_a_consumer_cannot_mean_is_an_error_when_it_is_defined(
    of: Any, queue: str | None, body: dict[str, Any], says: str
) -> None:
    import types

    with pytest.raises(ConsumerError) as raised:
        types.new_class(
            "Odd", (of,), {} if queue is None else {"queue": queue}, lambda namespace: namespace.update(body)
        )

    assert says in str(raised.value)


def test_the_handler_that_every_consumer_has_does_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Consumer.handle(TakeOrders(), Placed(id="1"), None)  # type: ignore[arg-type]


# --- context ---------------------------------------------------------------------------------------------


def test_a_handler_is_told_about_its_message() -> None:
    headers = {"amqpkit-exchange": "first", "amqpkit-routing-key": "k", "amqpkit-published-at": "2026-01-01T00:00:00Z"}
    properties = Properties(message_id="m-1", correlation_id="c-1", headers=headers)
    received = Got(properties=properties, exchange="orders.retry", routing_key="return", redelivered=True)

    context = context_of(received, Past(attempt=2), attempts=3)

    assert (context.queue, context.exchange, context.routing_key) == ("orders", "first", "k")
    assert (context.attempt, context.attempts, context.last_attempt, context.redelivered) == (3, 3, True, True)
    assert (context.message_id, context.correlation_id) == ("m-1", "c-1")
    assert context.headers is headers
    assert context.published_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert not context_of(received, Past(attempt=1), attempts=3).last_attempt


# --- pace ------------------------------------------------------------------------------------------------


def topology(work: WorkQueue = WORK, queues: tuple[Queue, ...] = (), policies: tuple[Policy, ...] = ()) -> Topology:
    return Topology(work_queues={work.name: work}, queues=queues, policies=policies)


def work(consumer_timeout: float | None = None, **consume: Any) -> WorkQueue:
    from dataclasses import replace

    return replace(WORK, consume=Consume(**consume), consumer_timeout=consumer_timeout)


class Paced(TakeOrders):
    prefetch = 7
    concurrency = 6
    timeout = 5.0


def test_everything_has_a_default() -> None:
    ten = Setting(10, "default")

    assert pace_of(TakeOrders(), topology()) == Pace(ten, ten, Setting(None, "default"), Setting(None, "default"))
    assert pace_of(Plain(), topology()).prefetch == ten


@pytest.mark.parametrize(
    ("line", "file", "expected"),
    [
        ({}, {}, ((7, "class"), (6, "class"), (5.0, "class"), (None, "default"))),
        ({}, {"prefetch": 20, "rate": 50.0}, ((20, "file"), (6, "class"), (5.0, "class"), (50.0, "file"))),
        (
            {"prefetch": 1, "timeout": 9.0, "concurrency": None},
            {"prefetch": 20, "concurrency": 4, "timeout": 30.0},
            ((1, "command line"), (4, "file"), (9.0, "command line"), (None, "default")),
        ),
        ({"rate": 1.0}, {"rate": 50.0}, ((7, "class"), (6, "class"), (5.0, "class"), (1.0, "command line"))),
    ],
)
def test_the_command_line_beats_the_file_which_beats_the_class(
    line: dict[str, Any], file: dict[str, Any], expected: tuple[tuple[Any, str], ...]
) -> None:
    pace = pace_of(Paced(), topology(work(**file)), overrides=line)

    assert pace == Pace(*(Setting(value, source) for value, source in expected))


def test_concurrency_follows_the_prefetch() -> None:
    assert pace_of(TakeOrders(), topology(work(prefetch=3))).concurrency == Setting(3, "default")


def test_a_rate_of_the_consumers_own_is_not_its_pace() -> None:
    class Rated(TakeOrders):
        def rate(self) -> float:
            return 0.5

    assert pace_of(Rated(), topology()).rate == Setting(None, "default")


@pytest.mark.parametrize("name", ["prefetch", "concurrency"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "10", 65_536])
def test_a_prefetch_is_a_whole_number_that_amqp_can_say(name: str, value: object) -> None:
    with pytest.raises(ConsumerError) as raised:
        pace_of(TakeOrders(), topology(), overrides={"prefetch": 10, name: value})

    assert str(raised.value) == (
        f"TakeOrders: {name} is {value!r} (command line); it must be a whole number from 1 to 65535"
    )


@pytest.mark.parametrize(("name", "unit"), [("timeout", "seconds"), ("rate", "messages a second")])
@pytest.mark.parametrize("value", [0, -1.0, True, "30s", math.nan, math.inf])
def test_a_time_is_a_number_above_0(name: str, unit: str, value: object) -> None:
    with pytest.raises(ConsumerError) as raised:
        pace_of(TakeOrders(), topology(), overrides={name: value})

    assert str(raised.value) == f"TakeOrders: {name} is {value!r} (command line); it must be a number of {unit} above 0"


def test_a_timeout_stays_below_the_brokers() -> None:
    assert pace_of(Paced(), topology(work(consumer_timeout=6.0))).timeout.value == 5.0
    with pytest.raises(ConsumerError, match=r"Paced: timeout \(5 s, class\) must be below consumer-timeout \(5 s\)"):
        pace_of(Paced(), topology(work(consumer_timeout=5.0)))


# --- the fit to the topology -----------------------------------------------------------------------------


def faults(consumers: list[Consumer[Any]], where: Topology) -> list[str]:
    with pytest.raises(ConsumerError) as raised:
        check_consumers(where, consumers)
    return str(raised.value).split("\n")


DLX = Queue("plain", arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": ""})
BARE = Queue("plain", arguments={"x-queue-type": "quorum"})


def dead_letters(pattern: str, apply_to: str = "quorum_queues", key: str = "dead-letter-exchange") -> Policy:
    return Policy("p", pattern, {key: "dlx"}, apply_to=apply_to)


def test_consumers_that_fit_are_fine() -> None:
    check_consumers(topology(queues=(DLX,)), [Both(), Plain()])


@pytest.mark.parametrize(
    "policy",
    [
        dead_letters("^plain$"),
        dead_letters(".*", "all"),
        dead_letters("lai", "queues"),
        dead_letters("(?|PCRE)"),  # Python cannot read it, the broker can
    ],
)
def test_a_policy_that_reaches_a_plain_queue_gives_its_failures_a_way(policy: Policy) -> None:
    check_consumers(topology(queues=(BARE,), policies=(policy,)), [Plain()])


@pytest.mark.parametrize(
    "policies",
    [
        (),
        (dead_letters("^other$"),),
        (dead_letters(".*", "classic_queues"),),
        (dead_letters(".*", "exchanges"),),
        (dead_letters(".*", "all", "max-length"),),
    ],
)
def test_a_plain_queue_without_a_dead_letter_exchange_would_lose_its_failures(policies: tuple[Policy, ...]) -> None:
    assert faults([Plain()], topology(queues=(BARE,), policies=policies)) == [
        'Plain: queue "plain" has no dead-letter exchange; its failures would be lost'
    ]


def test_every_misfit_is_told_at_once() -> None:
    class Stranger(Payload, type="stranger"):
        pass

    class Wrong(Consumer[Stranger | Placed], queue="orders"):
        retry = None

        def handle(self, payload: Any, context: Context) -> None: ...

    class Retries(Consumer[Placed], queue="plain"):
        def handle(self, payload: Any, context: Context) -> None: ...

    class Typo(TakeOrders, queue="plian"):
        pass

    class Lost(TakeOrders, queue="zzz"):
        pass

    remedy = "say `retry = None` (failures are then refused to its dead-letter exchange) or make it a work queue"
    assert faults([Wrong(), TakeOrders(), Retries(), Typo(), Lost()], topology(queues=(DLX,))) == [
        'Wrong: queue "orders" does not accept "stranger" (it accepts order.place, order.cancel); add it to `accepts`',
        'Wrong says retry = None, but "orders" is a work queue: write `retry: none` in the file',
        'Wrong and TakeOrders both consume queue "orders"',
        'Retries: "plain" is a plain queue and has no delays to retry through; ' + remedy,
        'Typo: queue "plian" is not in the topology (did you mean "plain"?)',
        'Lost: queue "zzz" is not in the topology; its work queues are orders',
    ]


def test_one_consumer_twice_is_once_too_often() -> None:
    twice = 'TakeOrders is there twice for queue "orders"; raise `concurrency` instead'
    same = TakeOrders()

    assert faults([TakeOrders(), TakeOrders()], topology()) == [twice]
    assert faults([same, same], topology()) == [twice]


def test_no_consumer_is_an_error() -> None:
    assert faults([], topology()) == ["there is no consumer to run"]
