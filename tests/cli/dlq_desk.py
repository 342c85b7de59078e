"""`amqpkit dlq` as an operator has it: a topology that is applied, letters, and the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pika.spec import BasicProperties

from amqpkit.cli import main
from tests.broker.life.ledger import Letter, open_channel, take
from tests.unit.operate.dead_letters.letters import OURS

FILE = """\
version: 1
work_queues:
  orders:
    bindings: [{source: amq.topic, routing_key: "order.#"}]
    retry: {delays: [1h]}
    dead_letter:
      owner: team-orders
      runbook: https://runbooks.example.com/orders
      alert: {messages: 3, age: 10m}
      replay: {max_replays: 2}
  quiet: {}
"""


class Desk:
    """A topology in a vhost, and the command line pointed at it."""

    def __init__(self, broker: Any, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker, self.file, self._capsys = broker, file, capsys
        assert main(["apply", str(file), "--yes", *self._where()]) == 0
        capsys.readouterr()

    def _where(self) -> list[str]:
        return ["--url", self.broker.url, "--api", self.broker.api]

    def dlq(self, *words: str, code: int = 0, file: bool = True) -> tuple[str, str]:
        """Run a verb with the file; give what it said on stdout and stderr."""
        verb, *rest = words
        queue = rest[:1] if verb != "list" else []
        more = [*rest[len(queue) :], *self._where()]
        if verb == "import":
            more = more[:-2]
        if verb == "show":
            queue, more = rest[:2], [*rest[2:], *self._where()]
        files = [str(self.file)] if file and verb != "import" else []
        assert main(["dlq", verb, *queue, *files, *more]) == code, self._capsys.readouterr()
        out, err = self._capsys.readouterr()
        return out, err

    def told(self, *words: str, **more: Any) -> Any:
        """Run a verb; give its JSON document."""
        out, _ = self.dlq(*words, "--json", **more)
        document = json.loads(out)
        assert next(iter(document.items())) == ("format_version", "1.0")
        return document

    def bury(self, count: int = 1, *, body: bytes = b'{"password": "x", "n": 1}', **properties: Any) -> None:
        """Put letters of ours into the dead-letter queue, each a minute older than the one before."""
        now = datetime.now(UTC)
        for number in range(count):
            at = (now - timedelta(minutes=number)).isoformat()
            error = {**OURS["amqpkit-error"], "at": at, "message": f"no answer in {number} s"}
            headers = {**OURS, "amqpkit-error": error, **properties.get("headers", {})}
            name = properties.get("message_id", f"m-{number}")
            facts = {"type": "order.place", "delivery_mode": 2, **properties, "headers": headers, "message_id": name}
            self.send("orders.dlx", "orders", body, **facts)

    def send(self, exchange: str, key: str, body: bytes = b"{}", **properties: Any) -> None:
        """Publish, confirmed, by a client that is not ours."""
        channel = open_channel(self.broker.url)
        channel.basic_publish(exchange, key, body, BasicProperties(**properties), mandatory=True)
        channel.connection.close()

    def depth(self, queue: str) -> int:
        """How many letters are ready there, by the broker's own count."""
        channel = open_channel(self.broker.url)
        count: int = channel.queue_declare(queue, passive=True).method.message_count
        channel.connection.close()
        return count

    def take(self, *queues: str) -> list[Letter]:
        return take(self.broker.url, queues)

    def queue(self, name: str, **arguments: Any) -> None:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        body = {"durable": True, "arguments": named}
        self.broker.http("PUT", f"queues/{self.broker.vhost}/{name}", body)
