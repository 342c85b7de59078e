"""What must hold between the keys of a file: each check yields where it fails and what to do.

Pure. The shape of single values is in `format`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, pairwise
from typing import Final

from amqpkit.declare import arguments as raw_arguments
from amqpkit.declare import naming
from amqpkit.declare.delays import LONGEST, ladder, retry_delays, snooze_delays
from amqpkit.declare.spec.format import BindingSpec, QueueSpec, RetrySpec, Spec, WorkQueueSpec
from amqpkit.declare.spec.tree import Path
from amqpkit.units import format_duration

NAME_BYTES: Final = 255
LONGEST_MILLISECONDS: Final = 2**32 - 1
"""The broker refuses a longer TTL."""
_EXCHANGE_TYPES: Final = ("direct", "topic", "fanout", "headers")
_PLACEHOLDERS: Final = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}")
_PART: Final = re.compile(r"(?=\.retry\..|\.dlq$)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that failed at `loc`; at the key itself with `key`, else at its value."""

    loc: Path
    message: str
    key: bool = False


def check(spec: Spec) -> Iterator[Finding]:
    """Run every check over a well-formed file."""
    yield from _names(spec)
    yield from _generated(spec)
    yield from _exchanges(spec)
    yield from _queues(spec)
    yield from _bindings(spec)
    yield from _messages(spec)
    yield from _policies(spec)
    for name, queue in spec.work_queues.items():
        loc: Path = ("work_queues", name)
        yield from _accepts(loc, queue)
        yield from _limits(loc, queue)
        yield from _times(loc, queue)
        if isinstance(queue.retry, RetrySpec):
            yield from _retry((*loc, "retry"), queue.retry)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is nearest, or nothing."""
    close = get_close_matches(name, list(known), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _names(spec: Spec) -> Iterator[Finding]:
    for section in ("exchanges", "queues", "work_queues"):
        for name in getattr(spec, section):
            if message := _name_fault(name):
                yield Finding((section, name), message, key=True)
    for section in ("messages", "policies"):
        if "" in getattr(spec, section):
            yield Finding((section, ""), "a name must not be empty", key=True)
    for name in spec.work_queues.keys() & spec.queues.keys():
        yield Finding(("work_queues", name), f'"{name}" is already a plain queue; drop it from `queues`', key=True)


def _name_fault(name: str) -> str | None:
    size = len(name.encode())
    if not name:
        return "a name must not be empty"
    if size > NAME_BYTES:
        return f'"{name}" has {size} bytes; RabbitMQ takes {NAME_BYTES}'
    if name.startswith("amq."):
        return f'"{name}": names that start with "amq." belong to RabbitMQ; choose another'
    if _CONTROL.search(name):
        return f"{name!r}: a name must not hold control characters"
    return None


def _generated(spec: Spec) -> Iterator[Finding]:
    policies = dict.fromkeys(spec.policies, "is declared under `policies`")
    exchanges = dict.fromkeys(spec.exchanges, "is declared under `exchanges`")
    for name, queue in spec.work_queues.items():
        yield from _too_long(name, queue)
        for kind, taken, wanted in (
            ("exchange", exchanges, (naming.retry_exchange(name), naming.dead_exchange(name))),
            ("policy", policies, (naming.policy(name), naming.parts_policy(name))),
        ):
            for part in wanted:
                if part in taken:
                    message = f'work queue "{name}" generates the {kind} "{part}", which {taken[part]}; rename one'
                    yield Finding(("work_queues", name), message, key=True)
                taken[part] = f'work queue "{name}" generates too'
    yield from _reserved(spec)


def _too_long(name: str, queue: WorkQueueSpec) -> Iterator[Finding]:
    levels = retry_delays(name, queue.retry)
    delays = (delay.queue for level in (*levels, *snooze_delays(name, levels)) for delay in level.queues)
    longest = max((naming.dead_queue(name), *delays), key=lambda part: len(part.encode()))
    size = len(longest.encode())
    if len(name.encode()) <= NAME_BYTES < size:
        message = f'the queue "{longest}" that it needs would have {size} bytes; RabbitMQ takes {NAME_BYTES}'
        yield Finding(("work_queues", name), message, key=True)


def _reserved(spec: Spec) -> Iterator[Finding]:
    """Keep `X.retry.…` and `X.dlq` to work queue X: the policy for its parts would rule a stranger there."""
    every = {**dict.fromkeys(spec.queues, "queues"), **dict.fromkeys(spec.work_queues, "work_queues")}
    for name, section in every.items():
        for owner in sorted(_owners(name, spec.work_queues)):
            message = f'"{name}" is a name for the delay and dead-letter queues of work queue "{owner}"; rename it'
            yield Finding((section, name), message, key=True)


def _owners(name: str, work_queues: Mapping[str, WorkQueueSpec]) -> set[str]:
    """Name the work queues for whose part this queue, or a part of its own, would be taken."""
    parts = (name, naming.dead_queue(name), naming.delay_queue(name, "1s")) if name in work_queues else (name,)
    owners = {part[: match.start()] for part in parts for match in _PART.finditer(part)}
    return (owners & work_queues.keys()) - {name}


def _exchanges(spec: Spec) -> Iterator[Finding]:
    for name, exchange in spec.exchanges.items():
        loc: Path = ("exchanges", name)
        if exchange.type not in _EXCHANGE_TYPES and not exchange.type.startswith("x-"):
            known = f"write one of {', '.join(_EXCHANGE_TYPES)} or a plugin's x-type"
            advice = nearest(exchange.type, _EXCHANGE_TYPES) or f"; {known}"
            yield Finding((*loc, "type"), f'"{exchange.type}" is not an exchange type{advice}')
        if exchange.alternate_exchange is not None and "alternate-exchange" in exchange.arguments:
            yield Finding((*loc, "arguments", "alternate-exchange"), "alternate-exchange is given twice; keep the key")
        yield from _arguments(loc, exchange.arguments)


def _queues(spec: Spec) -> Iterator[Finding]:
    for name, queue in spec.queues.items():
        loc: Path = ("queues", name)
        yield from _queue_type(loc, queue)
        yield from _arguments(loc, queue.arguments)


def _queue_type(loc: Path, queue: QueueSpec) -> Iterator[Finding]:
    if queue.type != "classic" and not queue.durable:
        yield Finding((*loc, "durable"), f"a {queue.type} queue is always durable; drop the key or make it classic")
    if queue.type != "classic" and queue.auto_delete:
        yield Finding((*loc, "auto_delete"), f"a {queue.type} queue cannot be auto_delete; drop the key")
    if queue.arguments.get("x-queue-type", queue.type) != queue.type:
        message = f"the queue's type is {queue.type}; write `type: {queue.arguments['x-queue-type']}` instead"
        yield Finding((*loc, "arguments", "x-queue-type"), message)


def _arguments(loc: Path, arguments: Mapping[str, object]) -> Iterator[Finding]:
    for key, message in raw_arguments.faults(arguments):
        yield Finding((*loc, "arguments", key), message)


def _policies(spec: Spec) -> Iterator[Finding]:
    for name, policy in spec.policies.items():
        loc: Path = ("policies", name, "definition")
        for key in policy.definition:
            if key.startswith("x-"):
                right = key.removeprefix("x-")
                yield Finding((*loc, key), f'policy keys have no "x-"; write "{right}"', key=True)
        for key, message in raw_arguments.faults(policy.definition):
            yield Finding((*loc, key), message)


def _known_exchanges(spec: Spec) -> set[str]:
    parts = ((naming.retry_exchange(name), naming.dead_exchange(name)) for name in spec.work_queues)
    return {*spec.exchanges, *chain.from_iterable(parts)}


def _undeclared(exchange: str, known: set[str]) -> str | None:
    if exchange in known or exchange.startswith("amq."):
        return None
    advice = nearest(exchange, known) or "; declare it under `exchanges`"
    return f'exchange "{exchange}" is not declared{advice}'


def _bindings(spec: Spec) -> Iterator[Finding]:
    known = _known_exchanges(spec)
    for section in ("exchanges", "queues", "work_queues"):
        for name, entry in getattr(spec, section).items():
            for position, binding in enumerate(entry.bindings):
                yield from _binding((section, name, "bindings", position), binding, known)


def _binding(loc: Path, binding: BindingSpec, known: set[str]) -> Iterator[Finding]:
    if message := _undeclared(binding.source, known):
        yield Finding((*loc, "source"), message)
    if message := _long_key(binding.routing_key):
        yield Finding((*loc, "routing_key"), message)


def _long_key(routing_key: str) -> str | None:
    size = len(routing_key.encode())
    return f"the routing key has {size} bytes; RabbitMQ takes {NAME_BYTES}" if size > NAME_BYTES else None


def _messages(spec: Spec) -> Iterator[Finding]:
    known = _known_exchanges(spec)
    for payload_type, message in spec.messages.items():
        loc: Path = ("messages", payload_type)
        if message.exchange and (fault := _undeclared(message.exchange, known)):
            yield Finding((*loc, "exchange"), fault)
        if fault := _long_key(message.routing_key):
            yield Finding((*loc, "routing_key"), fault)
        if re.search(r"[{}]", _PLACEHOLDERS.sub("", message.routing_key)):
            fault = f'"{message.routing_key}": a placeholder is one field of the payload in braces, as {{template_id}}'
            yield Finding((*loc, "routing_key"), fault)


def _accepts(loc: Path, queue: WorkQueueSpec) -> Iterator[Finding]:
    accepts = queue.accepts or ()
    for position, payload_type in enumerate(accepts):
        if payload_type in accepts[:position]:
            yield Finding((*loc, "accepts", position), f'"{payload_type}" is listed twice')


def _limits(loc: Path, queue: WorkQueueSpec) -> Iterator[Finding]:
    depth, length = queue.limits.depth, queue.max_length
    if depth is not None and length is not None and length < 2 * depth:
        message = f"max-length {length} must be at least twice limits.depth; write {2 * depth} or lower the depth"
        yield Finding((*loc, "max-length"), message)
    asked = queue.consume
    if asked.prefetch is not None and asked.concurrency is not None and asked.concurrency > asked.prefetch:
        message = f"concurrency {asked.concurrency} is never reached with prefetch {asked.prefetch}; raise prefetch"
        yield Finding((*loc, "consume", "concurrency"), message)


def _times(loc: Path, queue: WorkQueueSpec) -> Iterator[Finding]:
    timeout, visible = queue.consume.timeout, queue.consumer_timeout
    if timeout is not None and visible is not None and timeout >= visible:
        spoken = format_duration(visible)
        message = f"timeout must be below consumer-timeout ({spoken}): the broker would redeliver a running message"
        yield Finding((*loc, "consume", "timeout"), message)


def _retry(loc: Path, retry: RetrySpec) -> Iterator[Finding]:
    computed = [key for key in ("attempts", "first", "factor", "max") if getattr(retry, key) is not None]
    if retry.delays is not None:
        for key in computed:
            yield Finding((*loc, key), f"write either delays or {key}, not both", key=True)
        for position, (before, delay) in enumerate(pairwise(retry.delays), start=1):
            if delay < before:
                message = f"delays must not descend: {format_duration(delay)} after {format_duration(before)}"
                yield Finding((*loc, "delays", position), message)
    elif computed and retry.attempts is None:
        yield Finding((*loc, computed[0]), f"{computed[0]} needs attempts; write `attempts: 4`", key=True)
    else:
        yield from _first_and_max(loc, retry)
    for position, delay in enumerate(ladder(retry)):
        if delay > LONGEST_MILLISECONDS:
            where = (*loc, "delays", position) if retry.delays is not None else loc
            yield Finding(where, f"{format_duration(delay)} is longer than the broker's longest TTL (49 days)")
            return


def _first_and_max(loc: Path, retry: RetrySpec) -> Iterator[Finding]:
    if retry.first is None or retry.first <= (retry.max or LONGEST):
        return
    first = format_duration(retry.first)
    if retry.max is None:
        longest = format_duration(LONGEST)
        yield Finding((*loc, "first"), f"first {first} is above the longest delay, {longest}; raise max")
    else:
        yield Finding((*loc, "max"), f"max {format_duration(retry.max)} is below first {first}")
