"""What is declared against what is there: what to create, what to overwrite, what RabbitMQ would refuse to change.

Pure: knows no broker; two topologies in, steps and conflicts out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.brokers.declared import address, canonical, identity, way_out
from amqpkit.errors import Refused
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology

_AGE: Final = re.compile(r"(\d+)([YMDhms])")
_SECONDS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: create `wanted`, or overwrite the policy that it `replaces`."""

    wanted: DeclaredObject
    replaces: Policy | None = None

    @property
    def symbol(self) -> str:
        """`+` creates, `~` changes in place."""
        return "+" if self.replaces is None else "~"

    @property
    def address(self) -> str:
        """The object's name in messages and reports."""
        return address(self.wanted)

    @property
    def changes(self) -> tuple[tuple[str, str, str], ...]:
        """What changes in place: each property, its value there and its value here."""
        if self.replaces is None or not isinstance(self.wanted, Policy):
            return ()
        before, after = _policy(self.replaces), _policy(self.wanted)
        return tuple(
            (name, *_spelled_apart(before.get(name, _ABSENT), after.get(name, _ABSENT)))
            for name in dict.fromkeys((*before, *after))
            if canonical(before.get(name, _ABSENT)) != canonical(after.get(name, _ABSENT))
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Steps in stages, each of which needs the one before it; what cannot be; how many objects are right already."""

    stages: tuple[tuple[Step, ...], ...]
    conflicts: tuple[Refused, ...]
    unchanged: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return tuple(step for stage in self.stages for step in stage)


def compare(stages: Iterable[Iterable[DeclaredObject]], actual: Topology) -> Comparison:
    """Compare what is wanted, in the order in which it must be made, with what is there.

    What exists and is in no stage is nobody's business here. A queue or exchange that differs is a conflict for each
    property that does, since RabbitMQ changes none of them in place; a policy that differs is overwritten.
    """
    there = {identity(each): each for each in all_of(actual)}
    planned: list[tuple[Step, ...]] = []
    conflicts: list[Refused] = []
    wanted_count = 0
    for stage in stages:
        steps: list[Step] = []
        for wanted in stage:
            wanted_count += 1
            found = there.get(identity(wanted))
            if found is None:
                steps.append(Step(wanted))
            elif isinstance(found, Policy):
                change = Step(wanted, replaces=found)
                steps += [change] if change.changes else []
            else:
                conflicts += _conflicts(wanted, found)
        planned.append(tuple(steps))
    at_odds = {conflict.object for conflict in conflicts}
    unchanged = wanted_count - sum(map(len, planned)) - len(at_odds)
    return Comparison(tuple(stage for stage in planned if stage), tuple(conflicts), unchanged)


def all_of(topology: Topology) -> tuple[DeclaredObject, ...]:
    """Give every declared object of a topology."""
    return (*topology.exchanges, *topology.queues, *topology.policies, *topology.bindings)


def _policy(policy: Policy) -> dict[str, Any]:
    # The definition's keys cannot collide with the other three: RabbitMQ knows none of these names as a setting.
    about = {"pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority}
    return {**about, **policy.definition}


def _conflicts(wanted: DeclaredObject, found: DeclaredObject) -> list[Refused]:
    """Name every property in which a queue or an exchange differs from the one that is there."""
    wishes, facts = _properties(wanted), _properties(found)
    refusals = []
    for name in dict.fromkeys((*wishes, *facts)):
        wish, fact = wishes.get(name, _ABSENT), facts.get(name, _ABSENT)
        if _value(name, wish) != _value(name, fact):
            ours, theirs = _spelled_apart(wish, fact)
            refusals.append(
                Refused(
                    object=address(wanted),
                    reason=f"{name} differs",
                    argument=name,
                    wanted=ours,
                    actual=theirs,
                    remedy=way_out(wanted),
                )
            )
    return refusals


def _properties(declared: DeclaredObject) -> Mapping[str, Any]:
    """Give all that is fixed when an object is created, RabbitMQ's defaults filled in."""
    match declared:
        case Queue():
            return {
                "x-queue-type": declared.type,
                "durable": declared.durable,
                "auto_delete": declared.auto_delete,
                "exclusive": declared.exclusive,
                **declared.arguments,
            }
        case Exchange():
            return {
                "type": declared.type,
                "durable": declared.durable,
                "auto_delete": declared.auto_delete,
                "internal": declared.internal,
                **declared.arguments,
            }
        case Binding() | Policy():
            return {}


def _value(name: str, value: Any) -> object:
    """Bring a property to the form in which it is compared."""
    if name == "x-max-age" and isinstance(value, str) and (age := _AGE.fullmatch(value)):
        # 4.3 calls 1h and 60m the same, 4.0 does not (measured); either way nothing needs to change.
        return int(age[1]) * _SECONDS[age[2]]
    return canonical(value)


def _spelled_apart(one: Any, other: Any) -> tuple[str, str]:
    """Spell two different values differently: 1 and "1" would look alike without the quotes."""
    if _spelled(one) != _spelled(other):
        return _spelled(one), _spelled(other)
    return json.dumps(one, default=str), json.dumps(other, default=str)


def _spelled(value: Any) -> str:
    if value is _ABSENT:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, default=str)
