"""The business key of a payload: checked when the class is defined, filled when it is published."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpkit import Payload, PublishError
from amqpkit.deliver.evolution import business_key
from amqpkit.errors import ConsumerError
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import topology


class Email(Payload, type="email.send", key="{template_id}:{user_id}"):
    template_id: str
    user_id: int | str


class Plain(Payload, type="plain"):
    n: int = 0


def test_a_key_is_filled_from_the_fields() -> None:
    assert business_key(Email(template_id="welcome", user_id=7)) == "welcome:7"
    assert business_key(Plain()) is None


@given(st.tuples(*[st.text("a:%3A", min_size=1)] * 2), st.tuples(*[st.text("a:%3A", min_size=1)] * 2))
def test_two_payloads_share_a_key_only_if_their_fields_are_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    keys = [business_key(Email(template_id=a, user_id=b)) for a, b in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)


class Odd(Payload, type="odd", key="v1/{id}/{flag}/{part}"):
    id: UUID
    flag: bool = True
    part: Any = None


def test_values_are_written_as_json_writes_them() -> None:
    assert business_key(Odd(id=UUID(int=5), part=1.5)) == "v1/00000000-0000-0000-0000-000000000005/true/%31.5"


@pytest.mark.parametrize("value", [None, "", [1], {"a": 1}])
def test_a_key_is_never_filled_with_nothing(value: object) -> None:
    with pytest.raises(PublishError, match=r'the key "v1/\{id\}/\{flag\}/\{part\}" of Odd needs a part'):
        business_key(Odd(id=UUID(int=5), part=value))


def test_a_key_has_an_end() -> None:
    with pytest.raises(PublishError, match="over 1024 characters here"):
        business_key(Email(template_id="x" * 1024, user_id=1))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (5, r"the key of Bad is 5"),
        ("", r"has no \{field\}: all its messages would be one"),
        ("constant", r"has no \{field\}"),
        ("{id}{n}", r"needs something between \{id\} and \{n\}"),
        ("{id}:{nope}", "names nope; its fields are id, n, password"),
        ("{id", "cannot be read"),
        ("{id.x}", r"may hold plain \{field\} names only"),
        ("{}", r"may hold plain \{field\} names only"),
        ("{id!r}", r"may hold plain \{field\} names only"),
        ("{n:05}", r"may hold plain \{field\} names only"),
        ("{id}:{password}", "would write password into a header"),
    ],
)
def test_a_key_that_cannot_work_is_refused_when_the_class_is_defined(key: Any, says: str) -> None:
    with pytest.raises(ConsumerError, match=says):

        class Bad(Payload, type="bad", key=key, secrets_allowed="tests"):
            id: str
            n: int
            password: str


def test_a_literal_end_belongs_to_the_key() -> None:
    class Ended(Payload, type="ended", key="{id}-x"):
        id: str

    assert business_key(Ended(id="a-x")) == "a%2D%78-x"


def test_a_newer_version_keeps_the_key_of_the_one_before() -> None:
    class First(Payload, type="mail", key="{id}"):
        id: str

        def upgrade(self) -> Any: ...

    class Second(Payload, type="mail", previous=First):
        id: str

    assert Second.payload_key == "{id}"
    with pytest.raises(ConsumerError, match="names id; its fields are number"):

        class Renamed(Payload, type="mail", previous=First):
            number: str


FILE = "version: 1\nwork_queues: {email.send: {}}\n"


async def test_the_key_is_published_unless_the_caller_gives_one() -> None:
    async with Simulator(topology(FILE)) as sim:
        await sim.publish(Email(template_id="t", user_id=1))
        await sim.publish(Email(template_id="t", user_id=1), key="mine")
        stored = sim.broker.messages("email.send")

    assert [message.properties.headers["amqpkit-key"] for message in stored] == ["t:1", "mine"]


@pytest.mark.parametrize("priority", [-1, 256, True, 1.0, "5"])
async def test_a_priority_is_a_number_from_0_to_255(priority: Any) -> None:
    async with Simulator(topology(FILE)) as sim:
        with pytest.raises(PublishError, match=r"the priority is .*; write a whole number from 0 to 255"):
            await sim.publish(Email(template_id="t", user_id=1), priority=priority)
        for good in (None, 0, 255):
            await sim.publish(Email(template_id="t", user_id=1), priority=good)
        assert [m.properties.priority for m in sim.broker.messages("email.send")] in ([None, 0, 255], [255, None, 0])
