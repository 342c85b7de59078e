"""A compiled topology as plain data: sorted, stable, in canonical spelling.

Pure. Objects have the keys of RabbitMQ's definitions; durations, rates and names are spelled as in a file.
"""

from collections.abc import Mapping
from typing import Any

from amqpkit.declare.plan.settings import settings
from amqpkit.declare.policies import PolicyIndex
from amqpkit.model import Binding, Delay, Exchange, Policy, Queue, Route, Topology, WorkQueue
from amqpkit.units import format_duration, format_rate


def rendered(topology: Topology) -> dict[str, Any]:
    """Give the topology as dicts, lists and scalars; what is None in the model is left out."""
    return _given(
        {
            "vhost": topology.vhost,
            "owns": list(topology.owns),
            **({"on-remove": dict.fromkeys(topology.retained, "retain")} if topology.retained else {}),
            "exchanges": [_exchange(exchange) for exchange in topology.exchanges],
            "queues": [_queue(queue) for queue in topology.queues],
            "bindings": [_binding(binding) for binding in topology.bindings],
            "policies": [_policy(policy) for policy in topology.policies],
            "work_queues": {name: _work_queue(queue) for name, queue in topology.work_queues.items()},
            "messages": {name: _route(route) for name, route in topology.routes.items()},
        }
    )


def effective_settings(topology: Topology) -> dict[str, dict[str, dict[str, Any]]]:
    """Say what each queue will obey by the topology's own policies: queue, key, `value` and where it is `from`."""
    policies = PolicyIndex(topology.policies)
    return {
        queue.name: {
            key: {"value": setting.value, "from": setting.source}
            for key, setting in sorted(settings(queue, policies.ruling(queue).winner).items())
        }
        for queue in topology.queues
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": dict(exchange.arguments),
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
    }


def _binding(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": dict(policy.definition),
    }


def _work_queue(queue: WorkQueue) -> dict[str, Any]:
    return {
        "accepts": list(queue.accepts),
        "attempts": queue.attempts,
        "delays": [_delay(delay) for delay in queue.delays],
        "snoozes": [_delay(delay) for delay in queue.snoozes],
        "consume": _given(
            {
                "prefetch": queue.consume.prefetch,
                "concurrency": queue.consume.concurrency,
                "timeout": _duration(queue.consume.timeout),
                "rate": _rate(queue.consume.rate),
            }
        ),
        "limits": _given({"depth": queue.depth_limit}),
        **_given({"max-length": queue.max_length}),
        "delivery-limit": queue.delivery_limit,
        **_given({"consumer-timeout": _duration(queue.consumer_timeout)}),
        "retry_exchange": queue.retry_exchange,
        "dead_letter": _dead_letter(queue),
    }


def _dead_letter(queue: WorkQueue) -> dict[str, Any]:
    alert = _given({"messages": queue.alert.messages, "age": _duration(queue.alert.age)})
    replay = _given({"rate": _rate(queue.replay.rate), "max_replays": queue.replay.max_replays})
    names = {"exchange": queue.dead_exchange, "queue": queue.dead_queue}
    return {**names, **_given({"owner": queue.owner, "runbook": queue.runbook}), "alert": alert, "replay": replay}


def _delay(delay: Delay) -> dict[str, Any]:
    return {"delay": format_duration(delay.milliseconds), "queues": [queue.queue for queue in delay.queues]}


def _route(route: Route) -> dict[str, Any]:
    return {"exchange": route.exchange, "routing_key": route.routing_key}


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(round(seconds * 1000))


def _rate(rate: float | None) -> str | None:
    return None if rate is None else format_rate(rate)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
