"""What rules each queue before and after a plan: policies, operator policies, and the settings they come to. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.changes import Update, UpdateLossy
from amqpkit.declare.plan.differences import differences
from amqpkit.declare.plan.losses import keeps_in_two_steps, losses
from amqpkit.declare.plan.reach import Reach
from amqpkit.declare.plan.settings import Setting, settings
from amqpkit.model import Policy, Queue, Topology

_LENGTHS = ("max-length", "max-length-bytes")


class Rule:
    """The policies of a vhost as they are, as they will be, and the operators' over them."""

    def __init__(self, wanted: Topology, actual: Actual, gone: Iterable[Policy] = ()) -> None:
        """Prepare both; `gone` are policies that the plan deletes."""
        ours = {policy.name for policy in wanted.policies} | {policy.name for policy in gone}
        self.foreign = tuple(policy for policy in actual.topology.policies if policy.name not in ours)
        self.before = Reach(actual.topology.policies)
        self.after = Reach((*self.foreign, *wanted.policies))
        self.operators = Reach(actual.surroundings.operator_policies)

    def settings_before(self, queue: Queue) -> Mapping[str, Setting]:
        """Give what the queue obeys now."""
        return settings(queue, self.before.ruling(queue), self.operators.ruling(queue))

    def settings_after(self, queue: Queue) -> Mapping[str, Setting]:
        """Give what the queue will obey."""
        return settings(queue, self.after.ruling(queue), self.operators.ruling(queue))

    def possible_settings(self, queue: Queue) -> Iterator[Mapping[str, Setting]]:
        """Give what the queue may obey: once for each policy of the highest priority, of which any may rule."""
        reaching, operator = self.after.reaching(queue), self.operators.ruling(queue)
        if not reaching:
            yield settings(queue, None, operator)
        for policy in reaching:
            if policy.priority == reaching[0].priority:
                yield settings(queue, policy, operator)


@dataclass(slots=True)
class _Toll:
    """What one policy's change would cost, by loss; and whether two steps help."""

    queues: dict[str, list[str]]
    in_two_steps: bool = False


def policy_changes(wanted: Topology, actual: Actual, rule: Rule) -> Mapping[str, Update | UpdateLossy]:
    """Judge every policy of the file that differs, and every new one that may drop messages, by its name."""
    found = {policy.name: policy for policy in actual.topology.policies}
    changed = {policy.name: policy for policy in wanted.policies if _differs(found.get(policy.name), policy)}
    tolls = _tolls(changed, actual.topology.queues, rule)
    return dict(_judged(changed, found, tolls))


def _judged(
    changed: Mapping[str, Policy], found: Mapping[str, Policy], tolls: Mapping[str, _Toll]
) -> Iterator[tuple[str, Update | UpdateLossy]]:
    for name, wanted in changed.items():
        there, toll = found.get(name), tolls.get(name)
        differing = differences(there, wanted) if there else ()
        if toll:
            costs = tuple(f"{loss} ({some(queues)})" for loss, queues in toll.queues.items())
            first = _first(there, wanted) if toll.in_two_steps else None
            yield name, UpdateLossy(wanted, there, differing, costs, first)
        elif there:
            yield name, Update(wanted, there, differing)


def _differs(found: Policy | None, wanted: Policy) -> bool:
    return found is None or bool(differences(found, wanted))


def _tolls(changed: Mapping[str, Policy], queues: Iterable[Queue], rule: Rule) -> Mapping[str, _Toll]:
    """Ask each queue that is there what it would drop, and put it on the account of the policy that changes."""
    tolls: dict[str, _Toll] = {}
    for queue in queues if changed else ():
        then, now = rule.after.ruling(queue), rule.before.ruling(queue)
        culprit = next((each for each in (then, now) if each and each.name in changed), None)
        if culprit is None:
            continue
        operator = rule.operators.ruling(queue)
        before, after = settings(queue, now, operator), settings(queue, then, operator)
        for loss in losses(queue, before, after):
            toll = tolls.setdefault(culprit.name, _Toll({}))
            toll.queues.setdefault(loss, []).append(queue.name)
            toll.in_two_steps |= keeps_in_two_steps(queue, before, after)
    return tolls


def _first(found: Policy | None, wanted: Policy) -> Policy:
    """Give the policy that only sets the overflow; lengths stay what they were."""
    old = found.definition if found else {}
    kept = {key: old[key] for key in _LENGTHS if key in old}
    others = {key: value for key, value in wanted.definition.items() if key not in _LENGTHS}
    return Policy(wanted.name, wanted.pattern, {**others, **kept}, wanted.apply_to, wanted.priority)


def some(names: Iterable[str], most: int = 3) -> str:
    """List a few names, and say how many more there are."""
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more:,} more" if more > 0 else "")
