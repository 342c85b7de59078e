"""What a message is after it has been moved in and back."""

from dataclasses import dataclass, field, replace

import pytest

from amqpkit.brokers.memory.wire import carried
from amqpkit.model import Properties
from amqpkit.operate.migrate.copy import moved_back, moved_in


@dataclass
class Taken:
    exchange: str = "shop"
    routing_key: str = "order.new"
    properties: Properties = field(default_factory=Properties)
    body: bytes = b"\x00\xff"
    queue: str = "q"
    redelivered: bool = False


def there_and_back(taken):
    inside = moved_in(taken)
    held = Taken("q.migrating", taken.routing_key, inside.properties, inside.body)
    return inside, moved_back(held, through="q.migrating")


FULL = Properties(
    content_type="text/plain", content_encoding="gzip", delivery_mode=1, priority=7, correlation_id="c", reply_to="r",
    message_id="m", type="t", app_id="a", headers={"x-death": [{"count": 3}], "CC": ["b"], "n": 1.5},
)  # fmt: skip


def test_all_stays_but_the_exchange_is_kept_in_a_header():
    _, message = there_and_back(Taken(properties=FULL))

    ours = {"amqpkit-exchange": "shop", "amqpkit-routing-key": "order.new"}
    assert message.body == b"\x00\xff"
    assert message.properties == replace(FULL, headers={**FULL.headers, **ours})


def test_an_origin_that_is_known_already_stays():
    mine = {"amqpkit-exchange": "first", "amqpkit-routing-key": "key"}
    _, message = there_and_back(Taken("work.retry", "return", Properties(headers=mine)))
    assert message.properties.headers == mine


def test_nothing_expires_in_the_holding_queue_and_the_time_starts_anew_after_it():
    inside, message = there_and_back(Taken(properties=Properties(expiration="500")))

    assert inside.properties.expiration is None
    assert message.properties.expiration == "500"
    assert "amqpkit-expiration" not in message.properties.headers


def test_a_message_that_came_into_the_holding_queue_by_itself_is_as_it_was():
    message = moved_back(Taken(properties=Properties(expiration="500")), through="q.migrating")
    assert message.properties.expiration == "500"
    assert message.properties.headers["amqpkit-exchange"] == "shop"


def test_what_the_broker_would_refuse_or_count_anew_goes():
    properties = Properties(user_id="ann", headers={"x-delivery-count": 4, "x-acquired-count": 5, "x-death": []})
    _, message = there_and_back(Taken(properties=properties))
    assert message.properties.user_id is None
    assert set(message.properties.headers) == {"x-death", "amqpkit-exchange", "amqpkit-routing-key"}


@pytest.mark.parametrize("size", [130_900, 130_990, 131_010])
def test_headers_that_fill_the_frame_are_moved_without_ours(size):
    taken = Taken(properties=Properties(headers={"h": "x" * size}))
    for message in there_and_back(taken):
        carried(message, "e", "k")
        assert message.properties.headers["h"] == "x" * size
