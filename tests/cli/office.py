"""A folder of a user who publishes letters, and what is in the queue afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pika

from amqpkit.cli import main
from tests.containers.brokers import Broker

FILE = """
version: 1
exchanges:
  mail: {type: topic}
work_queues:
  letter.send:
    max-length: 1000
    bindings: [{source: mail, routing_key: "letter.#"}]
messages:
  letter.send: {exchange: mail, routing_key: "letter.{to}"}
"""
MODULE = """
from amqpkit import Payload


class Letter(Payload, type="letter.send", version=3, key="{to}"):
    to: str
    copies: int = 1
"""


def lines(folder: Path, *bodies: str, name: str = "letters.jsonl") -> str:
    (folder / name).write_text("".join(f"{body}\n" for body in bodies))
    return name


def letters(count: int) -> list[str]:
    return [json.dumps({"to": f"p{n}"}) for n in range(count)]


def taken(broker: Broker) -> list[pika.BasicProperties]:
    """Everything in the queue, taken out."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel, found = connection.channel(), []
    while (got := channel.basic_get("letter.send", auto_ack=True))[0] is not None:
        found.append(got[1])
    connection.close()
    return found


def apply(broker: Broker) -> None:
    assert main(["apply", "--url", broker.url, "--api", broker.api, "--yes"]) == 0
