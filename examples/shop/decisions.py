"""What has to be decided for a queue in production: each decision is driven and checked on a stage."""

from collections.abc import AsyncIterator, Callable

from amqpkit import Context, Overloaded, Unroutable
from amqpkit.events import Outcome, Settled
from amqpkit.model import Message, Properties, Received
from amqpkit.operate.alerts import findings
from amqpkit.operate.dead_letters import verdicts
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.discard import Grounds, discard
from amqpkit.operate.dead_letters.groups import grouped
from amqpkit.operate.dead_letters.letter import Letter, read_letter
from amqpkit.operate.dead_letters.replay import replay
from amqpkit.operate.observe import Observer
from amqpkit.stores import MemoryStore

from .orders import Count, Drain, Drop, Lost, NoSuchItem, Order, OrderV1, Ship, Stocktake
from .stages import Stage


class Broken(Exception):
    """A decision that is not kept."""


def must(holds: object, what: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(what)


async def empty(stage: Stage, queue: str) -> None:
    """Wait until a queue has nothing left; raises Broken."""

    async def is_empty() -> bool:
        figures = (await stage.statistics.figures()).get(queue)
        return await stage.transport.depth(queue) == 0 and (figures is None or figures.unacked == 0)

    must(await stage.until(is_empty), f"{queue} is empty in the end")


def ends(stage: Stage, message_id: str) -> list[Settled]:
    """List how the deliveries of a message have ended."""
    return [event for event in stage.events if isinstance(event, Settled) and event.message_id == message_id]


async def letters(stage: Stage) -> list[Letter]:
    """Read the dead letters of orders."""
    work, found = stage.topology.work_queues["tour.order"], list[Letter]()

    def visit(received: Received) -> None:
        found.append(read_letter(received, work=work))

    await stage.finish(browse(stage.transport, work.dead_queue, visit, clock=stage.clock))
    return found


async def clear(stage: Stage) -> None:
    """Discard the dead letters of orders: each is written down before it goes."""
    dead, written = stage.topology.work_queues["tour.order"].dead_queue, list[str]()
    grounds = Grounds("the tour", "they have been seen")
    await stage.finish(discard(stage.transport, dead, grounds, written.extend, clock=stage.clock))
    must(written, "the letters are written down")
    must(await stage.transport.depth(dead) == 0, "and gone")


def counted(stage: Stage, outcome: Outcome) -> int:
    """Ask the metrics how many deliveries of orders have ended like this."""
    labels = {"queue": "tour.order", "type": "tour.order", "outcome": outcome.value}
    return int(stage.metrics.registry.get_sample_value("amqpkit_deliveries_total", labels) or 0)


# --- the decisions ---------------------------------------------------------------------------------


async def producer(stage: Stage) -> AsyncIterator[str]:
    """It knows what became of each message: the broker has confirmed it, or there is an exception."""
    await stage.publish(Order(item="cup"))
    must(await stage.transport.depth("tour.order") == 1, "a confirmed message is in its queue")
    yield "an order is confirmed, and waits in tour.order"
    try:
        await stage.publish(Lost())
    except Unroutable:
        yield "what no queue wants is Unroutable, not lost in silence"
    else:
        raise Broken("what no queue wants is an exception")
    async with stage.working(Ship()):
        await empty(stage, "tour.order")


async def consumer(stage: Stage) -> AsyncIterator[str]:
    """It is given as much as it can do at once, and no more."""
    at_once: list[int] = [0]

    async def work(_order: Order, _context: Context) -> None:
        at_once.append(at_once[-1] + 1)
        await stage.clock.sleep(0.1)
        at_once.append(at_once[-1] - 1)

    ship = Ship(work)
    for number in range(6):
        await stage.publish(Order(item=f"cup {number}"))
    async with stage.working(ship):
        must(await stage.until(lambda: len(ship.calls) == 6), "all six are handled")  # noqa: PLR2004
        await empty(stage, "tour.order")
    must(max(at_once) == 2, f"two at a time, not {max(at_once)}")  # noqa: PLR2004 - the file's prefetch
    yield "six orders, prefetch 2: never more than two at once, all acked"


async def payload(stage: Stage) -> AsyncIterator[str]:
    """It has a version and is checked: old ones are upgraded, bad ones never reach a handler."""
    ship, body = Ship(), b'{"items":  "cup"}'
    await stage.publish(OrderV1(item="old cup"))
    bad = Message(body, Properties(message_id="bad", type="tour.order", content_type="application/json"))
    async with stage.working(ship):
        await stage.finish(stage.transport.publish("tour", "order.cup", bad))
        must(await stage.until(lambda: bool(ends(stage, "bad"))), "the bad order is settled")
        await empty(stage, "tour.order")
    must(ship.calls == [("old cup", 1)], f"the handler saw the old order only, not {ship.calls}")
    yield "an order of version 1 is handled as one of version 2"
    (letter,) = await letters(stage)
    must((letter.fate, letter.size) == ("invalid", len(body)), "the bad order is dead, its bytes as they came")
    yield 'an order without an item is a dead letter, "invalid", without one try'
    await clear(stage)


async def visibility(stage: Stage) -> AsyncIterator[str]:
    """How long a message may be in somebody's hands, by the worker's clock and by the broker's."""

    async def hang_once(_order: Order, context: Context) -> None:
        if context.attempt == 1:
            await stage.clock.sleep(30)

    ship, stocktake = Ship(hang_once), Stocktake()
    message_id = await stage.publish(Order(item="cup"))
    async with stage.working(ship):
        must(await stage.until(lambda: len(ends(stage, message_id)) == 2), "it is tried again")  # noqa: PLR2004
    first, second = ends(stage, message_id)
    must("HandlerTimeout" in first.reason, f"a handler beyond its timeout fails as HandlerTimeout, not {first.reason}")
    must(second.outcome is Outcome.HANDLED, "and the next attempt handles it")
    yield "a handler that takes longer than `timeout` is a failure, HandlerTimeout, and tried again"
    await stage.publish(Count())
    async with stage.working(stocktake):
        must(await stage.until(lambda: len(stocktake.redelivered) == 2), "the broker takes it back")  # noqa: PLR2004
        await empty(stage, "tour.count")
        stocktake.woken.set()
    must(stocktake.redelivered == [False, True], "the second delivery is known as one")
    yield "one that holds it beyond the broker's `consumer-timeout` loses it: it is delivered and handled again"


async def retry(stage: Stage) -> AsyncIterator[str]:
    """A failure waits in the broker, longer each time, and not in a worker."""

    async def fail_twice(_order: Order, context: Context) -> None:
        if context.attempt <= 2:  # noqa: PLR2004 - twice
            raise ConnectionError("down")

    ship = Ship(fail_twice)
    message_id = await stage.publish(Order(item="cup"))
    async with stage.working(ship):
        must(await stage.until(lambda: len(ends(stage, message_id)) == 3), "there are three attempts")  # noqa: PLR2004
    seen = [(end.outcome.value, end.delay) for end in ends(stage, message_id)]
    must(seen == [("retried", "300ms"), ("retried", "600ms"), ("handled", None)], f"two delays, then handled: {seen}")
    yield "it failed twice, waited 300 ms and 600 ms in the broker, and was handled at the third attempt"


async def dead_letters(stage: Stage) -> AsyncIterator[str]:
    """What cannot be done has a reason, an owner, and a way back."""
    known = ["tea"]

    async def look_up(order: Order, _context: Context) -> None:
        if order.item not in known:
            raise NoSuchItem(f"no item 4711 called {order.item!r}")

    ids = [await stage.publish(Order(item="cup")) for _ in range(3)]
    async with stage.working(Ship(look_up)):
        must(await stage.until(lambda: all(ends(stage, each) for each in ids)), "all three are settled")
        (group,) = grouped(await letters(stage))
        must((group.count, group.cause.fate, group.cause.error) == (3, "permanent", "NoSuchItem"), f"{group.cause}")
        yield f"three orders are one group of dead letters: {group.cause.error}, {group.cause.message}"
        known.append("cup")
        work = stage.topology.work_queues["tour.order"]
        report = await stage.finish(
            replay(stage.transport, work.dead_queue, verdicts.Order("tour"), work=work, clock=stage.clock)
        )
        must(report.replayed == 3, f"all three are replayed: {report}")  # noqa: PLR2004
        must(await stage.until(lambda: all(len(ends(stage, each)) == 2 for each in ids)), "they are handled")  # noqa: PLR2004
    must(all(ends(stage, each)[-1].outcome is Outcome.HANDLED for each in ids), "and all of them well")
    must(await stage.transport.depth(work.dead_queue) == 0, "no letter is left")
    yield "the mistake is mended, they are replayed under their own ids, and handled"


async def idempotency(stage: Stage) -> AsyncIterator[str]:
    """The same order twice is one order."""
    ship = Ship()
    async with stage.working(ship, store=MemoryStore(stage.clock)):
        for message_id in ("first", "second"):
            await stage.publish(Order(item="cup"), key="order-17", message_id=message_id)
        must(await stage.until(lambda: bool(ends(stage, "first") and ends(stage, "second"))), "both are settled")
    outcomes = sorted(end.outcome.value for each in ("first", "second") for end in ends(stage, each))
    must(outcomes == ["duplicate", "handled"], f"one is handled, one is a duplicate: {outcomes}")
    must(len(ship.calls) == 1, "the handler is called once")
    yield "two messages with one key: the handler was called once, the other was acked as a duplicate"


async def back_pressure(stage: Stage) -> AsyncIterator[str]:
    """A producer learns that a queue is full while it can still do something about it."""
    must(stage.publisher.pressure < 1, "there is no pressure at first")
    for _ in range(5):
        await stage.publish(Drop())
    try:
        await stage.publish(Drop(), overload="fail")
    except Overloaded as error:
        yield f"the sixth is refused: {error}"
    else:
        raise Broken("above limits.depth a publish fails")
    must(stage.publisher.pressure == 1, f"the pressure is 1, not {stage.publisher.pressure}")
    async with stage.working(Drain()):
        await empty(stage, "tour.flood")
        await stage.publish(Drop())
        await empty(stage, "tour.flood")
    must(stage.publisher.pressure < 1, "the pressure is gone")
    yield "pressure was 1; a worker drained the queue, and the next one was taken"


async def monitoring(stage: Stage) -> AsyncIterator[str]:
    """Somebody is told, by name, before customers call."""

    async def refuse(_order: Order, _context: Context) -> None:
        raise NoSuchItem

    observer = Observer(stage.topology, stage.transport, stage.statistics, clock=stage.clock)
    async with stage.working(Ship(refuse)):
        ids = [await stage.publish(Order(item="cup")) for _ in range(3)]
        must(await stage.until(lambda: all(ends(stage, each) for each in ids)), "all three are dead")

        async def seen() -> bool:
            (reading,) = await observer.read(["tour.order"])
            return (reading.dead, reading.consumers) == (3, 1) and (reading.letters or {}).get("permanent") == 3  # noqa: PLR2004

        must(await stage.until(seen), "the reading has three dead letters and a consumer")
    (reading,) = await stage.finish(observer.read(["tour.order"]))
    alerts, _ = findings(stage.topology, (reading,), {})
    must([alert.name for alert in alerts] == ["dead-letters"], f"the file's alert holds: {alerts}")
    yield f"the alert of the file holds: {alerts[0]}"
    dead, handled = counted(stage, Outcome.DEAD), counted(stage, Outcome.HANDLED)
    must(dead >= 3, f"the metrics have counted them: {dead} dead and {handled} handled")  # noqa: PLR2004
    yield f"since the tour began the metrics have counted {handled} orders handled and {dead} dead"
    await clear(stage)


DECISIONS: tuple[Callable[[Stage], AsyncIterator[str]], ...] = (
    producer,
    consumer,
    payload,
    visibility,
    retry,
    dead_letters,
    idempotency,
    back_pressure,
    monitoring,
)
