"""In what a vhost has drifted from its file: missing, changed, shadowed, tightened, extra. Pure.

Judged from the objects themselves, never from statistics, which lag by seconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.declare.identity import address
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.differences import Difference
from amqpkit.declare.plan.document import plain
from amqpkit.declare.plan.obstacles import OURS
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.declare.plan.reach import Reach
from amqpkit.declare.plan.rule import Rule
from amqpkit.declare.plan.settings import Setting, settings, value_of
from amqpkit.model import Policy, Topology

KINDS: Final = ("missing", "changed", "shadowed", "tightened", "extra")


@dataclass(frozen=True, slots=True)
class Drifted:
    """One object that is not as the file has it, in what, and by whom where somebody else's policy does it."""

    kind: str
    address: str
    differences: tuple[Difference, ...] = ()
    by: str = ""

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        what = f" ({'; '.join(map(str, self.differences))})" if self.differences else ""
        return f"{self.kind}: {self.address}{by}{what}"


@dataclass(frozen=True, slots=True)
class Drift:
    """All that has drifted, and what cannot be known."""

    found: tuple[Drifted, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def summary(self) -> Mapping[str, int]:
        """How many of each kind there are."""
        return {kind: sum(each.kind == kind for each in self.found) for kind in KINDS}


def find_drift(wanted: Topology, actual: Actual, accepted: frozenset[str] = frozenset()) -> Drift:
    """Compare; policies in `accepted` may shadow and tighten."""
    plan = make_plan(wanted, actual, Wishes(accepted=accepted))
    rule = Rule(wanted, actual)
    found = [_of_change(change) for change in plan.changes if not isinstance(change, judged.Delete)]
    found += [each for author, each in _ruled(wanted, rule) if author not in accepted]
    fences = (each.unwanted for each in plan.steps if isinstance(each, judged.Delete))
    found += [Drifted("extra", address(each)) for each in (*plan.extras, *fences)]
    order = {kind: position for position, kind in enumerate(KINDS)}
    found.sort(key=lambda each: order[each.kind])
    unknown = tuple(warning for warning in plan.warnings if "only RabbitMQ can read" in warning)
    return Drift(tuple(found), unknown)


def document(drift: Drift) -> dict[str, Any]:
    """Give a drift as dicts, lists and scalars."""
    found = [
        {"kind": each.kind, "address": each.address, "properties": plain(each.differences), "by": each.by}
        for each in drift.found
    ]
    return {"drift": found, "summary": dict(drift.summary), "warnings": list(drift.warnings)}


def _of_change(change: judged.Change) -> Drifted:
    if judged.before(change) is None:
        return Drifted("missing", judged.address(change))
    return Drifted("changed", judged.address(change), judged.differences_of(change))


def _ruled(wanted: Topology, rule: Rule) -> Iterator[tuple[str, Drifted]]:
    """Find the queues that other people's policies rule, by the policies' names."""
    mine = Reach(wanted.policies)
    ours = {policy.name for policy in wanted.policies}
    for queue in wanted.queues:
        own, ruling = mine.ruling(queue), rule.after.ruling(queue)
        rival = _rival(own, rule.after.reaching(queue), ours)
        if rival is not None:
            by = f'policy "{rival.name}" (priority {rival.priority})'
            apart = _apart(settings(queue, own), settings(queue, rival))
            yield rival.name, Drifted("shadowed", address(queue), apart, by)
        operator = rule.operators.ruling(queue)
        if operator is not None:
            before, after = settings(queue, ruling), settings(queue, ruling, operator)
            if apart := _apart(before, after):
                by = f'operator policy "{operator.name}"'
                yield operator.name, Drifted("tightened", address(queue), apart, by)


def _rival(own: Policy | None, reaching: tuple[Policy, ...], ours: set[str]) -> Policy | None:
    """Give the policy of somebody else that wins over ours, or that would win over any of ours."""
    other = next((policy for policy in reaching if policy.name not in ours), None)
    if other is None or other.priority < (own.priority if own else OURS):
        return None
    return other


def _apart(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> tuple[Difference, ...]:
    keys = dict.fromkeys((*before, *after))
    values = ((key, value_of(before, key), value_of(after, key)) for key in keys)
    return tuple(Difference(key, _spelled(old), _spelled(new)) for key, old, new in values if old != new)


def _spelled(value: Any) -> str:
    return "not set" if value is None else str(value)
