"""Which queues are the work queues of a topology file: those that would compile to exactly what is there.

Pure. A candidate's few lines are guessed from its names and its policy, compiled, and compared; what differs in
anything stays raw.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from amqpkit.declare import naming
from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.delays import DEFAULT_DELAYS
from amqpkit.declare.identity import address, identity
from amqpkit.declare.plan.differences import Difference, differences
from amqpkit.declare.plan.extras import all_of
from amqpkit.declare.spec.format import Spec
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology
from amqpkit.units import format_duration

_RETRY: Final = ".retry."
_TUNABLES: Final = ("max-length", "max-length-bytes", "delivery-limit", "consumer-timeout")
_DEFAULT_LIMIT: Final = 20
_SPREAD: Final = 3
"""How many queues a delay with jitter has."""

Identity = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class WorkQueueEntry:
    """A work queue's lines, and everything that they stand for."""

    name: str
    entry: Mapping[str, Any]
    parts: frozenset[Identity]
    guessed_none: bool = False
    """Whether one delay queue of 30 s may also have been written as a delay."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """What looks like a work queue, and what it is not one for."""

    name: str
    reason: str


def recognise(topology: Topology) -> tuple[tuple[WorkQueueEntry, ...], tuple[Stranger, ...]]:
    """Find the work queues, and what only looks like one."""
    there = _There(topology)
    judged = [_judged(name, there) for name in sorted(there.candidates())]
    return (
        tuple(each for each in judged if isinstance(each, WorkQueueEntry)),
        tuple(each for each in judged if isinstance(each, Stranger)),
    )


class _There:
    """What is declared, by all that recognition asks for."""

    def __init__(self, topology: Topology) -> None:
        self.queues = {each.name: each for each in topology.queues}
        self.exchanges = {each.name: each for each in topology.exchanges}
        self.policies = {each.name: each for each in topology.policies}
        self.by_identity = {identity(each): each for each in all_of(topology)}
        self.arriving: dict[tuple[str, str], list[Binding]] = defaultdict(list)
        for binding in topology.bindings:
            self.arriving[binding.destination_type, binding.destination].append(binding)
        self.delays: dict[str, list[Queue]] = defaultdict(list)
        for queue in topology.queues:
            at = queue.name.find(_RETRY)
            while at >= 0:
                self.delays[queue.name[:at]].append(queue)
                at = queue.name.find(_RETRY, at + 1)

    def candidates(self) -> Iterator[str]:
        """Name the queues whose policy, or whose exchanges and dead-letter queue, bear our names."""
        for name in self.queues:
            parts = naming.dead_exchange(name) in self.exchanges and naming.retry_exchange(name) in self.exchanges
            if naming.policy(name) in self.policies or (parts and naming.dead_queue(name) in self.queues):
                yield name


def _judged(name: str, there: _There) -> WorkQueueEntry | Stranger:
    reason = ""
    for retry in _ladders(there.delays[name]):
        entry = _entry(name, retry, there)
        try:
            spec = Spec.model_validate({"version": 1, "work_queues": {name: entry}})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            reason = reason or f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
            continue
        compiled = all_of(compile_topology(spec))
        unlike = next(_unlike(compiled, name, there), "")
        if not unlike:
            return WorkQueueEntry(name, entry, frozenset(map(identity, compiled)), retry == "none")
        reason = reason or unlike
    return Stranger(name, reason)


def _ladders(delays: Iterable[Queue]) -> Iterator[Mapping[str, Any] | str]:
    """Guess what `retry` may have said, the likeliest first; an empty mapping is the default."""
    lengths = sorted({each.arguments.get("x-message-ttl") for each in delays} - {None}, key=str)
    whole = sorted(each for each in lengths if isinstance(each, int) and not isinstance(each, bool) and each > 0)
    if tuple(whole) == DEFAULT_DELAYS:
        yield {}
    elif whole in ([], [naming.SNOOZE_MILLISECONDS]):
        yield "none"
    else:
        yield from _jittered(whole)
        yield {"delays": [format_duration(each) for each in whole]}


def _jittered(lengths: list[int]) -> Iterator[Mapping[str, Any]]:
    """Guess levels whose three queues are at 100, 100 - jitter / 2 and 100 - jitter percent."""
    if len(lengths) % _SPREAD:
        return
    shortest = lengths[0]
    for longer in lengths[1:]:
        jitter = round(100 - 100 * shortest / longer, 2)
        levels = _levels(set(lengths), jitter)
        if levels:
            spelled = f"{jitter:g}%"
            default = tuple(levels) == DEFAULT_DELAYS
            yield {**({} if default else {"delays": [format_duration(each) for each in levels]}), "jitter": spelled}


def _levels(lengths: set[int], jitter: float) -> list[int]:
    """Take the levels apart from the longest on; empty when something is left over."""
    found: list[int] = []
    while lengths:
        longest = max(lengths)
        spread = {longest, *(_near(longest * (1 - jitter * part / 100), lengths) for part in (1.0, 0.5))}
        if None in spread or len(spread) < _SPREAD:
            return []
        lengths = lengths - spread
        found.append(longest)
    return sorted(found)


def _near(length: float, lengths: set[int]) -> int | None:
    """Find the length that was rounded from this one; compiling says for certain."""
    return next((each for each in (int(length), round(length), int(length) + 1) if each in lengths), None)


def _entry(name: str, retry: Mapping[str, Any] | str, there: _There) -> dict[str, Any]:
    policy = there.policies.get(naming.policy(name))
    given = policy.definition if policy else {}
    tunables = {key: given[key] for key in _TUNABLES if key in given}
    if tunables.get("delivery-limit") == _DEFAULT_LIMIT:
        del tunables["delivery-limit"]
    own = (naming.retry_exchange(name), naming.RETURN_KEY)
    public = [each for each in there.arriving["queue", name] if (each.source, each.routing_key) != own]
    return {
        **({"bindings": [binding_entry(each) for each in public]} if public else {}),
        **tunables,
        **({"retry": retry} if retry else {}),
    }


def binding_entry(binding: Binding) -> dict[str, Any]:
    """Write a binding as it stands at its destination."""
    return {
        "source": binding.source,
        **({"routing_key": binding.routing_key} if binding.routing_key else {}),
        **({"arguments": dict(binding.arguments)} if binding.arguments else {}),
    }


def _unlike(compiled: Iterable[DeclaredObject], name: str, there: _There) -> Iterator[str]:
    """Say in what the work queue would not be what is there."""
    wanted = {identity(each) for each in compiled}
    for each in compiled:
        found = there.by_identity.get(identity(each))
        if found is None:
            yield f"there is no {address(each)}"
        elif differing := differences(each, found):
            yield f"{address(each)} {_differing(differing[0])}"
        if not isinstance(each, Binding | Policy):
            kind = "exchange" if isinstance(each, Exchange) else "queue"
            for binding in there.arriving[kind, each.name]:
                if identity(binding) not in wanted:
                    yield f"it has one more {address(binding)}"
    for queue in there.delays[name]:
        if identity(queue) not in wanted:
            yield f"{address(queue)} is not one of its delay queues"


def _differing(difference: Difference) -> str:
    """Say how what is there (after) differs from a work queue's (before)."""
    match difference:
        case Difference(name, "not set", there):
            return f"has {name} {there}, which a work queue's does not have"
        case Difference(name, ours, "not set"):
            return f"has no {name}, a work queue's has {ours}"
        case Difference(name, ours, there):
            return f"has {name} {there}, a work queue's has {ours}"
