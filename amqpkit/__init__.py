"""Topology, consumers and publishers for RabbitMQ; importing this loads no client library.

Names are looked up on first use, so that a tool which only wants `Payload` pays neither for a
broker client nor for a YAML parser.
"""

import importlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqpkit.brokers.connect import connect
    from amqpkit.brokers.connect_blocking import connect_blocking
    from amqpkit.brokers.credentials import broker_url
    from amqpkit.declare.load import load_topology
    from amqpkit.deliver.blocking import BlockingPublisher
    from amqpkit.deliver.consumer import Consumer
    from amqpkit.deliver.context import Context
    from amqpkit.deliver.listener import JobListener
    from amqpkit.deliver.payload import Payload
    from amqpkit.deliver.publisher import Publisher
    from amqpkit.deliver.worker import Worker
    from amqpkit.errors import (
        AmqpkitError,
        BrokerBlocked,
        ConsumerError,
        MessageTooLarge,
        Nacked,
        Overloaded,
        PublishError,
        PublishTimeout,
        PublishUncertain,
        TopologyError,
        Unroutable,
    )
    from amqpkit.model import Cancelled, DeadLetter, Discard, RetryAfter, Topology

__version__ = "0.1.0"

# what a library logs is the application's to show: silent until it configures logging
logging.getLogger("amqpkit").addHandler(logging.NullHandler())

_HOMES = {
    "AmqpkitError": "amqpkit.errors",
    "BlockingPublisher": "amqpkit.deliver.blocking",
    "BrokerBlocked": "amqpkit.errors",
    "Cancelled": "amqpkit.model",
    "Consumer": "amqpkit.deliver.consumer",
    "ConsumerError": "amqpkit.errors",
    "Context": "amqpkit.deliver.context",
    "DeadLetter": "amqpkit.model",
    "Discard": "amqpkit.model",
    "JobListener": "amqpkit.deliver.listener",
    "MessageTooLarge": "amqpkit.errors",
    "Nacked": "amqpkit.errors",
    "Overloaded": "amqpkit.errors",
    "Payload": "amqpkit.deliver.payload",
    "PublishError": "amqpkit.errors",
    "PublishTimeout": "amqpkit.errors",
    "PublishUncertain": "amqpkit.errors",
    "Publisher": "amqpkit.deliver.publisher",
    "RetryAfter": "amqpkit.model",
    "Topology": "amqpkit.model",
    "TopologyError": "amqpkit.errors",
    "Unroutable": "amqpkit.errors",
    "Worker": "amqpkit.deliver.worker",
    "broker_url": "amqpkit.brokers.credentials",
    "connect": "amqpkit.brokers.connect",
    "connect_blocking": "amqpkit.brokers.connect_blocking",
    "load_topology": "amqpkit.declare.load",
}

__all__ = [
    "AmqpkitError",
    "BlockingPublisher",
    "BrokerBlocked",
    "Cancelled",
    "Consumer",
    "ConsumerError",
    "Context",
    "DeadLetter",
    "Discard",
    "JobListener",
    "MessageTooLarge",
    "Nacked",
    "Overloaded",
    "Payload",
    "PublishError",
    "PublishTimeout",
    "PublishUncertain",
    "Publisher",
    "RetryAfter",
    "Topology",
    "TopologyError",
    "Unroutable",
    "Worker",
    "broker_url",
    "connect",
    "connect_blocking",
    "load_topology",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'amqpkit' has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value
