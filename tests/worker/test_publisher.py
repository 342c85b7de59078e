"""Publishing on the in-memory broker: what goes out, where to, and what each failure is called."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqpkit import Nacked, Payload, PublishError, PublishTimeout, PublishUncertain, Topology, Unroutable
from amqpkit.deliver.blocking import BlockingPublisher
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.worker import Worker
from amqpkit.errors import MessageTooLarge, Unsendable
from amqpkit.model import Policy
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, topology

FILE = """
version: 1
exchanges:
  mail: {type: topic, alternate-exchange: mail.unrouted}
  mail.unrouted: {type: fanout}
  bare: {type: direct}
work_queues:
  mail.send:
    accepts: [mail.send]
    bindings: [{source: mail, routing_key: "mail.send.#"}]
  event.a: {accepts: [event]}
  event.b: {accepts: [event]}
messages:
  mail.send: {exchange: mail, routing_key: "mail.send.{template}.{urgent}.{tries}"}
  mail.lost: {exchange: bare, routing_key: nowhere}
  mail.saved: {exchange: mail, routing_key: other}
"""


class Mail(Payload, type="mail.send", version=2):
    template: str
    urgent: bool = False
    tries: int = 0
    text: str = ""


class Lost(Payload, type="mail.lost"):
    pass


class Event(Payload, type="event"):
    pass


class Unknown(Payload, type="mail.snd"):
    pass


class Saved(Payload, type="mail.saved"):
    pass


def shape() -> Topology:
    return topology(FILE)


async def test_a_message_is_persistent_typed_versioned_and_dated() -> None:
    async with Simulator(shape()) as sim:
        message_id = await sim.publish(
            Mail(template="welcome"), key="k-1", correlation_id="c-1", priority=7, headers={"tenant": "t-1"}
        )
        (stored,) = sim.broker.messages("mail.send")
    properties = stored.properties
    assert (properties.message_id, properties.type, properties.content_type) == (
        message_id,
        "mail.send",
        "application/json",
    )
    assert (properties.delivery_mode, properties.priority, properties.correlation_id) == (2, 7, "c-1")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-.*", message_id)
    assert dict(properties.headers) == {
        "amqpkit-version": 2,
        "amqpkit-key": "k-1",
        "amqpkit-published-at": "2026-01-01T00:00:00.000Z",
        "tenant": "t-1",
    }
    assert stored.body == b'{"template":"welcome","urgent":false,"tries":0,"text":""}'


async def test_the_routing_key_is_filled_from_the_payload() -> None:
    async with Simulator(shape()) as sim:
        await sim.publish(Mail(template="welcome", urgent=True, tries=3))
        (stored,) = sim.broker.messages("mail.send")
    assert (stored.exchange, stored.routing_keys) == ("mail", ("mail.send.welcome.true.3",))


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (Lost(), 'to exchange "bare" with key "nowhere" reaches no queue'),
        (Event(), 'type "event" is accepted by event.a, event.b; say under `messages:` where it goes'),
        (Unknown(), 'no work queue accepts type "mail.snd"'),
        (Saved(), 'to exchange "mail" with key "other" reaches no queue'),
    ],
    ids=["unbound key", "two takers", "nobody takes it", "alternate exchange without a queue"],
)
async def test_what_reaches_no_queue_is_unroutable_and_says_where_it_was_going(payload: Payload, says: str) -> None:
    async with Simulator(shape()) as sim:
        with pytest.raises(Unroutable, match=re.escape(says)):
            await sim.publish(payload)
        assert sim.ledger() == {}


async def test_an_alternate_exchange_with_a_queue_takes_what_nobody_else_does() -> None:
    text = FILE + "queues:\n  mail.unrouted:\n    bindings: [{source: mail.unrouted}]\n"
    async with Simulator(topology(text)) as sim:
        message_id = await sim.publish(Saved())
        assert sim.ledger() == {"mail.unrouted": [message_id]}


async def test_a_caller_may_give_up_the_promise_that_some_queue_gets_it() -> None:
    async with Simulator(shape()) as sim:
        await sim.publish(Lost(), mandatory=False)
        assert sim.ledger() == {}


async def test_a_full_queue_nacks() -> None:
    async with Simulator(shape()) as sim:
        sim.broker.declare(Policy("cap", "^mail", {"max-length": 1, "overflow": "reject-publish"}, priority=200))
        for _ in range(2):  # a quorum queue takes one more than its limit
            await sim.publish(Mail(template="welcome"))
        with pytest.raises(Nacked, match="was refused by the broker"):
            await sim.publish(Mail(template="welcome"))
        assert len(sim.ledger()["mail.send"]) == 2


async def test_a_publish_that_cannot_be_sent_in_time_was_never_sent() -> None:
    async with Simulator(shape()) as sim:
        await sim.transport.close()
        with pytest.raises(PublishTimeout):
            await sim.publish(Mail(template="welcome"), timeout=1.0)


async def test_a_connection_lost_before_the_confirm_leaves_the_fate_unknown_and_the_message_stored() -> None:
    async with Simulator(shape()) as sim:
        sim.broker.hold_confirms()
        future = sim.transport.publish("", "mail.send", stored_message())
        await sim.settle()
        sim.broker.drop_connections()
        with pytest.raises(PublishUncertain, match="no confirm came"):
            await future
        assert sim.ledger() == {"mail.send": ["m-1"]}


def stored_message(**headers: Any) -> Any:
    from amqpkit.model import Message, Properties

    return Message(b"{}", Properties(message_id="m-1", headers=headers))


async def test_a_routing_key_is_never_filled_with_nothing() -> None:
    class Maybe(Payload, type="mail.send"):
        template: str | None = None

    async with Simulator(shape()) as sim:
        with pytest.raises(Unroutable, match="needs a field that this payload"):
            await sim.publish(Maybe())
        with pytest.raises(PublishError, match="idempotency key is empty"):
            await sim.publish(Mail(template="welcome"), key="")
        assert sim.ledger() == {}


@pytest.mark.parametrize("given", ["topology.yaml", Path("topology.yaml"), None])
@pytest.mark.parametrize(
    "make",
    [
        lambda given: Simulator(given, [Does()]),
        lambda given: Worker(given, [Does()], object()),  # type: ignore[arg-type]
        lambda given: Publisher(given, object()),  # type: ignore[arg-type]
        lambda given: BlockingPublisher(given, object()),  # type: ignore[arg-type]
    ],
    ids=["simulator", "worker", "publisher", "blocking"],
)
def test_a_file_instead_of_the_topology_that_is_in_it_is_refused_with_the_remedy(
    make: Callable[[Any], object], given: object
) -> None:
    remedy = "" if given is None else r': write load_topology\("topology\.yaml"\)$'
    with pytest.raises(TypeError, match=f"^the topology is a {type(given).__name__}, not a Topology{remedy}"):
        make(given)


@pytest.mark.parametrize("headers", [{"amqpkit-attempt": 3}, {"x-death": []}])
async def test_a_caller_cannot_set_our_headers_or_the_brokers(headers: dict[str, Any]) -> None:
    async with Simulator(shape()) as sim:
        with pytest.raises(PublishError, match="not the caller's to set"):
            await sim.publish(Mail(template="welcome"), headers=headers)


@pytest.mark.parametrize("name", [1, None, b"x"])
async def test_a_header_whose_name_is_no_text_is_unsendable(name: Any) -> None:
    async with Simulator(shape()) as sim:
        with pytest.raises(Unsendable, match=r"^a header is called .*; a header's name is text$"):
            await sim.publish(Mail(template="welcome"), headers={name: "v"})
        assert sim.ledger() == {}


async def test_what_no_broker_could_take_is_refused_before_it_is_sent() -> None:
    async with Simulator(shape()) as sim:
        with pytest.raises(MessageTooLarge):
            await sim.publish(Mail(template="welcome"), headers={"big": "x" * 140_000})
        with pytest.raises(MessageTooLarge):
            await sim.publish(Mail(template="welcome", text="x" * 17_000_000))
        with pytest.raises(Unsendable):
            await sim.publish(Mail(template="welcome"), headers={"odd": object()})
        with pytest.raises(Unsendable) as caught:
            await sim.publish(Mail(template="x" * 1_000_000))
        assert len(str(caught.value)) < 1000
        assert sim.ledger() == {}
