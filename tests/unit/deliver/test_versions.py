"""A chain of versions: each message is validated once against its own, and walked up to the newest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpkit import Payload
from amqpkit.deliver.payload import Decoded, Decoding, Invalid, TooNew, decode, encode, registry
from amqpkit.errors import ConsumerError
from amqpkit.model import Properties
from tests.walk.world import Got


class OrderV1(Payload, type="order"):
    order_id: int

    def upgrade(self) -> OrderV2:
        return OrderV2(order_id=self.order_id, currency="EUR")


class OrderV2(Payload, type="order", previous=OrderV1):
    order_id: int
    currency: str

    def upgrade(self) -> Order:
        if self.currency == "XXX":
            raise ValueError("XXX is no currency")
        return Order(id=f"o-{self.order_id}", currency=self.currency)


class Order(Payload, type="order", version=3, previous=OrderV2):
    id: str
    currency: str


CHAIN: tuple[type[Payload], ...] = (OrderV1, OrderV2, Order)


def got(body: dict[str, Any], version: object = None) -> Got:
    headers = {} if version is None else {"amqpkit-version": version}
    return Got(body=json.dumps(body).encode(), properties=Properties(type="order", headers=headers))


def read(received: Got, newest: type[Payload] = Order) -> Decoding:
    return decode(received, registry([newest]), ("order",))


# --- case 406 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "body", "expected"),
    [
        (1, {"order_id": 1}, Decoded(Order(id="o-1", currency="EUR"))),
        (2, {"order_id": 1, "currency": "USD"}, Decoded(Order(id="o-1", currency="USD"))),
        (3, {"id": "o-1", "currency": "EUR"}, Decoded(Order(id="o-1", currency="EUR"))),
        (None, {"order_id": 1}, Decoded(Order(id="o-1", currency="EUR"))),
        (1, {"order_id": 1, "extra": True}, Decoded(Order(id="o-1", currency="EUR"))),
        (4, {"id": "o-1"}, TooNew('"order" has version 4, this worker knows 1-3')),
        ("3.0", {}, Invalid("header amqpkit-version is '3.0', not a whole number from 1")),
    ],
)
def test_each_version_is_read_by_its_own_class_and_taken_to_the_newest(
    version: object, body: dict[str, Any], expected: Decoding
) -> None:
    assert read(got(body, version)) == expected


def test_the_bytes_are_validated_against_their_own_version() -> None:
    decoding = read(got({"id": "o-1", "currency": "EUR"}, 2))

    assert isinstance(decoding, Invalid)
    assert decoding.reason.startswith("not a valid OrderV2: order_id: Field required")


def test_an_older_worker_puts_off_what_it_cannot_read_yet() -> None:
    assert read(got({"id": "o-1"}, 3), OrderV2) == TooNew('"order" has version 3, this worker knows 1-2')


def test_an_upgrade_that_fails_is_invalid_and_names_the_step() -> None:
    assert read(got({"order_id": 1, "currency": "XXX"}, 2)) == Invalid(
        'the upgrade of "order" from version 2 to 3 failed: ValueError: XXX is no currency'
    )


def chain_whose_upgrade(does: Any) -> type[Payload]:
    class First(Payload, type="order"):
        order_id: int

        def upgrade(self) -> Any:
            return does()

    class Second(Payload, type="order", version=2, previous=First):
        order_id: int

    return Second


async def later() -> None: ...


@pytest.mark.parametrize(
    ("result", "said"),
    [(None, "NoneType"), ({"order_id": 1}, "dict"), (OrderV1(order_id=1), "OrderV1"), (later, "coroutine")],
)
def test_an_upgrade_must_give_the_next_version(result: Any, said: str) -> None:
    newest = chain_whose_upgrade(result if callable(result) else lambda: result)

    assert read(got({"order_id": 1}, 1), newest) == Invalid(
        f'the upgrade of "order" from version 1 to 2 gave a {said}, not a Second'
    )


def raising(error: BaseException) -> Any:
    def upgrade() -> None:
        raise error

    return upgrade


def test_an_upgrade_may_raise_anything() -> None:
    assert isinstance(read(got({"order_id": 1}), chain_whose_upgrade(raising(SystemExit(1)))), Invalid)
    told = read(got({"order_id": 1}), chain_whose_upgrade(raising(OSError("x" * 9000))))
    assert isinstance(told, Invalid)
    assert len(told.reason) <= 500
    with pytest.raises(KeyboardInterrupt):
        read(got({"order_id": 1}), chain_whose_upgrade(raising(KeyboardInterrupt())))


def test_what_an_upgrade_could_not_validate_is_told_without_the_values() -> None:
    newest = chain_whose_upgrade(lambda: OrderV2.model_validate({"order_id": "hunter2"}))

    decoding = read(got({"order_id": 1}), newest)

    assert isinstance(decoding, Invalid)
    assert "ValidationError" in decoding.reason
    assert "hunter2" not in decoding.reason


# --- a rolling deploy, in memory ----------------------------------------------------------------------

payloads = st.one_of(
    st.builds(OrderV1, order_id=st.integers()),
    st.builds(OrderV2, order_id=st.integers(), currency=st.sampled_from(["EUR", "USD"])),
    st.builds(Order, id=st.text(), currency=st.text()),
)


@settings(deadline=None)
@given(payload=payloads, knows=st.sampled_from(CHAIN))
def test_between_old_and_new_producers_and_workers_no_message_is_dead(
    payload: OrderV1 | OrderV2 | Order, knows: type[Payload]
) -> None:
    properties = Properties(type="order", headers={"amqpkit-version": payload.payload_version})

    decoding = decode(Got(body=encode(payload), properties=properties), registry([knows]), ("order",))

    if payload.payload_version > knows.payload_version:
        assert isinstance(decoding, TooNew)
    else:
        assert isinstance(decoding, Decoded)
        assert type(decoding.payload) is knows


# --- what a class may say ------------------------------------------------------------------------------


def test_the_chain_is_known_and_the_version_counts_itself() -> None:
    assert dict(Order.payload_versions) == {1: OrderV1, 2: OrderV2, 3: Order}
    assert OrderV2.payload_version == 2
    assert Order(id="1", currency="EUR").model_dump() == {"id": "1", "currency": "EUR"}


class Bare(Payload, type="order"):
    """Has no upgrade."""


class Waits(Payload, type="order"):
    async def upgrade(self) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"type": "invoice", "previous": OrderV1}, 'Odd has type "invoice", but its previous OrderV1 has "order"'),
        ({"version": 1, "previous": OrderV1}, "Odd has version 1, its previous OrderV1 1: not lower"),
        ({"version": 2, "previous": Order}, "Odd has version 2, its previous Order 3: not lower"),
        ({"previous": "OrderV1"}, "the previous of Odd is 'OrderV1'; name the Payload class"),
        ({"previous": Bare}, r"Bare needs a plain method upgrade\(self\) that returns a Odd"),
        ({"previous": Waits}, "Waits needs a plain method upgrade"),
        ({"version": 3, "previous": OrderV1}, "if there never was one between them, say gap=True"),
    ],
)
def test_a_chain_that_cannot_be_walked_is_refused_when_it_is_defined(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConsumerError, match=says):

        class Odd(Payload, **{"type": "order", **arguments}):
            pass


def test_a_gap_that_is_stated_is_a_gap() -> None:
    class Dated(Payload, type="order", version=20260101, previous=OrderV1, gap=True):
        order_id: int

    assert read(got({"order_id": 1}, 7), Dated) == Invalid('"order" has version 7, this worker knows 1, 20260101')
    assert isinstance(read(got({"order_id": 1}, 20260102), Dated), TooNew)
    assert isinstance(read(got({"order_id": 1}, 20260101), Dated), Decoded)


def test_a_version_may_inherit_from_the_one_before() -> None:
    class Wider(OrderV1, type="order", version=2, previous=OrderV1):
        note: str = ""

    class Base(OrderV1, type="order"):
        def upgrade(self) -> Any:
            return Wider2(**self.model_dump())

    class Wider2(Base, type="order", previous=Base):
        note: str = "none"

    assert read(got({"order_id": 1}), Wider2) == Decoded(Wider2(order_id=1))
    assert Wider(order_id=1).note == ""


def test_a_consumer_names_only_the_newest() -> None:
    with pytest.raises(ConsumerError, match='both have type "order"; name Order only: older versions come with it'):
        registry([OrderV1, Order])
    with pytest.raises(ConsumerError, match=r'Order and Bare both have type "order"$'):
        registry([Order, Bare])
