"""The message that is moved: the same one, as far as AMQP lets it be. Pure.

Body, properties and headers stay, those of dead letters too. What RabbitMQ counts anew goes, and so does the user id,
which it takes from nobody but that user. The exchange, which a moved message loses, is kept where amqpkit's consumers
look for it; the routing key stays what it was.
"""

from dataclasses import replace
from typing import Any, Final

from amqpkit.deliver.headers import EXCHANGE, FRAME_MAX, ROUTING_KEY, encoded_size, properties_size
from amqpkit.model import Message, Received

EXPIRATION: Final = "amqpkit-expiration"
"""Keeps a message's own TTL while it waits in the holding queue, where it must not run out."""
_COUNTED: Final = frozenset({"x-delivery-count", "x-acquired-count"})


def moved_in(received: Received) -> Message:
    """Make the message for the holding queue: it does not expire there."""
    headers = _headers(received)
    if received.properties.expiration is not None:
        headers[EXPIRATION] = received.properties.expiration
    return _fitting(received, headers, expiration=None)


def moved_back(received: Received, *, through: str) -> Message:
    """Make the message for the new queue, its own TTL starting anew; `through` is the exchange that led in."""
    headers = _headers(received) if received.exchange != through else dict(received.properties.headers)
    kept = headers.pop(EXPIRATION, None)
    expiration = kept if isinstance(kept, str) else received.properties.expiration
    return _fitting(received, headers, expiration=expiration)


def _headers(received: Received) -> dict[str, Any]:
    headers = {name: value for name, value in received.properties.headers.items() if name not in _COUNTED}
    if not (isinstance(headers.get(EXCHANGE), str) and isinstance(headers.get(ROUTING_KEY), str)):
        headers |= {EXCHANGE: received.exchange, ROUTING_KEY: received.routing_key}
    return headers


def _fitting(received: Received, headers: dict[str, Any], *, expiration: str | None) -> Message:
    """Leave out what we add when it does not fit into the frame."""
    bare = replace(received.properties, user_id=None, expiration=expiration, headers={})
    if encoded_size(headers) > FRAME_MAX - properties_size(bare):
        ours = {EXCHANGE, ROUTING_KEY} - received.properties.headers.keys()
        headers = {name: value for name, value in headers.items() if name not in ours}
    return Message(received.body, replace(bare, headers=headers))
