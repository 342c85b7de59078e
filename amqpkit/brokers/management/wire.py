"""Between the model and the management API's JSON. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, assert_never

from amqpkit.model import Binding, DeclaredObject, Exchange, Holding, Policy, Queue, Rights, Surroundings
from amqpkit.ports import ListedConsumer, QueueFigures

_LETTER: Final = {"queue": "q", "exchange": "e"}
DOTS: Final = frozenset({".", ".."})


def path_of(vhost: str, declared: DeclaredObject) -> tuple[str, ...]:
    """Say where an object is created; for a binding, where all bindings between its two ends are listed."""
    match declared:
        case Queue(name=name):
            return ("queues", vhost, name)
        case Exchange(name=name):
            return ("exchanges", vhost, name)
        case Policy(name=name):
            return ("policies", vhost, name)
        case Binding(source=source, destination=destination, destination_type=kind):
            return ("bindings", vhost, "e", source, _LETTER[kind], destination)
        case _:
            assert_never(declared)


def body_of(declared: DeclaredObject) -> dict[str, Any]:
    """Give what the API is sent to create an object; a queue's type is always said."""
    match declared:
        case Queue():
            # Left out, the vhost's default type would be put in, and a later change of that default makes every
            # redeclaration fail (measured).
            arguments = {"x-queue-type": declared.type, **_plain(declared.arguments)}
            return {"durable": declared.durable, "auto_delete": declared.auto_delete, "arguments": arguments}
        case Exchange():
            return {
                "type": declared.type,
                "durable": declared.durable,
                "auto_delete": declared.auto_delete,
                "internal": declared.internal,
                "arguments": _plain(declared.arguments),
            }
        case Policy():
            return {
                "pattern": declared.pattern,
                "definition": _plain(declared.definition),
                "apply-to": declared.apply_to,
                "priority": declared.priority,
            }
        case Binding():
            return {"routing_key": declared.routing_key, "arguments": _plain(declared.arguments)}
        case _:
            assert_never(declared)


def definition_of(declared: DeclaredObject) -> dict[str, list[dict[str, Any]]]:
    """Give the same object as a definitions file of its own."""
    body = body_of(declared)
    match declared:
        case Queue(name=name):
            return {"queues": [{"name": name, **body}]}
        case Exchange(name=name):
            return {"exchanges": [{"name": name, **body}]}
        case Policy(name=name):
            return {"policies": [{"name": name, **body}]}
        case Binding():
            ends = {
                "source": declared.source,
                "destination": declared.destination,
                "destination_type": declared.destination_type,
            }
            return {"bindings": [{**ends, **body}]}
        case _:
            assert_never(declared)


def names_of(declared: DeclaredObject) -> tuple[str, ...]:
    """Give the names that its address is made of."""
    if isinstance(declared, Binding):
        return (declared.source, declared.destination)
    return (declared.name,)


def is_the_brokers_own(name: str) -> bool:
    """Tell whether an exchange or queue is the default exchange or one of the `amq.` names that only RabbitMQ gives."""
    return not name or name.startswith("amq.")


def queue(item: Mapping[str, Any]) -> Queue:
    """Read a queue of a listing; its type is in `arguments` even where nobody wrote it."""
    arguments = {"x-queue-type": item.get("type", "classic"), **item["arguments"]}
    return Queue(
        name=item["name"],
        type=arguments["x-queue-type"],
        durable=item["durable"],
        auto_delete=item["auto_delete"],
        exclusive=item["exclusive"],
        arguments=MappingProxyType(arguments),
    )


def exchange(item: Mapping[str, Any]) -> Exchange:
    """Read an exchange of a listing."""
    return Exchange(
        name=item["name"],
        type=item["type"],
        durable=item["durable"],
        auto_delete=item["auto_delete"],
        internal=item["internal"],
        arguments=MappingProxyType(item["arguments"]),
    )


def binding(item: Mapping[str, Any]) -> Binding:
    """Read a binding of a listing."""
    return Binding(
        source=item["source"],
        destination=item["destination"],
        routing_key=item["routing_key"],
        destination_type=item["destination_type"],
        arguments=MappingProxyType(item["arguments"]),
    )


def policy(item: Mapping[str, Any]) -> Policy:
    """Read a policy, or an operator policy, of a listing."""
    return Policy(
        name=item["name"],
        pattern=item["pattern"],
        definition=MappingProxyType(item["definition"]),
        apply_to=item["apply-to"],
        priority=item["priority"],
    )


def figures(item: Mapping[str, Any]) -> QueueFigures:
    """Read a queue's figures of a listing with statistics; a young or an idle queue lacks some."""
    stats, head = item.get("message_stats", {}), item.get("head_message_timestamp")
    return QueueFigures(
        ready=item.get("messages_ready", 0),
        unacked=item.get("messages_unacknowledged", 0),
        acked=stats.get("ack"),
        ack_rate=_rate(stats, "ack"),
        publish_rate=_rate(stats, "publish"),
        head=datetime.fromtimestamp(head, UTC) if isinstance(head, int) else None,
        unlimited=item["delivery_limit"] == "unlimited" if "delivery_limit" in item else None,
        ready_bytes=item.get("message_bytes_ready"),
    )


def _rate(stats: Mapping[str, Any], what: str) -> float | None:
    details = stats.get(f"{what}_details", {})
    rate = details.get("avg_rate", details.get("rate"))
    return None if rate is None else float(rate)


def consumer(item: Mapping[str, Any]) -> ListedConsumer:
    """Read a consumer of a listing; its timeout is in milliseconds there."""
    timeout = item.get("consumer_timeout")
    seconds = timeout / 1000 if isinstance(timeout, int) else None
    return ListedConsumer(item["queue"]["name"], item["consumer_tag"], seconds)


def surroundings(
    operators: Iterable[Mapping[str, Any]],
    limits: Iterable[Mapping[str, Any]],
    vhost: Mapping[str, Any],
    features: Iterable[Mapping[str, Any]],
    user: Mapping[str, Any],
) -> Surroundings:
    """Read what stands around declarations; 4.0 does not say which deprecated features it denies."""
    limited = {key: value for item in limits for key, value in item["value"].items()}
    tags = user.get("tags")
    default = vhost.get("default_queue_type")
    return Surroundings(
        operator_policies=tuple(policy(item) for item in operators),
        max_queues=limited.get("max-queues"),
        default_queue_type=default if default in {"classic", "quorum", "stream"} else "classic",
        denied=frozenset(item["name"] for item in features if item.get("state") == "denied"),
        user=user.get("name", ""),
        tags=None if tags is None else frozenset(tags.split(",") if isinstance(tags, str) else tags),
    )


def exchange_types(overview: Mapping[str, Any]) -> frozenset[str]:
    """Read which types of exchange the broker has."""
    return frozenset(item["name"] for item in overview.get("exchange_types", ()))


def rights(item: Mapping[str, Any]) -> Rights:
    """Read a user's permissions in a vhost."""
    return Rights(item["configure"], item["write"], item["read"])


def holding(item: Mapping[str, Any]) -> Holding:
    """Read a queue's counts; a new queue has none yet."""
    return Holding(item.get("messages") or 0, item.get("consumers") or 0)


def _plain(value: Any) -> Any:
    """Turn read-only mappings and tuples into what JSON has."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
