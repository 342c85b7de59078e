"""A topology and its payload schemas as an AsyncAPI 3.0 document, with AMQP bindings 0.3.0.

Pure. A work queue is a channel to receive from, a payload's route a channel to send to. Delay and dead-letter queues
are the kit's own and are none; what AsyncAPI has no word for stands under `x-amqpkit`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from amqpkit.declare.export.schemas import adapted
from amqpkit.model import Binding, Exchange, Queue, Route, Topology, WorkQueue

ASYNCAPI: Final = "3.0.0"
_BINDINGS: Final = {"bindingVersion": "0.3.0"}
_TYPES: Final = frozenset({"topic", "direct", "fanout", "headers"})
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VERSION_HEADER: Final = "amqpkit-version"

Schemas = Mapping[tuple[str, int], Mapping[str, Any]]
"""By payload type and version."""


def asyncapi(topology: Topology, schemas: Schemas, *, title: str, version: str) -> dict[str, Any]:
    """Give the document; a payload type without a schema is a message without a payload."""
    return _Document(topology, schemas).whole(title, version)


def without_schema(topology: Topology, schemas: Schemas) -> tuple[str, ...]:
    """Name the payload types of a topology that no schema describes."""
    known = {name for name, _ in schemas}
    return tuple(name for name in _payload_types(topology) if name not in known)


def _payload_types(topology: Topology) -> tuple[str, ...]:
    accepted = {name for queue in topology.work_queues.values() for name in queue.accepts}
    return tuple(sorted(accepted | topology.routes.keys()))


class _Ids:
    """Gives every name an identifier that AsyncAPI allows, and no two the same."""

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._by_name:
            plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
            found, number = plain, 2
            while found in self._taken:
                found, number = f"{plain}-{number}", number + 1
            self._taken.add(found)
            self._by_name[name] = found
        return self._by_name[name]


class _Document:
    def __init__(self, topology: Topology, schemas: Schemas) -> None:
        self.topology = topology
        self.queues = {each.name: each for each in topology.queues}
        self.exchanges = {each.name: each for each in topology.exchanges}
        self.ids = _Ids()
        self.schemas: dict[str, Any] = {}
        self.messages: dict[str, Any] = {}
        self.of_type: dict[str, list[str]] = {}
        for name in _payload_types(topology):
            self.of_type[name] = list(self._messages(name, schemas))
        self.arriving: dict[str, list[Binding]] = defaultdict(list)
        for binding in topology.bindings:
            if binding.destination_type == "queue":
                self.arriving[binding.destination].append(binding)
        self.channels: dict[str, Any] = {}
        self.operations: dict[str, Any] = {}

    def whole(self, title: str, version: str) -> dict[str, Any]:
        for queue in self.topology.work_queues.values():
            self._receive(queue)
        generated = {part for queue in self.topology.work_queues.values() for part in _parts(queue)}
        for plain in self.topology.queues:
            if plain.name not in generated:
                self.channels[self.ids.of(f"queue.{plain.name}")] = self._queue_channel(plain)
        for payload_type, route in self.topology.routes.items():
            self._send(payload_type, route)
        return {
            "asyncapi": ASYNCAPI,
            "info": {"title": title, "version": version},
            "defaultContentType": "application/json",
            "channels": dict(sorted(self.channels.items())),
            "operations": dict(sorted(self.operations.items())),
            "components": {
                "messages": dict(sorted(self.messages.items())),
                "schemas": dict(sorted(self.schemas.items())),
            },
        }

    def _messages(self, payload_type: str, schemas: Schemas) -> Iterator[str]:
        """Write a message for each version, the newest last; its payload is a schema of its own."""
        versions = sorted(version for name, version in schemas if name == payload_type)
        if not versions:
            message = self.ids.of(payload_type)
            self.messages[message] = {"name": payload_type, "bindings": _message_bindings(payload_type)}
            yield message
        for version in versions:
            key = self.ids.of(f"{payload_type}.v{version}")
            schema, inner = adapted(schemas[payload_type, version], key)
            self.schemas |= {key: schema, **inner}
            described = {"description": schema["description"]} if "description" in schema else {}
            self.messages[key] = {
                "name": payload_type,
                "title": f"{payload_type}, version {version}",
                **described,
                "contentType": "application/json",
                "headers": _headers(version),
                "payload": {"$ref": f"#/components/schemas/{key}"},
                "bindings": _message_bindings(payload_type),
            }
            yield key

    def _receive(self, queue: WorkQueue) -> None:
        channel = self.ids.of(f"queue.{queue.name}")
        found = [message for name in queue.accepts for message in self.of_type[name]]
        about = {
            "attempts": queue.attempts,
            "dead-letter-queue": queue.dead_queue,
            **({"owner": queue.owner} if queue.owner else {}),
        }
        self.channels[channel] = self._queue_channel(self.queues[queue.name], found, about)
        self.operations[self.ids.of(f"receive.{queue.name}")] = {
            "action": "receive",
            **_on(channel, found),
            "bindings": {"amqp": {"ack": True, **_BINDINGS}},
        }

    def _queue_channel(
        self, queue: Queue, messages: Iterable[str] = (), about: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        arriving = [{"exchange": each.source, "routing_key": each.routing_key} for each in self._public(queue.name)]
        declared = {
            "name": queue.name,
            "durable": queue.durable,
            "exclusive": queue.exclusive,
            "autoDelete": queue.auto_delete,
            **self._vhost(),
        }
        return {
            # Braces in an address are parameters, and there is no way to write them as themselves: then it is unknown.
            "address": None if set("{}") & set(queue.name) else queue.name,
            **_messages_of(messages),
            "bindings": {"amqp": {"is": "queue", "queue": declared, **_BINDINGS}},
            "x-amqpkit": {"queue-type": queue.type, "bindings": arriving, **(about or {})},
        }

    def _public(self, queue: str) -> Iterator[Binding]:
        owner = self.topology.work_queues.get(queue)
        for binding in self.arriving[queue]:
            if owner is None or binding.source != owner.retry_exchange:
                yield binding

    def _send(self, payload_type: str, route: Route) -> None:
        newest = self.of_type[payload_type][-1:]
        if not route.exchange and route.routing_key in self.queues:
            channel = self.ids.of(f"queue.{route.routing_key}")
            there = self.channels.setdefault(channel, self._queue_channel(self.queues[route.routing_key]))
            there.setdefault("messages", {}).update(_messages_of(newest)["messages"])
        else:
            channel = self.ids.of(f"exchange.{route.exchange or 'default'}.{payload_type}")
            self.channels[channel] = self._exchange_channel(route, newest)
        self.operations[self.ids.of(f"send.{payload_type}")] = {
            "action": "send",
            **_on(channel, newest),
            "bindings": {"amqp": {"deliveryMode": 2, "mandatory": True, "timestamp": True, **_BINDINGS}},
        }

    def _exchange_channel(self, route: Route, messages: list[str]) -> dict[str, Any]:
        fields = dict.fromkeys(_PLACEHOLDER.findall(route.routing_key))
        parameters = {field: {"location": f"$message.payload#/{field}"} for field in fields}
        return {
            "address": route.routing_key,
            **_messages_of(messages),
            **({"parameters": parameters} if parameters else {}),
            "bindings": {"amqp": {"is": "routingKey", "exchange": self._exchange(route.exchange), **_BINDINGS}},
        }

    def _exchange(self, name: str) -> dict[str, Any]:
        if not name:
            return {"name": "", "type": "default", **self._vhost()}
        declared = self.exchanges.get(name)
        if declared is None:  # one of RabbitMQ's own, amq.topic and the like
            return {"name": name, **self._vhost()}
        return {"name": name, **_about(declared), **self._vhost()}

    def _vhost(self) -> dict[str, str]:
        return {"vhost": self.topology.vhost} if self.topology.vhost else {}


def _about(exchange: Exchange) -> dict[str, Any]:
    # AsyncAPI knows RabbitMQ's four types, and no plugin's.
    kind = {"type": exchange.type} if exchange.type in _TYPES else {"x-type": exchange.type}
    return {**kind, "durable": exchange.durable, "autoDelete": exchange.auto_delete}


def _parts(queue: WorkQueue) -> Iterator[str]:
    yield from (queue.name, queue.dead_queue)
    yield from (delay.queue for level in (*queue.delays, *queue.snoozes) for delay in level.queues)


def _headers(version: int) -> dict[str, Any]:
    """Say which version a message is of; one that does not say is of the first."""
    required = {"required": [_VERSION_HEADER]} if version > 1 else {}
    return {"type": "object", "properties": {_VERSION_HEADER: {"type": "integer", "const": version}}, **required}


def _message_bindings(payload_type: str) -> dict[str, Any]:
    return {"amqp": {"messageType": payload_type, **_BINDINGS}}


def _messages_of(messages: Iterable[str]) -> dict[str, Any]:
    found = {message: {"$ref": f"#/components/messages/{message}"} for message in messages}
    return {"messages": found} if found else {}


def _on(channel: str, messages: Iterable[str]) -> dict[str, Any]:
    place = f"#/channels/{channel}"
    return {"channel": {"$ref": place}, "messages": [{"$ref": f"{place}/messages/{each}"} for each in messages]}
