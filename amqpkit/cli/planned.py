"""How a plan reads to people, and what every command that plans is told."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.declare.identity import address
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import POLICYMAKER, Change, Replace, UpdateLossy
from amqpkit.declare.plan.document import summary_line
from amqpkit.declare.plan.planning import Plan, Wishes
from amqpkit.declare.plan.promises import Promise

_SHOWN: Final = 10
_NEEDED: Final = 3


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What may be asked of a plan.

    Parameters
    ----------
    prune
        Also delete what is within `owns` (without that key: the names in the files) and in no file, unless it is in use
        or holds messages.
    accept_policy
        Let this policy or operator policy of somebody else rule over our queues; may be given several times.
    """

    prune: Annotated[bool, Parameter(negative=())] = False
    accept_policy: Annotated[list[str] | None, Parameter(negative=(), show_default=False)] = None

    @property
    def wishes(self) -> Wishes:
        """What a plan takes."""
        return Wishes(self.prune, frozenset(self.accept_policy or ()))


def lines(plan: Plan, promises: Collection[Promise] = (), *, indent: str = "  ") -> Iterator[str]:
    """Write a plan down: its changes, what stands in the way, what it leaves, what it promises, and a summary."""
    for change in plan.changes:
        yield from (f"{indent}{line}" for line in _change(change))
    for obstacle in plan.obstacles:
        yield f"{indent}blocked: {obstacle}"
    for kept in plan.kept:
        yield f"{indent}kept: {kept.address}: {kept.reason}"
    if plan.extras:
        named = _some([address(each) for each in plan.extras])
        yield f"{indent}extra, in owns and in no file (--prune deletes): {named}"
    yield from (f"{indent}warning: {warning}" for warning in plan.warnings)
    if promises:
        yield "Work queues:"
        for promise in promises:
            yield from (f"{indent}{line}" for line in _promise(promise))
    if needed := _needed(plan.steps):
        yield f"Requires: {needed}."
    if not (plan.changes or plan.blocked):
        yield f"Nothing to change: all {plan.unchanged} objects are as declared."
    yield summary_line(plan)


def _change(change: Change) -> Iterator[str]:
    yield f"{judged.symbol(change)} {judged.address(change)}"
    for difference in judged.differences_of(change):
        yield f"    {difference}"
    if isinstance(change, UpdateLossy):
        yield f"    may drop messages: {judged.reason(change)}"
    if isinstance(change, Replace):
        yield f"    blocked: {judged.reason(change)}"
        if change.bindings:
            yield f"    bound by: {_some([address(each).removeprefix('binding ') for each in change.bindings])}"


def _promise(promise: Promise) -> Iterator[str]:
    yield f"{promise.queue}: {promise.guarantee}; {promise.quorum_queues} quorum queues"
    yield f"    retries: {promise.retries}"
    yield f"    limits: {promise.limit}"


def _needed(steps: Iterable[Change]) -> str:
    """Sum up what the user needs: the tag first, then each permission with its names."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    tagged = False
    for step in steps:
        for need in judged.requires(step):
            permission, _, name = need.partition(" ")
            tagged |= need == POLICYMAKER
            if name:
                names[permission][name] = None
    parts = [f"the tag {POLICYMAKER}"] if tagged else []
    parts += [f"permission to {permission} {_some(list(named), _NEEDED)}" for permission, named in names.items()]
    return "; ".join(parts)


def _some(names: list[str], most: int = _SHOWN) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
