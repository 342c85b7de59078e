"""Where every message is: what the queues hold, read by a client that is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as it was found in a queue."""

    queue: str
    exchange: str
    routing_key: str
    redelivered: bool
    properties: Any
    body: bytes

    @property
    def message_id(self) -> str | None:
        """The message's id."""
        identity: str | None = self.properties.message_id
        return identity

    @property
    def headers(self) -> dict[str, Any]:
        """All headers; empty when there are none."""
        return self.properties.headers or {}

    @property
    def fate(self) -> str | None:
        """Why the kit has buried it."""
        fate: str | None = self.headers.get("amqpkit-fate")
        return fate

    @property
    def delays(self) -> list[str | None]:
        """The delay queues that it went through, as its history names them; None for the last failure."""
        return [line["delay"] for line in self.headers.get("amqpkit-history", ())]


def open_channel(url: str) -> BlockingChannel:
    """Connect for a moment; close `channel.connection` in the end."""
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.confirm_delivery()
    return channel


def take(url: str, queues: Iterable[str]) -> list[Letter]:
    """Take every message out of the queues: each is read once, and none is left."""
    channel = open_channel(url)
    try:
        return [letter for queue in queues for letter in _drain(channel, queue)]
    finally:
        channel.connection.close()


def _drain(channel: BlockingChannel, queue: str) -> list[Letter]:
    letters: list[Letter] = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return letters
        letters.append(
            Letter(
                queue, str(method.exchange), str(method.routing_key), bool(method.redelivered), properties, body or b""
            )
        )


def send(url: str, queue: str, messages: Iterable[tuple[bytes, BasicProperties | None]]) -> None:
    """Publish to a queue as a stranger does: confirmed, with the properties as they are."""
    channel = open_channel(url)
    try:
        for body, properties in messages:
            channel.basic_publish("", queue, body, properties, mandatory=True)
    finally:
        channel.connection.close()
