"""A rolling deploy on a real broker: old and new workers and producers at once, and no message dead (case 406)."""

from __future__ import annotations

from collections import Counter

from pika.spec import BasicProperties

from amqpkit import Consumer, Payload
from amqpkit.events import Outcome, Settled
from tests.broker.life.rig import applied, until

TOPOLOGY = """
version: 1
work_queues:
  orders:
    accepts: [order]
    retry: {delays: [200ms, 400ms]}
"""


class OrderV1(Payload, type="order"):
    id: int

    def upgrade(self) -> OrderV2:
        return OrderV2(id=self.id, currency="EUR")


class OrderV2(Payload, type="order", previous=OrderV1):
    id: int
    currency: str

    def upgrade(self) -> Order:
        return Order(id=f"o-{self.id}", currency=self.currency)


class Order(Payload, type="order", previous=OrderV2):
    id: str
    currency: str


def taking(payload: type[Payload]):
    """A worker's consumer that knows the chain up to `payload`, and what it has handled."""
    handled: list[tuple[str, str]] = []

    class Takes(Consumer[payload], queue="orders"):  # type: ignore[valid-type]
        async def handle(self, order: Payload, context: object) -> None:
            handled.append((type(order).__name__, str(order.model_dump()["id"])))

    return Takes(), handled


async def test_old_and_new_together_handle_every_version_and_none_is_dead(broker):
    async with applied(broker, TOPOLOGY) as rig:
        (old, by_old), (new, by_new) = taking(OrderV2), taking(Order)
        async with rig.working(old, name="old"):
            sent = [
                OrderV1(id=1),
                OrderV2(id=2, currency="USD"),
                *(Order(id=f"o-{n}", currency="EUR") for n in range(10)),
            ]
            for order in sent:
                await rig.publisher.publish(order)
            await until(lambda: Outcome.SNOOZED in {e.outcome for e in rig.told(Settled)}, "the old one puts off")
            async with rig.working(new, name="new"):
                await until(lambda: len(by_old) + len(by_new) == len(sent), "all are handled")

        handled = Counter(each for _, each in by_old) + Counter(each for _, each in by_new)
        assert sum(handled.values()) == len(sent)
        assert all(handled[f"o-{n}"] for n in range(10))
        assert {name for name, _ in by_old} <= {"OrderV2"}
        assert {name for name, _ in by_new} == {"Order"}
        assert {e.outcome for e in rig.told(Settled)} == {Outcome.HANDLED, Outcome.SNOOZED}
        assert await rig.ledger() == {}


async def test_a_version_that_is_none_is_dead_and_the_others_are_not(broker):
    def of(version, body):
        headers = {} if version is None else {"amqpkit-version": version}
        return body, BasicProperties(type="order", headers=headers)

    async with applied(broker, TOPOLOGY) as rig:
        consumer, handled = taking(Order)
        async with rig.working(consumer):
            await rig.send(
                "orders",
                of("3.0", b'{"id": "o-1"}'),
                of(2, b'{"id": 7}'),
                of(None, b'{"id": 8}'),
                of(2, b'{"id": 9, "currency": "EUR", "extra": true}'),
            )
            await until(lambda: len(rig.settled()) == 4, "all are settled")

        assert handled == [("Order", "o-8"), ("Order", "o-9")]
        reasons = [letter.headers["amqpkit-error"]["message"] for letter in await rig.take()]
        assert reasons == [
            "header amqpkit-version is '3.0', not a whole number from 1",
            "not a valid OrderV2: currency: Field required",
        ]
