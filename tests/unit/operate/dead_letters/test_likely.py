"""Queues that hold dead letters are found by what leads to them, and by their names."""

import pytest

from amqpkit.model import Binding, Policy, Queue, Topology
from amqpkit.operate.dead_letters.likely import dead_letter_queues


def queue(name: str, **arguments: object) -> Queue:
    return Queue(name, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})


@pytest.mark.parametrize(
    ("actual", "likely"),
    [
        (Topology(), ()),
        (Topology(queues=(queue("orders"), queue("shop.deadline"), queue("errorless"))), ()),
        (
            Topology(queues=tuple(map(queue, ("a.dlq", "Dead_Letters", "shop-errors", "shopFailed")))),
            ("Dead_Letters", "a.dlq", "shop-errors", "shopFailed"),
        ),
        (
            Topology(
                queues=(
                    queue("a", dead_letter_exchange="x"),
                    queue("b", dead_letter_exchange="", dead_letter_routing_key="plain"),
                    queue("c", dead_letter_exchange=""),
                    queue("d", dead_letter_exchange="", dead_letter_routing_key="gone"),
                    queue("bound"),
                    queue("plain"),
                    queue("ruled"),
                ),
                bindings=(Binding("x", "bound"), Binding("y", "c"), Binding("p", "ruled")),
                policies=(Policy("p", ".*", {"dead-letter-exchange": "p"}),),
            ),
            ("bound", "plain", "ruled"),
        ),
        (
            Topology(
                queues=(
                    queue("work", dead_letter_exchange="", dead_letter_routing_key="delay"),
                    queue("delay", message_ttl=1000, dead_letter_exchange="back"),
                ),
                bindings=(Binding("back", "work"),),
            ),
            (),
        ),
    ],
    ids=["nothing", "others", "named", "wired", "delays"],
)
def test_a_dead_letter_queue_is_known_by_its_name_or_by_what_leads_to_it(
    actual: Topology, likely: tuple[str, ...]
) -> None:
    assert dead_letter_queues(actual) == likely
