"""From a checked file to RabbitMQ's objects: one small function per kind.

Pure: knows no client and no broker. Wiring goes into arguments, which nobody can shadow; tunables go
into one policy per work queue, where they change in place.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from amqpkit.declare import naming
from amqpkit.declare.arguments import on_the_wire
from amqpkit.declare.delays import retry_delays, snooze_delays
from amqpkit.declare.spec.format import BindingSpec, ExchangeSpec, QueueSpec, Spec, WorkQueueSpec
from amqpkit.model import (
    Alert,
    Binding,
    Consume,
    Delay,
    DelayQueue,
    Exchange,
    Policy,
    Queue,
    Replay,
    Route,
    Topology,
    WorkQueue,
)


def compile_topology(spec: Spec) -> Topology:
    """Compile a file into the frozen topology: every object explicit and durable, sorted by name.

    The file must be checked (`amqpkit.declare.spec.parse`); nothing is raised here.
    """
    work_queues = {name: work_queue(name, entry) for name, entry in sorted(spec.work_queues.items())}
    exchanges = chain(
        (_exchange(name, entry) for name, entry in spec.exchanges.items()),
        chain.from_iterable(_work_exchanges(queue) for queue in work_queues.values()),
    )
    queues = chain(
        (_queue(name, entry) for name, entry in spec.queues.items()),
        chain.from_iterable(_work_queues(queue) for queue in work_queues.values()),
    )
    policies = chain(
        (
            Policy(name, raw.pattern, _sorted(on_the_wire(raw.definition)), raw.apply_to, raw.priority)
            for name, raw in spec.policies.items()
        ),
        chain.from_iterable(_policies(spec.work_queues[name], queue) for name, queue in work_queues.items()),
    )
    return Topology(
        exchanges=tuple(sorted(exchanges, key=lambda exchange: exchange.name)),
        queues=tuple(sorted(queues, key=lambda queue: queue.name)),
        bindings=_unique(chain(_public_bindings(spec), *(_work_bindings(queue) for queue in work_queues.values()))),
        policies=tuple(sorted(policies, key=lambda policy: policy.name)),
        work_queues=MappingProxyType(work_queues),
        routes=MappingProxyType(_routes(spec, work_queues)),
        owns=_owns(spec),
        vhost=spec.vhost,
        retained=tuple(sorted(spec.on_remove)),
    )


def work_queue(name: str, spec: WorkQueueSpec) -> WorkQueue:
    """Say what a work queue means: names of its parts, its ladder, and how to work and watch it."""
    levels = retry_delays(name, spec.retry)
    dead = spec.dead_letter
    return WorkQueue(
        name=name,
        accepts=spec.accepts or (name,),
        retry_exchange=naming.retry_exchange(name),
        dead_exchange=naming.dead_exchange(name),
        dead_queue=naming.dead_queue(name),
        delays=levels,
        snoozes=snooze_delays(name, levels),
        consume=_consume(spec),
        delivery_limit=spec.delivery_limit,
        depth_limit=spec.limits.depth,
        max_length=spec.max_length,
        consumer_timeout=_seconds(spec.consumer_timeout),
        owner=dead.owner,
        runbook=dead.runbook,
        alert=Alert(dead.alert.messages, _seconds(dead.alert.age)),
        replay=Replay(dead.replay.rate, dead.replay.max_replays),
    )


def delay_queues(queue: WorkQueue) -> tuple[DelayQueue, ...]:
    """List every delay queue of a work queue once, shortest first."""
    levels: Iterable[Delay] = (*queue.delays, *queue.snoozes)
    by_name = {delay.queue: delay for level in levels for delay in level.queues}
    return tuple(sorted(by_name.values(), key=lambda delay: delay.milliseconds))


def _consume(spec: WorkQueueSpec) -> Consume:
    asked = spec.consume
    return Consume(asked.prefetch, asked.concurrency, _seconds(asked.timeout), asked.rate)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _exchange(name: str, spec: ExchangeSpec) -> Exchange:
    alternate = {} if spec.alternate_exchange is None else {"alternate-exchange": spec.alternate_exchange}
    arguments = _sorted({**on_the_wire(spec.arguments), **alternate})
    return Exchange(name, spec.type, spec.durable, spec.auto_delete, spec.internal, arguments)


def _queue(name: str, spec: QueueSpec) -> Queue:
    arguments = _sorted({**on_the_wire(spec.arguments), "x-queue-type": spec.type})
    return Queue(name, spec.type, spec.durable, spec.auto_delete, arguments=arguments)


def _work_exchanges(queue: WorkQueue) -> Iterator[Exchange]:
    yield Exchange(queue.retry_exchange, "direct")
    yield Exchange(queue.dead_exchange, "fanout")


def _work_queues(queue: WorkQueue) -> Iterator[Queue]:
    dead = {"x-dead-letter-exchange": queue.dead_exchange, "x-dead-letter-strategy": "at-least-once"}
    yield _quorum(queue.name, dead)
    yield _quorum(queue.dead_queue, {"x-delivery-limit": -1})
    for delay in delay_queues(queue):
        wiring = {
            "x-message-ttl": delay.milliseconds,
            "x-dead-letter-exchange": queue.retry_exchange,
            "x-dead-letter-routing-key": naming.RETURN_KEY,
            "x-dead-letter-strategy": "at-least-once",
            "x-delivery-limit": -1,
        }
        yield _quorum(delay.queue, wiring)


def _quorum(name: str, wiring: Mapping[str, Any]) -> Queue:
    # At-least-once dead-lettering works only with reject-publish, and drop-head would lose messages anyway.
    return Queue(name, arguments=_sorted({**wiring, "x-queue-type": "quorum", "x-overflow": "reject-publish"}))


def _work_bindings(queue: WorkQueue) -> Iterator[Binding]:
    yield Binding(queue.dead_exchange, queue.dead_queue)
    yield Binding(queue.retry_exchange, queue.name, naming.RETURN_KEY)
    for delay in delay_queues(queue):
        yield Binding(queue.retry_exchange, delay.queue, delay.key)


def _public_bindings(spec: Spec) -> Iterator[Binding]:
    for name, exchange in spec.exchanges.items():
        for binding in exchange.bindings:
            arguments = _sorted(binding.arguments)
            yield Binding(binding.source, name, binding.routing_key, "exchange", arguments)
    declared: Mapping[str, QueueSpec | WorkQueueSpec] = {**spec.queues, **spec.work_queues}
    for name, queue in declared.items():
        yield from (_binding(binding, name) for binding in queue.bindings)


def _binding(spec: BindingSpec, queue: str) -> Binding:
    return Binding(spec.source, queue, spec.routing_key, arguments=_sorted(spec.arguments))


def _unique(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    """Sort bindings by all that makes their identity; `repr` tells the number 1 from the text "1"."""

    def identity(binding: Binding) -> tuple[str, ...]:
        arguments = repr(dict(binding.arguments))
        return binding.source, binding.destination_type, binding.destination, binding.routing_key, arguments

    by_identity = {identity(binding): binding for binding in bindings}
    return tuple(by_identity[key] for key in sorted(by_identity))


def _policies(spec: WorkQueueSpec, queue: WorkQueue) -> Iterator[Policy]:
    tunables = {
        "max-length": spec.max_length,
        "max-length-bytes": spec.max_length_bytes,
        "delivery-limit": spec.delivery_limit,
        "consumer-timeout": spec.consumer_timeout,
        "overflow": "reject-publish",
    }
    given = {key: value for key, value in tunables.items() if value is not None}
    yield Policy(naming.policy(queue.name), naming.pattern(queue.name), _sorted(given))
    kept = {"overflow": "reject-publish", "delivery-limit": -1}
    yield Policy(naming.parts_policy(queue.name), naming.parts_pattern(queue.name), _sorted(kept))


def _routes(spec: Spec, work_queues: Mapping[str, WorkQueue]) -> dict[str, Route]:
    """Route each payload type as `messages:` says, else straight to the one work queue that accepts it."""
    accepting: dict[str, list[str]] = {}
    for queue in work_queues.values():
        for payload_type in queue.accepts:
            accepting.setdefault(payload_type, []).append(queue.name)
    routes = {payload_type: Route("", queues[0]) for payload_type, queues in accepting.items() if len(queues) == 1}
    routes.update({name: Route(message.exchange, message.routing_key) for name, message in spec.messages.items()})
    return dict(sorted(routes.items()))


def _owns(spec: Spec) -> tuple[str, ...]:
    if spec.owns is not None:
        return tuple(sorted(set(spec.owns)))
    return tuple(sorted({*spec.exchanges, *spec.queues, *spec.work_queues}))


def _sorted(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(sorted(mapping.items())))
