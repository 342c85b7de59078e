"""Policies of other people that win over ours. Pure.

RabbitMQ applies to a queue or exchange the one matching policy of the highest priority, whole or not at all; among
equal priorities it does not say which. Operator policies are merged over that one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from amqpkit.model import Exchange, Policy, Queue, Topology

_KINDS: Final = {
    "classic_queues": "classic",
    "quorum_queues": "quorum",
    "streams": "stream",
}
_SHOWN: Final = 3


def shadows(wanted: Topology, actual: Topology, operator_policies: Iterable[Policy] = ()) -> tuple[str, ...]:
    """Say which policies keep ours from being what an object of ours has, one sentence each.

    `actual` is the vhost as it is after applying.
    """
    operators = tuple(operator_policies)
    ours = {policy.name for policy in wanted.policies}
    foreign = [policy for policy in actual.policies if policy.name not in ours]
    found: dict[str, list[str]] = defaultdict(list)
    declarations: tuple[Queue | Exchange, ...] = (*wanted.queues, *wanted.exchanges)
    for declared in declarations:
        mine = _winner(wanted.policies, declared)
        theirs = _winner(foreign, declared)
        if mine and theirs and theirs.priority >= mine.priority:
            found[_loss(mine, theirs)].append(declared.name)
        if capped := _winner(operators, declared):
            keys = ", ".join(sorted(capped.definition))
            found[f'operator policy "{capped.name}" also rules ({keys})'].append(declared.name)
    unread = [_unreadable(policy) for policy in (*foreign, *operators) if _compiled(policy.pattern) is None]
    return (*(f"{what}: {_some(names)}" for what, names in found.items()), *unread)


def applies(policy: Policy, declared: Queue | Exchange) -> bool:
    """Tell whether a policy reaches an object; Python reads its pattern, which is close to RabbitMQ's PCRE."""
    pattern = _compiled(policy.pattern)
    if pattern is None or not pattern.search(declared.name):
        return False
    if policy.apply_to == "all":
        return True
    if isinstance(declared, Exchange):
        return policy.apply_to == "exchanges"
    return policy.apply_to == "queues" or _KINDS.get(policy.apply_to) == declared.type


def _winner(policies: Iterable[Policy], declared: Queue | Exchange) -> Policy | None:
    matching = (policy for policy in policies if applies(policy, declared))
    return max(matching, key=lambda policy: policy.priority, default=None)


def _loss(mine: Policy, theirs: Policy) -> str:
    verb = "wins over" if theirs.priority > mine.priority else "has the same priority as"
    return f'policy "{theirs.name}" (priority {theirs.priority}) {verb} "{mine.name}" ({mine.priority})'


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _unreadable(policy: Policy) -> str:
    return f'policy "{policy.name}" has a pattern that only RabbitMQ can read; whether it wins over ours is not known'


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
